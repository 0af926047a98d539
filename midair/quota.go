package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/urfave/cli/v2"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/cloud/open"
	"github.com/midair-hpc/midair/internal/config"
)

func quotaCommand() *cli.Command {
	return &cli.Command{
		Name:  "quota",
		Usage: "say whether the clouds' quotas are high enough for the pools, before the peak",
		Description: "Sets what the pools could ask for at most beside the account's limits and what\n" +
			"runs in it now. Prints what to request and the command that requests it.\n" +
			"Exits 1 if a pool cannot be filled.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "provider", Usage: "only the provider of this `NAME`"},
			&cli.BoolFlag{Name: "json", Usage: "for programs"},
		},
		Action: func(c *cli.Context) error {
			cfg, err := config.Load(c.String("config"))
			if err != nil {
				return err
			}
			providers, err := open.All(cfg, time.Now, slog.New(slog.NewTextHandler(os.Stderr, nil)))
			if err != nil {
				return err
			}
			report, err := quotas(c.Context, cfg, providers, c.String("provider"))
			if err != nil {
				return err
			}
			if c.Bool("json") {
				if err := writeJSON(c.App.Writer, report); err != nil {
					return err
				}
			} else {
				quotaTable(c.App.Writer, report)
			}
			return report.err()
		},
	}
}

// providerQuotas is what `midair quota --json` lists. The keys are stable.
type providerQuotas struct {
	Provider string `json:"provider"`
	cloud.LimitReport
}

type quotaReport []providerQuotas

// quotas asks the providers that have limits.
func quotas(ctx context.Context, cfg *config.Config, providers map[string]cloud.Provider, only string) (quotaReport, error) {
	report := quotaReport{}
	if _, ok := providers[only]; only != "" && !ok {
		return nil, fmt.Errorf("quota: midair.yaml has no provider %q", only)
	}
	for _, p := range cfg.Providers {
		r, ok := providers[p.Name].(cloud.LimitReporter)
		if !ok || (only != "" && only != p.Name) {
			continue
		}
		var pools []cloud.PoolSize
		for _, pool := range cfg.Pools {
			if pool.Provider == p.Name {
				pools = append(pools, cloud.PoolSize{Name: pool.Name, Nodes: len(pool.NodeNames), Offerings: pool.Offerings})
			}
		}
		limits, err := r.Limits(ctx, cfg.Cluster, pools)
		if err != nil {
			return nil, fmt.Errorf("ask provider %s for its quotas: %w", p.Name, err)
		}
		report = append(report, providerQuotas{p.Name, limits})
	}
	return report, nil
}

// err says which pools cannot be filled.
func (r quotaReport) err() error {
	var words []string
	for _, p := range r {
		for _, f := range p.Pools {
			if f.Fit < f.Nodes {
				words = append(words, fmt.Sprintf("%d of the %d nodes of pool %s", f.Fit, f.Nodes, f.Pool))
			}
		}
	}
	if len(words) == 0 {
		return nil
	}
	return errors.New("the quotas allow only " + strings.Join(words, ", "))
}

func quotaTable(w io.Writer, r quotaReport) {
	if len(r) == 0 {
		fmt.Fprintln(w, "no provider has quotas")
		return
	}
	t := plainTable(w)
	t.AppendHeader(table.Row{"PROVIDER", "QUOTA", "CODE", "LIMIT", "IN USE", "POOLS COULD ASK", "REQUEST", "POOLS"})
	var right []table.ColumnConfig
	for n := 4; n <= 7; n++ {
		right = append(right, table.ColumnConfig{Number: n, Align: text.AlignRight, AlignHeader: text.AlignRight})
	}
	t.SetColumnConfigs(right)
	var commands []string
	for _, p := range r {
		for _, l := range p.Limits {
			request := "-"
			if l.Request > 0 {
				request = fmt.Sprint(l.Request)
				commands = append(commands, l.Command)
			}
			t.AppendRow(table.Row{p.Provider, l.Name, l.Code, l.Limit, l.InUse, l.Wanted, request, strings.Join(l.Pools, ",")})
		}
	}
	t.Render()
	fmt.Fprintln(w, "\nLimits count vCPUs.")
	if len(commands) > 0 {
		fmt.Fprintln(w, "\nTo have all pools full at once, even from the dearest of their types:")
		fmt.Fprintln(w, "  "+strings.Join(slices.Compact(commands), "\n  "))
	}
}

// plainTable is a table without lines.
func plainTable(w io.Writer) table.Writer {
	t := table.NewWriter()
	t.SetOutputMirror(w)
	style := table.StyleDefault
	style.Options = table.OptionsNoBordersAndSeparators
	style.Box.PaddingLeft = ""
	style.Box.PaddingRight = "  "
	t.SetStyle(style)
	return t
}
