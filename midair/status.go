package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/midair-hpc/midair/internal/config"
	"github.com/midair-hpc/midair/internal/controller"
	"github.com/midair-hpc/midair/internal/hostlist"
	"github.com/midair-hpc/midair/internal/ledger"
	"github.com/midair-hpc/midair/internal/slurm"
	"github.com/midair-hpc/midair/internal/status"
)

func statusCommand() *cli.Command {
	return &cli.Command{
		Name:      "status",
		Usage:     "show pools, nodes, launches, and jobs that wait for nodes",
		ArgsUsage: "[" + strings.Join(status.Sections, "|") + "]...",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "nodes", Aliases: []string{"n", "w", "nodelist"}, Usage: "only `HOSTLIST`, with its pools, launches and jobs"},
			&cli.StringFlag{Name: "format", Aliases: []string{"o"}, Usage: "comma-separated `COLUMNS` of the one section named"},
			&cli.BoolFlag{Name: "noheader", Aliases: []string{"h"}, Usage: "no headings"},
			&cli.BoolFlag{Name: "json", Usage: "for programs"},
		},
		Action: runStatus,
	}
}

// opened is what the read-only commands work with.
type opened struct {
	cfg   *config.Config
	led   status.Ledger // nil where there is no ledger yet
	slurm slurm.Client
	close func()
}

func openReadOnly(ctx context.Context, c *cli.Context) (opened, error) {
	cfg, err := config.Load(c.String("config"))
	if err != nil {
		return opened{}, err
	}
	client, err := slurm.NewCommands(slurm.Options{BinDir: cfg.Slurm.BinDir, Conf: cfg.Slurm.Conf, Log: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		return opened{}, err
	}
	o := opened{cfg: cfg, slurm: client, close: func() {}}
	led, err := readLedger(ctx, cfg)
	if err != nil {
		return opened{}, err
	}
	if led != nil {
		o.led = led
		o.close = func() { led.Close() }
	}
	return o, nil
}

// readLedger opens the ledger for reading; nil: there is none yet.
func readLedger(ctx context.Context, cfg *config.Config) (*ledger.Ledger, error) {
	led, err := ledger.OpenReadOnly(ctx, cfg.Ledger)
	if errors.Is(err, ledger.ErrAbsent) {
		return nil, nil
	}
	return led, err
}

func runStatus(c *cli.Context) error {
	f := status.Format{Sections: c.Args().Slice(), NoHeader: c.Bool("noheader")}
	if cols := c.String("format"); cols != "" {
		f.Columns = strings.Split(cols, ",")
	}
	if err := f.Check(); err != nil {
		return fmt.Errorf("status: %w", err)
	}
	if c.Bool("json") && (c.NArg() > 0 || len(f.Columns) > 0 || f.NoHeader) {
		return errors.New("status: --json gives everything; leave out sections, -o and -h")
	}
	var names []string
	if list := c.String("nodes"); list != "" {
		var err error
		if names, err = hostlist.Expand(list); err != nil {
			return fmt.Errorf("status: %w", err)
		}
	}
	o, err := openReadOnly(c.Context, c)
	if err != nil {
		return err
	}
	defer o.close()
	for _, n := range names {
		if _, ok := o.cfg.PoolOf(n); !ok {
			return fmt.Errorf("status: node %q is in no pool of %s; sinfo -n %s shows what Slurm has", n, o.cfg.Path, n)
		}
	}
	v, err := status.Gather(c.Context, o.cfg, o.led, o.slurm, time.Now())
	if err != nil {
		return err
	}
	v.Controller.PID, v.Controller.Running = controller.Running(o.cfg)
	if len(names) > 0 {
		v.Only(names)
	}
	if c.Bool("json") {
		return writeJSON(c.App.Writer, v)
	}
	return v.Table(c.App.Writer, f, time.Now())
}

func whyCommand() *cli.Command {
	return &cli.Command{
		Name:      "why",
		Usage:     "say why a job does not run, or how it got its nodes",
		ArgsUsage: "JOBID",
		Flags:     []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "for programs"}},
		Action: func(c *cli.Context) error {
			id, err := strconv.Atoi(c.Args().First())
			if err != nil || c.NArg() != 1 || id <= 0 {
				return fmt.Errorf("why: want one job id, such as midair why 4711, of an array's task its own (squeue -O JobID); got %q", strings.Join(c.Args().Slice(), " "))
			}
			o, err := openReadOnly(c.Context, c)
			if err != nil {
				return err
			}
			defer o.close()
			w, err := status.Explain(c.Context, o.cfg, o.led, o.slurm, id)
			if err != nil {
				return err
			}
			if c.Bool("json") {
				return writeJSON(c.App.Writer, w)
			}
			w.Text(c.App.Writer, time.Now())
			return nil
		},
	}
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return nil
}
