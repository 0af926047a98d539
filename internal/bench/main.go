// Command bench measures what midair promises and writes one JSON line per
// figure. Peers are run in turn with ours in the same run, since the machines
// that benchmarks run on are shared: read the ratios, not the seconds.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Line is one result.
type Line struct {
	Name  string  `json:"name"`
	Ours  float64 `json:"ours"`
	Peers float64 `json:"theirs,omitempty"`
	Peer  string  `json:"peer,omitempty"`
	Ratio float64 `json:"ratio,omitempty"` // theirs / ours: how many times better ours is
	Unit  string  `json:"unit"`
	// Range of our runs, and of the peer's.
	OursRange  [2]float64 `json:"ours_range"`
	PeersRange [2]float64 `json:"theirs_range,omitzero"`
	Runs       int        `json:"runs"`
	Note       string     `json:"note,omitempty"`
}

// bench is one benchmark; it may give several lines.
type bench struct {
	name string
	run  func(ctx context.Context, env environment) ([]Line, error)
}

type environment struct {
	programs string
	scratch  string // a folder on a local disk
}

func main() {
	output := flag.String("output", "build/bench.jsonl", "file for the JSON lines")
	only := flag.String("run", "", "only benchmarks whose name contains this")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	for env, child := range map[string]func(context.Context, string) error{envPlanChild: planChild, envReconcileChild: reconcileChild} {
		dir := os.Getenv(env)
		if dir == "" {
			continue
		}
		if err := child(ctx, dir); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	if order := os.Getenv(envLaunchChild); order != "" {
		if err := launchChild(ctx, order); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	if err := run(ctx, *output, *only, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, output, only string, out io.Writer) error {
	programs := os.Getenv("MIDAIR_PROGRAMS")
	if programs == "" {
		return fmt.Errorf("MIDAIR_PROGRAMS names no folder with built programs; use make bench")
	}
	if err := os.MkdirAll(filepath.Dir(output), 0o755); err != nil {
		return err
	}
	scratch, err := os.MkdirTemp(filepath.Dir(output), "bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(scratch)
	if scratch, err = filepath.Abs(scratch); err != nil {
		return err
	}
	f, err := os.Create(output)
	if err != nil {
		return err
	}
	defer f.Close()
	benches := []bench{
		{"hook-resume-1000", hookResume},
		{"plan-5000", plan5000},
		{"reconcile-10000", reconcile10000},
		{"launch-1000", launch(1000)},
		{"launch-5000", launch(5000)},
		{"submit-to-start-3", submitToStart(3)},
		{"submit-to-start-60", submitToStart(60)},
		{"requeue-after-failure", requeueAfterFailure},
	}
	for _, b := range benches {
		if !strings.Contains(b.name, only) {
			continue
		}
		lines, err := b.run(ctx, environment{programs: programs, scratch: scratch})
		if err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
		for _, l := range lines {
			if l.Ours > 0 && l.Peers > 0 {
				l.Ratio = l.Peers / l.Ours
			}
			text, err := json.Marshal(l)
			if err != nil {
				return err
			}
			fmt.Fprintln(out, string(text))
			if _, err := f.Write(append(text, '\n')); err != nil {
				return err
			}
		}
	}
	return nil
}

// summary gives median, minimum and maximum.
func summary(xs []float64) (median float64, span [2]float64) {
	if len(xs) == 0 {
		return 0, span
	}
	s := slices.Sorted(slices.Values(xs))
	median = s[len(s)/2]
	if len(s)%2 == 0 {
		median = (s[len(s)/2-1] + s[len(s)/2]) / 2
	}
	return median, [2]float64{s[0], s[len(s)-1]}
}

func mean(xs []float64) float64 {
	sum := 0.0
	for _, x := range xs {
		sum += x
	}
	return sum / float64(len(xs))
}
