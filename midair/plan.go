package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/cloud/open"
	"github.com/midair-hpc/midair/internal/config"
	"github.com/midair-hpc/midair/internal/forecast"
	"github.com/midair-hpc/midair/internal/ledger"
	"github.com/midair-hpc/midair/internal/planner"
)

// priceTimeout bounds how long a plan waits for prices.
const priceTimeout = 30 * time.Second

func planCommand() *cli.Command {
	return &cli.Command{
		Name:  "plan",
		Usage: "show what would be bought for a job, where and at what price; buys nothing",
		Description: "The options are sbatch's; those on the command line win over those in the script.\n" +
			"Exits 1 if nothing can be bought for the job now.\n\n" +
			"Examples:\n" +
			"  midair plan -n 4 -q p2\n" +
			"  midair plan -q p1 --script train.sh",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "nodes", Aliases: []string{"n", "N"}, Usage: "how many `NODES`, or a hostlist"},
			&cli.StringFlag{Name: "qos", Aliases: []string{"q"}, Usage: "the job's `QOS`"},
			&cli.StringFlag{Name: "partition", Aliases: []string{"p"}, Usage: "only this `POOL`"},
			&cli.StringFlag{Name: "nodelist", Aliases: []string{"w"}, Usage: "exactly these nodes, a `HOSTLIST`"},
			&cli.StringFlag{Name: "time", Aliases: []string{"t"}, Usage: "the job's time limit, `D-HH:MM:SS`"},
			&cli.StringFlag{Name: "deadline", Usage: "`TIME` at which the job must have ended"},
			&cli.StringFlag{Name: "gpus-per-node", Usage: "`N` GPUs, or TYPE:N"},
			&cli.StringFlag{Name: "script", Usage: "a job script; its #SBATCH lines are read from `FILE`"},
			&cli.BoolFlag{Name: "json", Usage: "for programs"},
		},
		Action: runPlan,
	}
}

func runPlan(c *cli.Context) error {
	now := time.Now()
	job, err := jobAsked(c, now)
	if err != nil {
		return fmt.Errorf("plan: %w", err)
	}
	cfg, err := config.Load(c.String("config"))
	if err != nil {
		return err
	}
	in := forecast.Input{Config: cfg, Now: now}
	if in.Memory, err = remembered(c.Context, cfg); err != nil {
		return err
	}
	providers, err := open.All(cfg, time.Now, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if err != nil {
		return err
	}
	in.Prices = prices(c.Context, cfg, providers)
	in.Bucket = func(k planner.Key) string {
		if p, ok := providers[k.Provider].(interface {
			QuotaBucket(o cloud.Offering) string
		}); ok {
			return p.QuotaBucket(k.Offering)
		}
		return ""
	}
	f, err := forecast.Make(in, job)
	if err != nil {
		return fmt.Errorf("plan: %w", err)
	}
	if c.Bool("json") {
		err = writeJSON(c.App.Writer, f)
	} else {
		err = f.Write(c.App.Writer, now)
	}
	if err == nil && !f.Served() {
		return cli.Exit("", 1)
	}
	return err
}

// jobAsked puts the command line's options over the script's.
func jobAsked(c *cli.Context, now time.Time) (forecast.Job, error) {
	o := forecast.Options{}
	if path := c.String("script"); path != "" {
		f, err := os.Open(path)
		if err != nil {
			return forecast.Job{}, fmt.Errorf("read job script: %w", err)
		}
		defer f.Close()
		if o, err = forecast.ReadScript(f); err != nil {
			return forecast.Job{}, fmt.Errorf("%s: %w", path, err)
		}
	}
	for _, name := range []string{"nodes", "qos", "partition", "nodelist", "time", "deadline", "gpus-per-node"} {
		if v := c.String(name); v != "" {
			o[name] = v
		}
	}
	if o["qos"] == "" {
		return forecast.Job{}, fmt.Errorf("which QOS? say it with -q, such as -q p2")
	}
	return o.Job(now)
}

// remembered reads capacity memory from the ledger, if there is one.
func remembered(ctx context.Context, cfg *config.Config) ([]ledger.MemoryEntry, error) {
	o, err := readLedger(ctx, cfg)
	if err != nil || o == nil {
		return nil, err
	}
	defer o.Close()
	return o.Memory(ctx)
}

// prices asks the providers; one that does not answer is said, and its prices
// are not known then.
func prices(ctx context.Context, cfg *config.Config, providers map[string]cloud.Provider) map[planner.Key]cloud.MicroUSD {
	ctx, cancel := context.WithTimeout(ctx, priceTimeout)
	defer cancel()
	known := map[planner.Key]cloud.MicroUSD{}
	for _, p := range cfg.Pools {
		quotes, err := providers[p.Provider].Quotes(ctx, p.Offerings)
		if err != nil {
			fmt.Fprintf(os.Stderr, "midair: prices of pool %s are not known: %v\n", p.Name, err)
			continue
		}
		for _, q := range quotes {
			known[planner.Key{Provider: p.Provider, Offering: q.Offering}] = q.Price
		}
	}
	return known
}
