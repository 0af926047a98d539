package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// Defaults of midair.yaml.
const (
	defaultLedger    = "sqlite:///var/lib/midair/ledger.db"
	defaultHookLog   = "/var/log/midair/hook.log"
	defaultLocalRoot = "/var/lib/midair/local"
	defaultNetwork   = "10.213.0.0/22"
	defaultSlurmd    = "/usr/sbin/slurmd"
	defaultWeight    = 100
)

// maxNodes is Slurm's own bound on the nodes of a cluster (node indexes and
// TreeWidth are 16 bits with a few values reserved).
const maxNodes = 65533

// Path is the configuration file of this process: MIDAIR_CONFIG if set, else
// DefaultPath.
func Path() string {
	if p := os.Getenv(EnvPath); p != "" {
		return p
	}
	return DefaultPath
}

// Load reads and checks a configuration file. If the file can be read but is
// wrong, the error is of type Problems and lists everything that is wrong.
func Load(path string) (*Config, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("read configuration: %w; create it, or name another with --config or %s", err, EnvPath)
	}
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	return Parse(path, data)
}

// Parse checks the text of a configuration file; path is what its errors call
// it. The error is of type Problems.
func Parse(path string, data []byte) (*Config, error) {
	d := &document{path: path}
	c := &Config{Path: path}
	if root := d.parse(data); root.given() {
		d.config(root, c)
	}
	if len(d.problems) > 0 {
		d.problems.inFileOrder()
		return nil, d.problems
	}
	d.warnings.inFileOrder()
	for _, w := range d.warnings {
		c.Warnings = append(c.Warnings, w.String())
	}
	return c, nil
}

func (d *document) config(at place, c *Config) {
	o, ok := d.object(at, []string{"cluster", "ledger", "hook_log", "slurm", "hooks", "providers", "pools", "tiers",
		"retry", "capacity_memory", "reconcile"}, later("budgets"))
	if !ok {
		return
	}
	c.Ledger, _ = parseLedger(defaultLedger)
	c.HookLog = defaultHookLog
	required(d, o, "cluster", &c.Cluster, parseWord, "Slurm's ClusterName")
	optional(d, o, "ledger", &c.Ledger, parseLedger)
	optional(d, o, "hook_log", &c.HookLog, parsePath)
	d.slurm(o.get("slurm"), &c.Slurm)
	d.hooks(o.get("hooks"), &c.Hooks)
	d.retry(o.get("retry"), &c.Retry)
	d.memory(o.get("capacity_memory"), &c.Memory)
	d.reconcile(o.get("reconcile"), &c.Reconcile)
	providers := d.providers(o.get("providers"), c)
	d.pools(o.get("pools"), c, providers)
	d.tiers(o.get("tiers"), c)
}

func (d *document) slurm(at place, s *Slurm) {
	if !at.given() {
		return
	}
	if o, ok := d.object(at, []string{"bin_dir", "conf"}); ok {
		optional(d, o, "bin_dir", &s.BinDir, parsePath)
		optional(d, o, "conf", &s.Conf, parsePath)
	}
}

func (d *document) hooks(at place, h *Hooks) {
	h.WaitLimit = 30 * time.Minute
	if !at.given() {
		return
	}
	if o, ok := d.object(at, []string{"prolog_slurmctld", "epilog_slurmctld", "wait_limit"}); ok {
		optional(d, o, "prolog_slurmctld", &h.PrologSlurmctld, parsePath)
		optional(d, o, "epilog_slurmctld", &h.EpilogSlurmctld, parsePath)
		optional(d, o, "wait_limit", &h.WaitLimit, parseDuration)
	}
}

func (d *document) retry(at place, r *Retry) {
	*r = Retry{First: time.Second, Max: 10 * time.Minute, Rounds: 5}
	if !at.given() {
		return
	}
	if o, ok := d.object(at, []string{"first", "max", "rounds"}); ok {
		optional(d, o, "first", &r.First, atLeast(time.Millisecond))
		optional(d, o, "max", &r.Max, atLeast(time.Millisecond))
		optional(d, o, "rounds", &r.Rounds, number(1, 1000))
		d.ordered(o, r.First, r.Max)
	}
}

