package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/midair-hpc/midair/internal/cloud/local"
)

func localFaultCommand() *cli.Command {
	return &cli.Command{
		Name: "fault", Usage: "show, set or clear the ways in which the local cloud fails",
		Subcommands: []*cli.Command{
			{
				Name: "ls", Aliases: []string{"list"}, Usage: "show the faults that are set",
				Flags:  []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "for programs"}},
				Action: localFaultList,
			},
			{
				Name: "set", Usage: "add faults to those that are set",
				Description: "An offering is written type/zone/market, such as g1.small/zone-a/spot. Options that\nname an offering or a node can be given several times.",
				Flags:       localFaultFlags(),
				Action:      localFaultSet,
			},
			{
				Name: "clear", Usage: "clear all faults, or those named as fault ls names them", ArgsUsage: "[FAULT...]",
				Action: localFaultClear,
			},
		},
	}
}

func localFaultFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: "out-of-stock", Usage: "`OFFERING` has no capacity"},
		&cli.StringSliceFlag{Name: "stock", Usage: "`OFFERING=N`: it has capacity for N instances at a time"},
		&cli.IntFlag{Name: "quota", Usage: "the account may have `N` instances"},
		&cli.IntFlag{Name: "cpu-quota", Usage: "the account may have `N` vCPUs"},
		&cli.StringSliceFlag{Name: "spec-mismatch", Usage: "`OFFERING` is smaller than promised"},
		&cli.StringSliceFlag{Name: "no-register", Usage: "new instances of `OFFERING|NODE` boot but never start slurmd"},
		&cli.StringSliceFlag{Name: "vanish", Usage: "`NODE|INSTANCE[=DURATION]` disappears, once: now, or after running so long"},
		&cli.StringSliceFlag{Name: "boot-delay", Usage: "`OFFERING=DURATION`: new instances take so long to boot"},
		&cli.DurationFlag{Name: "slow-delete", Usage: "instances stay in shutting-down for `DURATION`"},
		&cli.DurationFlag{Name: "list-lag", Usage: "instances are listed only after `DURATION`"},
		&cli.DurationFlag{Name: "create-delay", Usage: "create calls take `DURATION` to answer"},
		&cli.BoolFlag{Name: "hang", Usage: "create calls take effect but are never answered"},
		&cli.IntFlag{Name: "lose-answer", Usage: "the next `N` create calls take effect but their answer is lost"},
		&cli.IntFlag{Name: "unknown", Usage: "the next `N` create calls fail with a code that midair does not know"},
		&cli.IntFlag{Name: "throttle", Usage: "the next `N` calls are refused as too many"},
		&cli.BoolFlag{Name: "unauthorized", Usage: "all calls are refused for lack of permission"},
	}
}

func localFaultSet(c *cli.Context) error {
	if c.NArg() > 0 {
		return fmt.Errorf("fault set: %q is no option; midair local fault set --help lists them", c.Args().First())
	}
	if c.NumFlags() == 0 {
		return errors.New("fault set: say which fault; midair local fault set --help lists them")
	}
	p, cfg, err := openLocal(c)
	if err != nil {
		return err
	}
	defer p.Close()
	changes, err := localFaultChanges(c)
	if err != nil {
		return err
	}
	err = local.UpdateFaults(cfg.Local.Root, func(f *local.Faults) {
		for _, change := range changes {
			change(f)
		}
	})
	if err != nil {
		return err
	}
	// What is to happen at once happens now, not at the controller's next call.
	_, err = p.All(c.Context)
	return err
}

