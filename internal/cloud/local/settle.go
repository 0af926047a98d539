package local

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// startGrace is how long an instance may stay without a cell when nobody works
// on its token: the controller that asked for it was killed and has not asked
// again.
const startGrace = 5 * time.Minute

// settled runs fn under the lock after bringing the records up to date with
// the world and the clock.
func (p *Provider) settled(ctx context.Context, fn func(v *view, now time.Time) error) error {
	return p.reg.do(ctx, func(v *view) error {
		// As it will be read back from disk.
		now := p.now().Round(0).UTC()
		if err := p.settle(v, now); err != nil {
			return err
		}
		err := fn(v, now)
		p.setAlarm(v, now)
		return err
	})
}

// settle records what has happened by itself: instances that died, whose slow
// delete is over, that vanish because they were told to, or that were never
// started.
func (p *Provider) settle(v *view, now time.Time) error {
	for id := range v.records {
		r := *v.records[id]
		var err error
		switch {
		case r.Gone:
		case !r.live():
			if !now.Before(r.GoneAt) || (r.Process != nil && !p.cells.Alive(*r.Process)) {
				err = p.finish(v, r)
			}
		case r.Process == nil:
			err = p.settleUnstarted(v, r, now)
		case !p.cells.Alive(*r.Process):
			err = p.end(v, r, now, "vanished", 0)
		}
		if err != nil {
			// One odd instance must not take the others with it; it is tried
			// again at the next call.
			p.log.Warn("settle instance", "instance", id, "err", err)
		}
	}
	if err := p.vanish(v, now); err != nil {
		return err
	}
	return v.prune(now)
}

// settleUnstarted looks at an instance without a cell. Unless its token is
// being worked on, or may be asked for again, it is over.
func (p *Provider) settleUnstarted(v *view, r record, now time.Time) error {
	t, err := v.token(r.Token)
	if err == nil && (t == nil || !slices.Contains(t.IDs, r.ID)) {
		return v.drop(r.ID)
	}
	if err != nil {
		// Its token cannot be asked for again either.
		p.log.Warn("settle instance", "instance", r.ID, "err", err)
	}
	if now.Sub(r.CreatedAt) < startGrace {
		return nil
	}
	busy, err := tokenBusy(p.reg.tokenLockPath(), r.Token)
	if err != nil || busy {
		return err
	}
	return p.end(v, r, now, "its start was interrupted", 0)
}

// vanish carries out the fault of that name.
func (p *Provider) vanish(v *view, now time.Time) error {
	met := false
	for id := range v.records {
		r := *v.records[id]
		key, at, ok := vanishTime(v.faults, &r)
		if !ok || now.Before(at) || r.Process == nil {
			continue
		}
		if err := p.end(v, r, now, "vanished", 0); err != nil {
			return err
		}
		delete(v.faults.Vanish, key)
		met = true
	}
	if met {
		return v.putFaults()
	}
	return nil
}

// vanishTime gives when an instance is to vanish, and the fault's key.
func vanishTime(f Faults, r *record) (key string, at time.Time, ok bool) {
	if !r.live() {
		return "", time.Time{}, false
	}
	for _, key := range []string{r.ID, r.Node} {
		if after, ok := f.Vanish[key]; ok {
			if after == 0 {
				return key, r.CreatedAt, true
			}
			return key, r.runsAt().Add(time.Duration(after)), true
		}
	}
	return "", time.Time{}, false
}

// end ends an instance: billing stops now, its processes after the delay.
func (p *Provider) end(v *view, r record, now time.Time, cause string, slow time.Duration) error {
	r.EndedAt, r.Cause, r.GoneAt = now, cause, now.Add(slow)
	// Recorded first: a kill between the two steps must not leave a live
	// instance that counts as ended by itself.
	if err := v.put(r); err != nil {
		return err
	}
	if slow > 0 {
		return nil
	}
	return p.finish(v, r)
}

// finish kills the processes of an ended instance.
func (p *Provider) finish(v *view, r record) error {
	var err error
	if r.Process != nil {
		err = p.cells.Kill(*r.Process)
	} else {
		err = p.cells.Sweep([]string{p.reg.console(r.ID)})
	}
	if err != nil {
		return fmt.Errorf("end instance %s: %w", r.ID, err)
	}
	r.Gone = true
	return v.put(r)
}

// setAlarm arranges that the next thing due is done even if nobody calls.
func (p *Provider) setAlarm(v *view, now time.Time) {
	var next time.Time
	due := func(t time.Time) {
		if t.After(now) && (next.IsZero() || t.Before(next)) {
			next = t
		}
	}
	for _, r := range v.records {
		if !r.live() && !r.Gone {
			due(r.GoneAt)
		}
		if _, at, ok := vanishTime(v.faults, r); ok {
			due(at)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.alarm != nil {
		p.alarm.Stop()
		p.alarm = nil
	}
	if next.IsZero() || p.closed {
		return
	}
	p.alarm = time.AfterFunc(next.Sub(now), func() {
		err := p.settled(context.Background(), func(*view, time.Time) error { return nil })
		if err != nil {
			p.log.Error("settle the local cloud", "err", err)
		}
	})
}
