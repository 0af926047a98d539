package slurmctld

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/midair-hpc/midair/internal/config"
	"github.com/midair-hpc/midair/internal/hold"
	"github.com/midair-hpc/midair/internal/hostlist"
	"github.com/midair-hpc/midair/internal/slurm"
)

const (
	// askAgain is the time between attempts to reach the controller.
	askAgain = time.Second
	// pollFirst is the time from the first failure to asking Slurm itself, and
	// pollMost what the time between two such questions grows to: hundreds of
	// hooks may wait at the same time, and slurmctld has other work.
	pollFirst = 3 * time.Second
	pollMost  = 15 * time.Second
	// away: a controller that has not failed for so long has taken the question
	// and watches for this hook. It is longer than the longest time both
	// between two attempts and from a failure to the poll after it.
	away = 5 * time.Second
)

// waiter holds one job.
type waiter struct {
	job   held
	log   *slog.Logger
	ask   func(context.Context, hold.Question) (hold.Answer, error) // hold.Ask
	slurm func() (slurm.Client, error)                              // called once, when needed

	client slurm.Client
	told   map[string]bool // the problems that have been logged
}

// wait returns when the job's nodes have registered, the job no longer waits
// for them, or ctx is done. It asks the controller, which watches for all
// hooks together; while that is away it asks Slurm itself, more and more
// seldom.
func (w *waiter) wait(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answered, failed := make(chan struct{}), make(chan error)
	go w.keepAsking(ctx, answered, failed)
	var (
		poll     <-chan time.Time // nil: not needed
		every    time.Duration
		lastFail time.Time
	)
	for {
		select {
		case <-ctx.Done():
			return
		case <-answered:
			return
		case err := <-failed:
			lastFail = time.Now()
			w.tell("the controller does not answer; the hook watches the nodes itself", err)
			if poll == nil {
				every = pollFirst
				poll = time.After(jitter(every))
			}
		case <-poll:
			if time.Since(lastFail) > away {
				poll = nil
				continue
			}
			over, err := w.look(ctx)
			if over {
				return
			}
			if err != nil && !errors.Is(err, context.Canceled) {
				w.tell("neither the controller nor Slurm answers", err)
			}
			every = min(every*3/2, pollMost)
			poll = time.After(jitter(every))
		}
	}
}

// keepAsking asks the controller until it answers.
func (w *waiter) keepAsking(ctx context.Context, answered chan<- struct{}, failed chan<- error) {
	q := hold.Question{JobID: w.job.id, Nodes: hostlist.FoldSorted(w.job.bought)}
	for {
		_, err := w.ask(ctx, q)
		if err == nil {
			close(answered)
			return
		}
		select {
		case failed <- err:
		case <-ctx.Done():
			return
		}
		select {
		case <-time.After(jitter(askAgain)):
		case <-ctx.Done():
			return
		}
	}
}

// look asks Slurm whether the wait is over. When Slurm does not answer, it is
// not; when Slurm can never be asked, it is.
func (w *waiter) look(ctx context.Context) (over bool, err error) {
	if w.client == nil {
		if w.client, err = w.slurm(); err != nil {
			w.log.Error("the job is not held for its nodes", "job", w.job.id, "err", err)
			return true, nil
		}
	}
	jobs, err := w.client.Jobs(ctx, w.job.id)
	if err != nil {
		return false, fmt.Errorf("ask Slurm for the job: %w", err)
	}
	if w.job.gone(jobs) {
		return true, nil
	}
	nodes, err := w.client.Nodes(ctx, w.job.bought...)
	if err != nil {
		return false, fmt.Errorf("ask Slurm for the job's nodes: %w", err)
	}
	return w.job.registered(nodes), nil
}

// tell logs a problem once, not at each of hundreds of attempts.
func (w *waiter) tell(what string, err error) {
	if w.told[what] {
		return
	}
	if w.told == nil {
		w.told = map[string]bool{}
	}
	w.told[what] = true
	w.log.Warn(what, "job", w.job.id, "err", err)
}

// jitter spreads hooks that were started together.
func jitter(d time.Duration) time.Duration {
	return d + time.Duration(rand.Float64()*float64(d)/2)
}

// commands makes the client that a waiter asks Slurm with.
func commands(cfg *config.Config, log *slog.Logger) func() (slurm.Client, error) {
	return func() (slurm.Client, error) {
		c, err := slurm.NewCommands(slurm.Options{BinDir: cfg.Slurm.BinDir, Conf: cfg.Slurm.Conf, Log: log})
		if err != nil {
			return nil, fmt.Errorf("watch the nodes: %w", err)
		}
		return c, nil
	}
}
