package main

import (
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/midair-hpc/midair/internal/config"
)

func configCommand() *cli.Command {
	return &cli.Command{
		Name:  "config",
		Usage: "work on midair.yaml",
		Subcommands: []*cli.Command{{
			Name:      "check",
			Usage:     "say what is wrong with midair.yaml, line by line",
			ArgsUsage: "[FILE]",
			Description: "Checks FILE, or the file of --config, without touching Slurm or a cloud.\n" +
				"Exits 1 and prints one line per error if the file is wrong; warnings alone exit 0.",
			Action: runConfigCheck,
		}},
	}
}

func runConfigCheck(c *cli.Context) error {
	if c.NArg() > 1 {
		return fmt.Errorf("config check: want at most one FILE, got %d", c.NArg())
	}
	file := c.String("config")
	if c.NArg() == 1 {
		file = c.Args().First()
	}
	cfg, err := config.Load(file)
	var problems config.Problems
	if errors.As(err, &problems) {
		for _, p := range problems {
			fmt.Fprintln(c.App.ErrWriter, p)
		}
		return cli.Exit("", 1)
	}
	if err != nil {
		return err
	}
	for _, w := range cfg.Warnings {
		fmt.Fprintln(c.App.ErrWriter, "warning:", w)
	}
	nodes := 0
	for i := range cfg.Pools {
		nodes += len(cfg.Pools[i].NodeNames)
	}
	_, err = fmt.Fprintf(c.App.Writer, "%s: ok: cluster %s, %s, %s with %s, %s\n", file, cfg.Cluster,
		counted(len(cfg.Providers), "provider"), counted(len(cfg.Pools), "pool"), counted(nodes, "node"), counted(len(cfg.Tiers), "tier"))
	return err
}

func counted(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}
