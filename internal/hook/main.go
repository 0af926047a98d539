package hook

import (
	"os"
	"strings"

	"github.com/midair-hpc/midair/internal/spool"
)

// Main is the whole of midair-resume and midair-suspend; it gives the exit
// code. They have no flags but help and version, and slurmctld calls them
// thousands of times, so they do without a command line library: urfave/cli
// takes longer to set itself up than the request takes to record. The same goes
// for fmt, encoding/json and log/slog, which a call of Record must not reach.
func Main(program, setting, version string, kind spool.Kind, args []string) int {
	if len(args) == 1 && strings.HasPrefix(args[0], "-") {
		switch args[0] {
		case "-h", "-help", "--help":
			_, _ = os.Stdout.WriteString(program + " is Slurm's " + setting + `: it records the request and returns in milliseconds.

Usage: ` + program + ` HOSTLIST

  HOSTLIST       nodes as Slurm gives them, such as gpu-[1-4]
  --help, -h     show this
  --version, -v  show the version

` + spool.EnvDir + ` is the spool folder (default ` + spool.DefaultDir + `), MIDAIR_CONFIG the configuration.
`)
			return ExitOK
		case "-v", "-version", "--version":
			_, _ = os.Stdout.WriteString(program + " version " + version + "\n")
			return ExitOK
		}
		_, _ = os.Stderr.WriteString(program + ": unknown flag " + args[0] + "; --help shows what there is\n")
		return ExitUsage
	}
	return Record(kind, args)
}
