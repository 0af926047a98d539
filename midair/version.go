package main

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/midair-hpc/midair/internal/config"
	"github.com/midair-hpc/midair/internal/slurm"
)

func versionCommand() *cli.Command {
	return &cli.Command{
		Name:  "version",
		Usage: "print the version",
		Flags: []cli.Flag{&cli.BoolFlag{Name: "verbose", Aliases: []string{"v"}, Usage: "Slurm's version and commands as well"}},
		Action: func(c *cli.Context) error {
			fmt.Fprintln(c.App.Writer, "midair", version)
			if !c.Bool("verbose") {
				return nil
			}
			return printSlurm(c)
		},
	}
}

// printSlurm says which Slurm midair would use here.
func printSlurm(c *cli.Context) error {
	cfg, err := config.Load(c.String("config"))
	if err != nil {
		return err
	}
	client, err := slurm.NewCommands(slurm.Options{BinDir: cfg.Slurm.BinDir, Conf: cfg.Slurm.Conf})
	if err != nil {
		return err
	}
	v, err := client.Version(context.Background())
	if err != nil {
		return err
	}
	fmt.Fprintln(c.App.Writer, "Slurm", v)
	for _, p := range slurm.Programs {
		path, err := slurm.Find(cfg.Slurm.BinDir, p)
		if err != nil {
			return err
		}
		fmt.Fprintf(c.App.Writer, "%-8s %s\n", p, path)
	}
	return nil
}
