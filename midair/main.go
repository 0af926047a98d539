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
	if err := app().Run(os.Args); err != nil {
		fmt.Fprintln(os.Stderr, "midair:", err)
		os.Exit(1)
	}
}

func app() *cli.App {
	a := &cli.App{
		Name:                   "midair",
		Usage:                  "in-flight refuelling for Slurm: cloud nodes for as long as the peak lasts",
		Version:                version,
		HideVersion:            true, // -v is verbose here, as in Slurm; -V is version
		EnableBashCompletion:   true,
		UseShortOptionHandling: true,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "config", Aliases: []string{"f"}, Value: config.Path(), Usage: "read `FILE` instead of " + config.DefaultPath},
			&cli.BoolFlag{Name: "version", Aliases: []string{"V"}, Usage: "print the version and exit"},
		},
		Suggest: true,
		Before: func(c *cli.Context) error {
			if c.Bool("version") {
				fmt.Fprintln(c.App.Writer, "midair", version)
				return cli.Exit("", 0)
			}
			return nil
		},
		Action: func(c *cli.Context) error {
			if c.NArg() == 0 {
				return cli.ShowAppHelp(c)
			}
			if near := cli.SuggestCommand(c.App.Commands, c.Args().First()); near != "" {
				return fmt.Errorf("no command %q. %s midair help lists them all", c.Args().First(), near)
			}
			return fmt.Errorf("no command %q: midair help lists them all", c.Args().First())
		},
		OnUsageError: onUsageError,
		Commands: []*cli.Command{
			statusCommand(),
			whyCommand(),
			reconcileCommand(),
			slurmconfCommand(),
			configCommand(),
			hostlistCommand(),
			localCommand(),
			controllerCommand(),
			demoCommand(),
			versionCommand(),
		},
	}
	oneLineErrors(a.Commands)
	return a
}

// onUsageError keeps a wrong option to one line; urfave/cli would print the
// whole help before it.
func onUsageError(c *cli.Context, err error, _ bool) error {
	return fmt.Errorf("%w; see midair %s --help", err, c.Command.Name)
}

func oneLineErrors(commands []*cli.Command) {
	for _, c := range commands {
		c.OnUsageError = onUsageError
		oneLineErrors(c.Subcommands)
	}
}
