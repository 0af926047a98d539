package slurmctld

import (
	"errors"
	"log/slog"
	"os/exec"
	"time"
)

// pipeGrace is how long the output of a site's program is waited for after it
// has ended: a child that it left in the background may keep it open for ever.
const pipeGrace = 2 * time.Second

// runSite runs the site's own program with the same environment and without
// arguments, as slurmctld would, and gives its exit code. It waits until the
// program ends: slurmctld sends its signals to both of them, and the program
// decides for itself what they mean.
//
// A program that cannot be started counts as failed, as it would if slurm.conf
// named it: what it should have seen to has not been done. So does one that a
// signal has ended.
func runSite(log *slog.Logger, path string) int {
	if path == "" {
		return 0
	}
	cmd := exec.Command(path)
	out := &lines{log: log, program: path}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.WaitDelay = pipeGrace
	err := cmd.Run()
	out.flush()
	if err == nil || errors.Is(err, exec.ErrWaitDelay) { // the latter only if it exited 0
		return 0
	}
	log.Warn("the site's program failed", "program", path, "err", err)
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() > 0 {
		return exit.ExitCode()
	}
	return 1
}
