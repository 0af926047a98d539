package hook

import (
	"fmt"
	"os"
	"strings"

	"github.com/midair-hpc/midair/internal/spool"
)

// Main is the whole of midair-resume and midair-suspend; it gives the exit
// code. They have no flags but help and version, and slurmctld calls them
// thousands of times, so they do without a command line library: urfave/cli
// takes longer to set itself up than the request takes to record.
func Main(program, setting, version string, kind spool.Kind, args []string) int {
	if len(args) == 1 && strings.HasPrefix(args[0], "-") {
		switch args[0] {
		case "-h", "-help", "--help":
			fmt.Printf(`%s is Slurm's %s: it records the request and returns in milliseconds.

Usage: %s HOSTLIST

  HOSTLIST       nodes as Slurm gives them, such as gpu-[1-4]
  --help, -h     show this
  --version, -v  show the version

%s is the spool folder (default %s), MIDAIR_CONFIG the configuration.
`, program, setting, program, spool.EnvDir, spool.DefaultDir)
			return ExitOK
		case "-v", "-version", "--version":
			fmt.Printf("%s version %s\n", program, version)
			return ExitOK
		}
		fmt.Fprintf(os.Stderr, "%s: unknown flag %s; --help shows what there is\n", program, args[0])
		return ExitUsage
	}
	return Record(kind, args)
}
