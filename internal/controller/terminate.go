package controller

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/hostlist"
	"github.com/midair-hpc/midair/internal/ledger"
)

// terminateTimeout bounds a Terminate call, and is when one that has not come
// back is made again; repeating it does no harm.
const terminateTimeout = time.Minute

// terminateMax bounds the pause before a Terminate call that failed is made
// again: what it is for is billed.
const terminateMax = 10 * time.Second

// termination is a provider's answer to a Terminate call.
type termination struct {
	provider string
	ids      []string
	err      error
}

// markTerminating is the in-memory side of Tx.SetTerminating.
func (c *Controller) markTerminating(provider string, ids []string, cause string) {
	for _, id := range ids {
		if i := c.instances[instanceKey{provider, id}]; i != nil && i.State == ledger.Live {
			i.State, i.EndCause = ledger.Terminating, cause
		}
	}
}

// ending is what is known of an instance's Terminate calls.
type ending struct {
	next     time.Time // not asked again before this
	attempts int       // that failed
	// group: instances of one group go in one call. A call that fails is made
	// again in two halves, so that one instance that the cloud will not end,
	// such as one with termination protection on EC2, which fails the whole
	// call, does not keep the others billed.
	group string
}

// terminate asks the clouds to end what is marked, one call per provider, and
// again until it is accepted.
func (c *Controller) terminate(ctx context.Context) {
	type call struct{ provider, group string }
	ids := map[call][]string{}
	for k, i := range c.instances {
		if e := c.terminating[k]; i.State == ledger.Terminating && !c.Now().Before(e.next) {
			g := call{k.provider, e.group}
			ids[g] = append(ids[g], k.id)
		}
	}
	for _, g := range slices.SortedFunc(maps.Keys(ids), func(a, b call) int {
		return cmp.Or(cmp.Compare(a.provider, b.provider), cmp.Compare(a.group, b.group))
	}) {
		list := ids[g]
		slices.Sort(list)
		for _, id := range list {
			k := instanceKey{g.provider, id}
			e := c.terminating[k]
			e.next = c.Now().Add(terminateTimeout)
			c.terminating[k] = e
		}
		provider := c.Providers[g.provider]
		if provider == nil {
			c.Log.Error("instances of a provider that is not in midair.yaml any more; terminate them by hand", "provider", g.provider, "instances", list)
			continue
		}
		c.Go(func() {
			call, cancel := context.WithTimeout(ctx, terminateTimeout)
			defer cancel()
			err := provider.Terminate(call, list)
			select {
			case c.ended <- termination{g.provider, list, err}:
			case <-ctx.Done():
			}
		})
	}
}

func (c *Controller) terminated(ctx context.Context, t termination) {
	if t.err != nil {
		c.notTerminated(t)
		return
	}
	c.Crash("terminate-called")
	for _, id := range t.ids {
		delete(c.terminating, instanceKey{t.provider, id})
	}
	var nodes []string
	ok := c.update(ctx, "ended instances", func(tx *ledger.Tx) error {
		return tx.SetEnded(t.provider, t.ids, c.Now(), "")
	})
	if !ok {
		return
	}
	c.Crash("termination-recorded")
	for _, id := range t.ids {
		k := instanceKey{t.provider, id}
		if i := c.instances[k]; i != nil {
			nodes = append(nodes, i.Node)
		}
		delete(c.instances, k)
	}
	c.Log.Info("terminated", "nodes", hostlist.FoldSorted(nodes), "instances", len(t.ids))
}

// notTerminated has the instances of a call that failed asked for again later:
// after a second, then twice as long each time up to terminateMax. Unless
// the cloud only had too many calls, the half of them apart from the other.
func (c *Controller) notTerminated(t termination) {
	split := len(t.ids) > 1 && cloud.AsError(t.err).Class != cloud.Throttled
	var pause time.Duration
	for n, id := range t.ids {
		k := instanceKey{t.provider, id}
		e := c.terminating[k]
		pause = min(retrySoon<<min(e.attempts, 10), terminateMax)
		e.next = c.Now().Add(pause)
		e.attempts++
		if split {
			e.group += string(rune('0' + 2*n/len(t.ids)))
		}
		c.terminating[k] = e
	}
	level := slog.LevelWarn
	if !split && cloud.AsError(t.err).Class != cloud.Throttled {
		level = slog.LevelError // it is this one, and it is billed
	}
	c.Log.Log(context.Background(), level, "terminate instances; will try again", "provider", t.provider, "instances", t.ids, "in", pause, "err", t.err)
}
