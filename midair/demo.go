package main

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/midair-hpc/midair/internal/demo"
)

func demoCommand() *cli.Command {
	return &cli.Command{
		Name:  "demo",
		Usage: "tell midair's story on a private Slurm on this machine (root; about a minute; nothing is left)",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "output", Usage: "write the figures as JSON to `FILE`"},
			&cli.StringFlag{Name: "cloud", Value: "local", Usage: "the story's `CLOUD`: " + strings.Join(demo.Clouds, ", ")},
			&cli.StringFlag{Name: "programs", Usage: "`DIR` with midair's programs; default: where this one is"},
		},
		Action: func(c *cli.Context) error {
			dir := c.String("programs")
			if dir == "" {
				self, err := os.Executable()
				if err != nil {
					return fmt.Errorf("find midair's programs: %w", err)
				}
				dir = filepath.Dir(self)
			}
			ctx, stop := signal.NotifyContext(c.Context, syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			return demo.Run(ctx, demo.Options{Programs: dir, Output: c.String("output"), Out: c.App.Writer, Cloud: c.String("cloud")})
		},
	}
}
