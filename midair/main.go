// Command midair is what people type, and the controller daemon.
package main

import (
	"fmt"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/midair-hpc/midair/internal/config"
)

// version is set when midair is built.
var version = "devel"

func main() {
	// urfave/cli's own flag takes -h, which in status is Slurm's "no header".
	cli.HelpFlag = helpFlag()
	if err := app().Run(os.Args); err != nil {
		fmt.Fprintln(os.Stderr, "midair:", err)
		os.Exit(1)
	}
}

func app() *cli.App {
	a := &cli.App{
		Name:                   "midair",
		HelpName:               "midair",
		Usage:                  "in-flight refuelling for Slurm: cloud nodes for as long as the peak lasts",
		Version:                version,
		HideVersion:            true, // -v is verbose here, as in Slurm; -V is version
		EnableBashCompletion:   true,
		UseShortOptionHandling: true,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "config", Aliases: []string{"f"}, Value: config.Path(), Usage: "read `FILE` instead of " + config.DefaultPath},
			&cli.BoolFlag{Name: "version", Aliases: []string{"V"}, Usage: "print the version and exit", DisableDefaultText: true},
			helpFlag(),
			shortHelpFlag(),
		},
		Action: func(c *cli.Context) error {
			if c.Bool("version") {
				_, err := fmt.Fprintln(c.App.Writer, "midair", version)
				return err
			}
			if c.NArg() == 0 {
				return cli.ShowAppHelp(c)
			}
			return noCommand(c.App.Commands, c.Args().First(), "midair help")
		},
		OnUsageError: onUsageError,
		Commands: []*cli.Command{
			statusCommand(),
			whyCommand(),
			reconcileCommand(),
			slurmconfCommand(),
			planCommand(),
			quotaCommand(),
			configCommand(),
			hostlistCommand(),
			awsCommand(),
			localCommand(),
			ec2simCommand(),
			controllerCommand(),
			demoCommand(),
			versionCommand(),
			helpCommand(),
		},
	}
	prepare(a.Commands)
	return a
}
