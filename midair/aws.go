package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/midair-hpc/midair/internal/cloud/aws"
	"github.com/midair-hpc/midair/internal/cloud/open"
	"github.com/midair-hpc/midair/internal/config"
)

func awsCommand() *cli.Command {
	return &cli.Command{
		Name:  "aws",
		Usage: "work with providers of kind aws",
		Subcommands: []*cli.Command{{
			Name:  "check",
			Usage: "try credentials, permissions, launch templates, subnets, types, quotas and prices",
			Description: "Launches nothing: what changes something is tried with EC2's DryRun. One line\n" +
				"each; a line with ? could not be tried, or deserves a look. Exits 1 on any FAIL.",
			Flags: []cli.Flag{
				&cli.StringFlag{Name: "provider", Usage: "only the provider of this `NAME`"},
				&cli.BoolFlag{Name: "verbose", Aliases: []string{"v"}, Usage: "every permission on a line of its own"},
				&cli.BoolFlag{Name: "json", Usage: "for programs"},
			},
			Action: runAWSCheck,
		}},
	}
}

func runAWSCheck(c *cli.Context) error {
	cfg, err := config.Load(c.String("config"))
	if err != nil {
		return err
	}
	level := slog.LevelError
	if c.Bool("verbose") {
		level = slog.LevelInfo
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	all, err := checkAWS(c.Context, cfg, c.String("provider"), log)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		if err := writeJSON(c.App.Writer, all); err != nil {
			return err
		}
	} else {
		printChecks(c.App.Writer, all, c.Bool("verbose"))
	}
	return failedChecks(all)
}

// checkAWS checks the providers of kind aws, or the one that is named.
func checkAWS(ctx context.Context, cfg *config.Config, only string, log *slog.Logger) ([]checkedProvider, error) {
	var all []checkedProvider
	for _, p := range cfg.Providers {
		if p.Kind != "aws" || (only != "" && only != p.Name) {
			continue
		}
		a, err := open.AWS(cfg, p, time.Now, log)
		if err != nil {
			return nil, fmt.Errorf("open provider %s: %w", p.Name, err)
		}
		var pools []config.Pool
		for _, pool := range cfg.Pools {
			if pool.Provider == p.Name {
				pools = append(pools, pool)
			}
		}
		all = append(all, checkedProvider{p.Name, a.Check(ctx, cfg.Cluster, pools)})
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("aws check: midair.yaml has no provider of kind aws%s", named(only))
	}
	return all, nil
}

func failedChecks(all []checkedProvider) error {
	failed := 0
	for _, p := range all {
		for _, f := range p.Findings {
			if f.Verdict == aws.Fail {
				failed++
			}
		}
	}
	if failed > 0 {
		return fmt.Errorf("aws check: %d of the checks failed", failed)
	}
	return nil
}

func named(name string) string {
	if name == "" {
		return ""
	}
	return fmt.Sprintf(" named %q", name)
}

// checkedProvider is what `midair aws check --json` lists. The keys are stable.
type checkedProvider struct {
	Provider string        `json:"provider"`
	Findings []aws.Finding `json:"findings"`
}

func printChecks(w io.Writer, all []checkedProvider, verbose bool) {
	for _, p := range all {
		fmt.Fprintf(w, "provider %s\n", p.Provider)
		good := 0
		for _, f := range p.Findings {
			if f.Detail && !verbose && f.Verdict == aws.OK {
				good++
				continue
			}
			fmt.Fprintf(w, "%-4s  %s", f.Verdict, f.What)
			if f.Says != "" {
				fmt.Fprintf(w, ": %s", f.Says)
			}
			fmt.Fprintln(w)
			if f.Do != "" {
				fmt.Fprintf(w, "      %s\n", f.Do)
			}
		}
		if good > 0 {
			fmt.Fprintf(w, "%-4s  permissions: %d more (-v lists them)\n", aws.OK, good)
		}
	}
}
