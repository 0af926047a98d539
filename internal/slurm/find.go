package slurm

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// usualBinDirs is where packages and sites put Slurm's commands. Hooks run by
// slurmctld get no PATH, and a PATH would decide which scontrol midair trusts.
var usualBinDirs = []string{
	"/usr/bin", "/usr/local/bin", "/opt/slurm/bin", "/opt/slurm/current/bin", "/usr/local/slurm/bin",
	"/opt/slurm/default/bin", "/usr/sbin",
}

// Programs are the commands of Slurm's that midair and its documentation use.
var Programs = []string{scontrol, squeue, "sinfo", "sacct"}

// Find gives the absolute path of one of Slurm's commands, searched in binDir,
// or in the usual folders if that is empty, never in PATH.
func Find(binDir, program string) (string, error) { return find(binDir, program) }

// find gives the absolute path of one of Slurm's commands. With a folder set
// by the admin only that one is searched: another Slurm's scontrol elsewhere
// would speak to another cluster.
func find(binDir, program string) (string, error) {
	dirs := usualBinDirs
	if binDir != "" {
		dirs = []string{binDir}
	}
	for _, d := range dirs {
		path := filepath.Join(d, program)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path, nil
		}
	}
	return "", fmt.Errorf("find Slurm's command %s: no executable in %s; set slurm.bin_dir in midair.yaml to the folder that holds it",
		program, strings.Join(dirs, ", "))
}
