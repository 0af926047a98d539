// Command midair-slurmctld-hook is PrologSlurmctld, EpilogSlurmctld and
// ResumeFailProgram in one; which one, it reads from SLURM_SCRIPT_CONTEXT.
package main

import (
	"fmt"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/midair-hpc/midair/internal/hook"
	"github.com/midair-hpc/midair/internal/hook/slurmctld"
)

// version is set when midair is built.
var version = "devel"

func main() {
	app := &cli.App{
		Name:      "midair-slurmctld-hook",
		Usage:     "Slurm's PrologSlurmctld, EpilogSlurmctld and ResumeFailProgram (without SLURM_SCRIPT_CONTEXT)",
		ArgsUsage: "[HOSTLIST]",
		Version:   version,
		// A node may be called help.
		HideHelpCommand: true,
		Action: func(c *cli.Context) error {
			os.Exit(slurmctld.Run(c.Args().Slice()))
			return nil
		},
	}
	if err := app.Run(os.Args); err != nil {
		fmt.Fprintln(os.Stderr, "midair-slurmctld-hook:", err)
		os.Exit(hook.ExitUsage)
	}
}