func (d *document) memory(at place, m *Memory) {
	*m = Memory{First: time.Minute, Max: 30 * time.Minute, InitFailures: 3}
	if !at.given() {
		return
	}
	if o, ok := d.object(at, []string{"first", "max", "init_failures"}); ok {
		optional(d, o, "first", &m.First, atLeast(time.Second))
		optional(d, o, "max", &m.Max, atLeast(time.Second))
		optional(d, o, "init_failures", &m.InitFailures, number(1, 1000))
		d.ordered(o, m.First, m.Max)
	}
}

func (d *document) ordered(o object, first, last time.Duration) {
	if first > last {
		d.problem(o.at, "first (%s) is longer than max (%s)", first, last)
	}
}

func (d *document) reconcile(at place, r *Reconcile) {
	*r = Reconcile{Every: 30 * time.Second, Grace: 2 * time.Minute, MaxTerminations: 10}
	if !at.given() {
		return
	}
	if o, ok := d.object(at, []string{"every", "grace", "max_terminations"}); ok {
		optional(d, o, "every", &r.Every, atLeast(100*time.Millisecond))
		optional(d, o, "grace", &r.Grace, parseDuration)
		optional(d, o, "max_terminations", &r.MaxTerminations, number(1, maxNodes))
	}
}

// optional reads a key if it is there, and reports what read finds wrong. It
// says whether the key was given and right.
func optional[T any](d *document, o object, name string, into *T, read func(string) (T, error)) bool {
	at := o.get(name)
	if !at.given() {
		return false
	}
	return scalar(d, at, into, read)
}

// required is optional for a key that must be there; what says what it is.
func required[T any](d *document, o object, name string, into *T, read func(string) (T, error), what string) bool {
	if !o.get(name).given() {
		d.missing(o, name, what)
		return false
	}
	return optional(d, o, name, into, read)
}

func (d *document) missing(o object, name, what string) {
	d.problem(o.at, "%s is missing: %s", name, what)
}

func scalar[T any](d *document, at place, into *T, read func(string) (T, error)) bool {
	text, ok := d.text(at)
	if !ok {
		return false
	}
	v, err := read(text)
	var secret hidden
	if errors.As(err, &secret) {
		d.problem(at, "%v", secret)
		return false
	}
	if err != nil {
		d.problem(at, "%q: %v", shorten(text), err)
		return false
	}
	*into = v
	return true
}

// words reads a non-empty list of names without duplicates.
func words[T ~string](d *document, o object, name, what string, read func(string) (T, error)) []T {
	at := o.get(name)
	if !at.given() {
		d.missing(o, name, what)
		return nil
	}
	items, ok := d.list(at)
	if !ok {
		return nil
	}
	if len(items) == 0 {
		d.problem(at, "the list is empty: %s", what)
	}
	var all []T
	seen := map[T]bool{}
	for _, item := range items {
		var v T
		if !scalar(d, item, &v, read) {
			continue
		}
		if seen[v] {
			d.problem(item, "%q is listed twice; remove one", v)
			continue
		}
		seen[v] = true
		all = append(all, v)
	}
	return all
}

func parseWord(s string) (string, error) {
	if !word(s) {
		return "", errors.New("want a name of at most 63 letters, digits, _ . and -")
	}
	return s, nil
}

func absolute(p string) error {
	if !filepath.IsAbs(p) || filepath.Clean(p) != p {
		return errors.New("want an absolute path without . or .. or a slash at the end")
	}
	for _, r := range p {
		if r < ' ' || r == 0x7f {
			return errors.New("a path must not contain control characters")
		}
	}
	return nil
}

func parsePath(s string) (string, error) { return s, absolute(s) }

func number(low, high int) func(string) (int, error) {
	return func(s string) (int, error) {
		n, ok := smallNumber(s, high)
		if !ok || n < low {
			return 0, fault("want a whole number from %d to %d", low, high)
		}
		return n, nil
	}
}

func atLeast(low time.Duration) func(string) (time.Duration, error) {
	return func(s string) (time.Duration, error) {
		d, err := parseDuration(s)
		if err == nil && d < low {
			err = fault("want at least %s", low)
		}
		return d, err
	}
}

// slurmSeconds reads a time that slurm.conf takes in whole seconds; slurmctld
// keeps time-outs in 16 bits up to 22.05.
func slurmSeconds(s string) (time.Duration, error) {
	d, err := parseDuration(s)
	if err == nil && (d < time.Second || d > longestSlurmTime || d%time.Second != 0) {
		err = fault("want whole seconds from 1s to %s, which is what slurm.conf can hold", longestSlurmTime)
	}
	return d, err
}

const longestSlurmTime = 65533 * time.Second
