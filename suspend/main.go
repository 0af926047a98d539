// Command midair-suspend is Slurm's SuspendProgram: records the request and returns in milliseconds.
package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/midair-hpc/midair/internal/hook"
	"github.com/midair-hpc/midair/internal/spool"
)

// version is set when midair is built.
var version = "devel"

func main() {
	// What slurmctld calls takes the short way; the rest is for people.
	if len(os.Args) == 2 && !strings.HasPrefix(os.Args[1], "-") {
		os.Exit(hook.Record(spool.Suspend, os.Args[1:]))
	}
	app := &cli.App{
		Name: "midair-suspend", Usage: "Slurm's SuspendProgram: records the request and returns in milliseconds", ArgsUsage: "HOSTLIST", Version: version,
		Action: func(c *cli.Context) error {
			os.Exit(hook.Record(spool.Suspend, c.Args().Slice()))
			return nil
		},
	}
	if err := app.Run(os.Args); err != nil {
		fmt.Fprintln(os.Stderr, "midair-suspend:", err)
		os.Exit(hook.ExitUsage)
	}
}
