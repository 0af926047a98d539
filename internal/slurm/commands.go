package slurm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"
)

// DefaultTimeout bounds one command. Slurm's commands give up on a slurmctld
// that is not there after about 10 s (seen on 22.05.8); a busy one with 10,000
// nodes answers within one.
const DefaultTimeout = 20 * time.Second

// Options configure Commands. The zero value works where Slurm is installed in
// one of the usual places.
type Options struct {
	// BinDir is the only folder searched for Slurm's commands; empty: the
	// usual ones.
	BinDir string
	// Conf is given to the commands as SLURM_CONF; empty: this process's own
	// SLURM_CONF, else Slurm's default.
	Conf string
	// Timeout bounds one command; 0: DefaultTimeout.
	Timeout time.Duration
	// Log gets one debug line per command; nil: none.
	Log *slog.Logger
	// Runner runs the commands; nil: ExecRunner. With a Runner the commands
	// need not exist on this machine.
	Runner Runner
	// Now is the clock; nil: time.Now.
	Now func() time.Time
}

// Commands is Slurm through its own commands, scontrol and squeue. It is safe
// for concurrent use.
type Commands struct {
	paths   map[string]string
	calls   map[string]*atomic.Int64
	env     []string
	timeout time.Duration
	log     *slog.Logger
	runner  Runner
	now     func() time.Time
}

var _ Client = (*Commands)(nil)

// The programs that Commands runs.
const (
	scontrol = "scontrol"
	squeue   = "squeue"
)

// NewCommands finds Slurm's commands by absolute path, without PATH. The error
// says which is missing, where it was searched and what to set.
func NewCommands(opts Options) (*Commands, error) {
	c := &Commands{
		paths:   map[string]string{},
		calls:   map[string]*atomic.Int64{},
		timeout: cmp.Or(opts.Timeout, DefaultTimeout),
		log:     cmp.Or(opts.Log, slog.New(slog.DiscardHandler)),
		runner:  opts.Runner,
		now:     opts.Now,
	}
	for _, program := range []string{scontrol, squeue} {
		path, err := find(opts.BinDir, program)
		if err != nil {
			if opts.Runner == nil {
				return nil, err
			}
			path = filepath.Join(cmp.Or(opts.BinDir, usualBinDirs[0]), program)
		}
		c.paths[program] = path
		c.calls[program] = new(atomic.Int64)
	}
	if c.runner == nil {
		c.runner = ExecRunner{}
	}
	if c.now == nil {
		c.now = time.Now
	}
	c.env = environment(cmp.Or(opts.Conf, os.Getenv("SLURM_CONF")))
	return c, nil
}

// environment is all that the commands get: nothing such as SQUEUE_FORMAT or
// SLURM_CLUSTERS may change what they print. Times come as seconds since 1970
// (SLURM_TIME_FORMAT is a strftime format in 22.05 to 26.05), so that neither
// time zone nor a repeated hour in autumn matters.
func environment(conf string) []string {
	env := []string{"LC_ALL=C", "SLURM_TIME_FORMAT=%s"}
	if conf != "" {
		env = append(env, "SLURM_CONF="+conf)
	}
	if tz, ok := os.LookupEnv("TZ"); ok {
		env = append(env, "TZ="+tz)
	}
	return env
}

// Calls gives how many commands have been run, by program.
func (c *Commands) Calls() map[string]int64 {
	n := make(map[string]int64, len(c.calls))
	for program, count := range c.calls {
		n[program] = count.Load()
	}
	return n
}

// Version asks scontrol for its version, which is the version of the commands,
// not of slurmctld.
func (c *Commands) Version(ctx context.Context) (Version, error) {
	out, err := c.run(ctx, scontrol, "-V")
	if err != nil {
		return Version{}, err
	}
	return ParseVersion(string(out))
}

// run runs one command and gives what it printed, also when it fails. The
// error is a *CommandError, or wraps the context's own.
func (c *Commands) run(ctx context.Context, program string, args ...string) ([]byte, error) {
	c.calls[program].Add(1)
	limited, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	start := time.Now()
	stdout, stderr, err := c.runner.Run(limited, c.paths[program], args, slices.Clone(c.env))
	c.log.Debug("slurm command", "program", program, "args", shortArgs(args), "took", time.Since(start).Round(time.Millisecond), "err", err)
	if err == nil {
		return stdout, nil
	}
	if ctx.Err() != nil {
		return stdout, fmt.Errorf("run %s %s: %w", program, shortArgs(args), context.Cause(ctx))
	}
	e := &CommandError{
		Program: program, Args: args, ExitCode: -1,
		Stderr: cut(string(stderr), 4<<10), Err: err,
		TimedOut: limited.Err() != nil, Limit: c.timeout,
	}
	var exit interface{ ExitCode() int }
	if errors.As(err, &exit) {
		e.ExitCode = exit.ExitCode()
	}
	return stdout, e
}
