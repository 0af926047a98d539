package slurmctld

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/hold"
	"github.com/midair-hpc/midair/internal/slurm"
)

// ctld is Slurm as a waiting hook sees it.
type ctld struct {
	slurm.Client // nothing else may be called

	mu        sync.Mutex
	job, node string
	fail      error
	asked     []time.Duration // when, since the start
	start     time.Time
}

// later changes what Slurm says, in a while.
func (c *ctld) later(after time.Duration, change func(*ctld)) {
	time.AfterFunc(after, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		change(c)
	})
}

func (c *ctld) Jobs(context.Context, ...int) ([]slurm.Job, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = append(c.asked, time.Since(c.start))
	if c.job == "" {
		return nil, c.fail
	}
	return []slurm.Job{{ID: 7, State: c.job, Nodes: "spot-1"}}, c.fail
}

func (c *ctld) Nodes(context.Context, ...string) ([]slurm.Node, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return []slurm.Node{{Name: "spot-1", State: slurm.ParseStates(c.node)}}, c.fail
}

// bench is a waiter with a controller and a Slurm of the test's making; its
// clock is synctest's.
type bench struct {
	*waiter
	ctld *ctld
	log  strings.Builder
}

func newBench(ask func(context.Context) error) *bench {
	b := &bench{ctld: &ctld{job: "CONFIGURING", node: "ALLOCATED+CLOUD+POWERING_UP", start: time.Now()}}
	b.waiter = &waiter{
		job: held{id: 7, all: []string{"spot-1"}, bought: []string{"spot-1"}},
		log: slog.New(slog.NewTextHandler(&b.log, nil)),
		ask: func(ctx context.Context, q hold.Question) (hold.Answer, error) {
			if q != (hold.Question{JobID: 7, Nodes: "spot-1"}) {
				panic(q)
			}
			return hold.Answer{Outcome: hold.Ready}, ask(ctx)
		},
		slurm: func() (slurm.Client, error) { return b.ctld, nil },
	}
	return b
}

// run gives how long the wait took; the bound is an hour.
func (b *bench) run(t *testing.T) time.Duration {
	start := time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	b.wait(ctx)
	return time.Since(start)
}

func never(context.Context) error { return errors.New("no such file or directory") }

// after is a controller that answers after a time, as long as it is asked.
func after(d time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func TestTheControllersAnswerEndsTheWaitAndSlurmIsNotAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(after(10 * time.Minute))
		require.Equal(t, 10*time.Minute, b.run(t))
		require.Empty(t, b.ctld.asked)
		require.Empty(t, b.log.String())
	})
}

func TestTheWaitHasABound(t *testing.T) {
	for name, ask := range map[string]func(context.Context) error{
		"the controller is absent": never,
		"it never answers":         after(48 * time.Hour),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { require.Equal(t, time.Hour, newBench(ask).run(t)) })
		})
	}
}

func TestWithoutAControllerSlurmEndsTheWait(t *testing.T) {
	for name, change := range map[string]func(*ctld){
		"registered":     func(c *ctld) { c.node = "ALLOCATED+CLOUD" },
		"cancelled":      func(c *ctld) { c.job = "CANCELLED" },
		"requeued":       func(c *ctld) { c.job = "PENDING" },
		"already forgot": func(c *ctld) { c.job = "" },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(never)
				b.ctld.later(time.Minute, change)
				took := b.run(t)
				require.GreaterOrEqual(t, took, time.Minute)
				require.LessOrEqual(t, took, time.Minute+pollMost*3/2)
			})
		})
	}
}

func TestSlurmIsAskedSoonAndThenSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(never)
		b.run(t)
		require.LessOrEqual(t, b.ctld.asked[0], pollFirst*3/2)
		require.GreaterOrEqual(t, len(b.ctld.asked), 3600/23)
		require.LessOrEqual(t, len(b.ctld.asked), 3600/15+4)
		require.Equal(t, 1, strings.Count(b.log.String(), "\n"), "one line, not one for each attempt: %s", b.log.String())
	})
}

func TestAControllerThatStartsAgainTakesOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		up := time.Now().Add(time.Minute)
		b := newBench(func(ctx context.Context) error {
			if time.Now().Before(up) {
				return errors.New("connection refused")
			}
			return after(30 * time.Minute)(ctx)
		})
		took := b.run(t)
		require.GreaterOrEqual(t, took, 31*time.Minute)
		require.LessOrEqual(t, took, 31*time.Minute+askAgain*3/2)
		last := b.ctld.asked[len(b.ctld.asked)-1]
		require.LessOrEqual(t, last, time.Minute+away, "Slurm is spared once the controller watches")
	})
}

// A controller that only hangs up now and then, as one that is frozen does
// from the hook's side (hold.Silence).
func TestAFrozenControllerDoesNotHideThatTheNodesAreReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(func(ctx context.Context) error {
			if err := after(hold.Silence)(ctx); err != nil {
				return err
			}
			return errors.New("i/o timeout")
		})
		b.ctld.later(10*time.Minute, func(c *ctld) { c.node = "ALLOCATED+CLOUD" })
		require.LessOrEqual(t, b.run(t), 10*time.Minute+2*hold.Silence)
		require.LessOrEqual(t, len(b.ctld.asked), 25)
	})
}

func TestASlurmThatDoesNotAnswerIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(never)
		b.ctld.fail = errors.New("Unable to contact slurm controller")
		b.ctld.node = "ALLOCATED+CLOUD"
		b.ctld.later(5*time.Minute, func(c *ctld) { c.fail = nil })
		took := b.run(t)
		require.GreaterOrEqual(t, took, 5*time.Minute)
		require.LessOrEqual(t, took, 5*time.Minute+pollMost*3/2)
		require.Contains(t, b.log.String(), "Unable to contact")
		require.Equal(t, 2, strings.Count(b.log.String(), "\n"), b.log.String())
	})
}

func TestWithoutSlurmsCommandsTheJobIsNotHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(never)
		b.slurm = func() (slurm.Client, error) { return nil, errors.New("find Slurm's command scontrol") }
		require.LessOrEqual(t, b.run(t), pollFirst*3/2)
		require.Contains(t, b.log.String(), "find Slurm's command scontrol")
	})
}

func TestASignalEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, ask := range []func(context.Context) error{never, after(48 * time.Hour)} {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(2*time.Second, cancel)
			start := time.Now()
			newBench(ask).wait(ctx)
			require.Equal(t, 2*time.Second, time.Since(start))
		}
	})
}