// localFaultChanges reads the options into changes to the faults.
func localFaultChanges(c *cli.Context) ([]func(*local.Faults), error) {
	var changes []func(*local.Faults)
	add := func(change func(*local.Faults)) { changes = append(changes, change) }
	for _, key := range c.StringSlice("out-of-stock") {
		add(func(f *local.Faults) { f.Stock = withEntry(f.Stock, key, 0) })
	}
	for _, s := range c.StringSlice("stock") {
		key, count, _ := strings.Cut(s, "=")
		n, err := strconv.Atoi(count)
		if err != nil {
			return nil, fmt.Errorf("fault set: --stock %s: want OFFERING=N, such as g1.small/zone-a/spot=2", s)
		}
		add(func(f *local.Faults) { f.Stock = withEntry(f.Stock, key, n) })
	}
	for _, s := range c.StringSlice("boot-delay") {
		key, text, _ := strings.Cut(s, "=")
		d, err := time.ParseDuration(text)
		if err != nil {
			return nil, fmt.Errorf("fault set: --boot-delay %s: want OFFERING=DURATION, such as g1.small/zone-a/spot=90s", s)
		}
		add(func(f *local.Faults) { f.BootDelay = withEntry(f.BootDelay, key, local.Duration(d)) })
	}
	for _, s := range c.StringSlice("vanish") {
		key, text, after := strings.Cut(s, "=")
		d, err := time.ParseDuration(text)
		if key == "" || (after && err != nil) {
			return nil, fmt.Errorf("fault set: --vanish %s: want NODE or NODE=DURATION, such as spot-001=30s", s)
		}
		add(func(f *local.Faults) { f.Vanish = withEntry(f.Vanish, key, local.Duration(d)) })
	}
	for _, key := range c.StringSlice("spec-mismatch") {
		add(func(f *local.Faults) { f.SpecMismatch = withName(f.SpecMismatch, key) })
	}
	for _, key := range c.StringSlice("no-register") {
		add(func(f *local.Faults) { f.NoRegister = withName(f.NoRegister, key) })
	}
	for flag, field := range map[string]func(*local.Faults) *int{
		"quota":       func(f *local.Faults) *int { return &f.MaxInstances },
		"cpu-quota":   func(f *local.Faults) *int { return &f.MaxCPUs },
		"lose-answer": func(f *local.Faults) *int { return &f.LoseAnswer },
		"unknown":     func(f *local.Faults) *int { return &f.Unknown },
		"throttle":    func(f *local.Faults) *int { return &f.Throttle },
	} {
		if c.IsSet(flag) {
			add(func(f *local.Faults) { *field(f) = c.Int(flag) })
		}
	}
	for flag, field := range map[string]func(*local.Faults) *local.Duration{
		"slow-delete":  func(f *local.Faults) *local.Duration { return &f.SlowDelete },
		"list-lag":     func(f *local.Faults) *local.Duration { return &f.ListLag },
		"create-delay": func(f *local.Faults) *local.Duration { return &f.CreateDelay },
	} {
		if c.IsSet(flag) {
			add(func(f *local.Faults) { *field(f) = local.Duration(c.Duration(flag)) })
		}
	}
	for flag, field := range map[string]func(*local.Faults) *bool{
		"hang":         func(f *local.Faults) *bool { return &f.Hang },
		"unauthorized": func(f *local.Faults) *bool { return &f.Unauthorized },
	} {
		if c.IsSet(flag) {
			add(func(f *local.Faults) { *field(f) = c.Bool(flag) })
		}
	}
	return changes, nil
}

func withEntry[V any](m map[string]V, key string, value V) map[string]V {
	if m == nil {
		m = map[string]V{}
	}
	m[key] = value
	return m
}

func withName(list []string, s string) []string {
	if slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}

func localFaultList(c *cli.Context) error {
	p, cfg, err := openLocal(c)
	if err != nil {
		return err
	}
	defer p.Close()
	f, err := local.ReadFaults(cfg.Local.Root)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return writeJSON(c.App.Writer, f)
	}
	set, err := faultMap(f)
	if err != nil {
		return err
	}
	if len(set) == 0 {
		fmt.Fprintln(c.App.Writer, "no faults")
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		writeFault(c.App.Writer, name, set[name])
	}
	return nil
}

// faultMap gives the faults that are set by the names they have in the file.
func faultMap(f local.Faults) (map[string]any, error) {
	b, err := json.Marshal(f)
	if err != nil {
		return nil, fmt.Errorf("show faults: %w", err)
	}
	var set map[string]any
	if err := json.Unmarshal(b, &set); err != nil {
		return nil, fmt.Errorf("show faults: %w", err)
	}
	return set, nil
}

func writeFault(w io.Writer, name string, value any) {
	switch v := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			fmt.Fprintf(w, "%-13s %s = %v\n", name, key, v[key])
		}
	case []any:
		for _, key := range v {
			fmt.Fprintf(w, "%-13s %v\n", name, key)
		}
	default:
		fmt.Fprintf(w, "%-13s %v\n", name, v)
	}
}

func localFaultClear(c *cli.Context) error {
	p, cfg, err := openLocal(c)
	if err != nil {
		return err
	}
	defer p.Close()
	if c.NArg() == 0 {
		return local.WriteFaults(cfg.Local.Root, local.Faults{})
	}
	return local.ClearFaults(cfg.Local.Root, c.Args().Slice()...)
}
