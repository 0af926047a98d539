package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/midair-hpc/midair/internal/cell"
	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/cloud/cells"
)

// startAtOnce bounds how many cells are being made at a time. Much of the time
// is spent waiting for the kernel, so it is more than there are CPUs.
const startAtOnce = 32

// started is the outcome of making one cell.
type started struct {
	id      string
	process process
	err     error
}

// start makes the cells of an order and records them. Instances that cannot be
// started become shortfalls, of the whole request if it is all or nothing.
func (p *Provider) start(ctx context.Context, r cloud.LaunchRequest, o order) error {
	if len(o.unstarted) == 0 {
		return nil
	}
	done := make(chan started, len(o.unstarted))
	var pool errgroup.Group
	pool.SetLimit(startAtOnce)
	go func() {
		for _, rec := range o.unstarted {
			pool.Go(func() error {
				done <- p.startOne(ctx, rec)
				return nil
			})
		}
		_ = pool.Wait()
		close(done)
	}()
	var (
		failed []started
		errs   []error
	)
	for s := range done {
		batch := []started{s}
		for more := true; more; {
			select {
			case next, open := <-done:
				if more = open; open {
					batch = append(batch, next)
				}
			default:
				more = false
			}
		}
		ok := batch[:0]
		for _, s := range batch {
			switch {
			case s.err == nil:
				ok = append(ok, s)
			case ctx.Err() == nil:
				failed = append(failed, s)
			}
		}
		if err := p.record(ctx, ok); err != nil {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return interrupted(ctx.Err())
	}
	if len(failed) > 0 {
		return p.giveUp(ctx, r, failed)
	}
	return nil
}

func (p *Provider) startOne(ctx context.Context, rec record) started {
	if ctx.Err() != nil {
		return started{id: rec.ID, err: ctx.Err()}
	}
	s := p.spec(rec)
	err := p.announce(rec)
	if err != nil {
		return started{id: rec.ID, err: err}
	}
	proc, err := p.cells.Start(ctx, s)
	if err != nil {
		return started{id: rec.ID, err: err}
	}
	p.reached(stepStarted)
	return started{id: rec.ID, process: proc}
}

// announce begins the console as a machine's boot does, for people.
func (p *Provider) announce(rec record) error {
	f, err := os.OpenFile(p.reg.console(rec.ID), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o640)
	if err != nil {
		return fmt.Errorf("open console: %w", err)
	}
	what := fmt.Sprintf("slurmd starts at %s", rec.runsAt().Format(time.RFC3339))
	if rec.NoRegister {
		what = "slurmd is not started (fault no_register)"
	}
	_, err = fmt.Fprintf(f, "%s local instance %s (%s) boots as %s, %s: %s\n",
		p.now().Format(time.RFC3339), rec.ID, rec.Offering.Key(), rec.Node, rec.Addr, what)
	return errors.Join(err, f.Close())
}

// record puts the processes of started instances on record. One that has been
// terminated meanwhile is killed.
func (p *Provider) record(ctx context.Context, batch []started) error {
	if len(batch) == 0 {
		return nil
	}
	// What has started must be recorded even if the caller has given up.
	ctx = context.WithoutCancel(ctx)
	recorded := 0
	err := p.settled(ctx, func(v *view, now time.Time) error {
		for _, s := range batch {
			r, ok := v.records[s.id]
			if !ok || !r.live() {
				if err := p.cells.Kill(s.process); err != nil {
					return fmt.Errorf("end instance %s: %w", s.id, err)
				}
				recorded++
				continue
			}
			next := *r
			next.Process = &s.process
			if err := v.put(next); err != nil {
				return err
			}
			recorded++
			p.reached(stepRecorded)
		}
		return p.vanish(v, now)
	})
	for _, s := range batch[recorded:] {
		err = errors.Join(err, p.cells.Kill(s.process))
	}
	return err
}

// giveUp takes instances that could not be started out of the answer.
func (p *Provider) giveUp(ctx context.Context, r cloud.LaunchRequest, failed []started) error {
	return p.settled(context.WithoutCancel(ctx), func(v *view, now time.Time) error {
		t, err := v.token(r.Token)
		if err != nil || t == nil {
			return err
		}
		gone := map[string]bool{}
		for _, s := range failed {
			gone[s.id] = true
			p.log.Warn("instance could not be started", "instance", s.id, "err", s.err)
		}
		if r.AllOrNothing {
			for _, id := range t.IDs {
				gone[id] = true
			}
		}
		counts := map[cloud.Offering]int{}
		for id := range gone {
			rec, ok := v.records[id]
			if !ok {
				continue
			}
			counts[rec.Offering]++
			if rec.Process != nil {
				if err := p.cells.Kill(*rec.Process); err != nil {
					return fmt.Errorf("end instance %s: %w", id, err)
				}
			}
		}
		for o, n := range counts {
			t.Shortfalls = append(t.Shortfalls, short(o, n, notStarted(failed[0].err)))
		}
		t.IDs = slices.DeleteFunc(t.IDs, func(id string) bool { return gone[id] })
		if err := v.putToken(*t); err != nil {
			return err
		}
		for id := range gone {
			if err := v.drop(id); err != nil {
				return err
			}
		}
		return nil
	})
}

func (p *Provider) spec(rec record) cell.Spec {
	n := cells.Node{
		Name: rec.Node, Addr: rec.Addr, GPUs: p.types[rec.Offering.Type].GPUs, Console: p.reg.console(rec.ID),
		StartedAt: rec.CreatedAt, Delay: time.Duration(rec.BootDelay),
	}
	if !rec.NoRegister {
		n.Argv = p.slurmd.Command(rec.Node)
	}
	return p.layout.Spec(n)
}

func (p *Provider) consoles(recs []record) []string {
	paths := make([]string, 0, len(recs))
	for _, r := range recs {
		paths = append(paths, p.reg.console(r.ID))
	}
	return paths
}
