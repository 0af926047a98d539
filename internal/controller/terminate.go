package controller

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/midair-hpc/midair/internal/hostlist"
	"github.com/midair-hpc/midair/internal/ledger"
)

// terminateTimeout bounds a Terminate call, and is when one that has not come
// back is made again; repeating it does no harm.
const terminateTimeout = time.Minute

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

// terminate asks the clouds to end what is marked, one call per provider, and
// again until it is accepted.
func (c *Controller) terminate(ctx context.Context) {
	ids := map[string][]string{}
	for k, i := range c.instances {
		if i.State == ledger.Terminating && !c.Now().Before(c.terminating[k]) {
			ids[k.provider] = append(ids[k.provider], k.id)
		}
	}
	for _, p := range slices.Sorted(maps.Keys(ids)) {
		list := ids[p]
		provider := c.Providers[p]
		if provider == nil {
			c.Log.Error("instances of a provider that is not in midair.yaml any more; terminate them by hand", "provider", p, "instances", list)
			for _, id := range list {
				c.terminating[instanceKey{p, id}] = c.Now().Add(terminateTimeout)
			}
			continue
		}
		slices.Sort(list)
		for _, id := range list {
			c.terminating[instanceKey{p, id}] = c.Now().Add(terminateTimeout)
		}
		c.Go(func() {
			call, cancel := context.WithTimeout(ctx, terminateTimeout)
			defer cancel()
			err := provider.Terminate(call, list)
			select {
			case c.ended <- termination{p, list, err}:
			case <-ctx.Done():
			}
		})
	}
}

func (c *Controller) terminated(ctx context.Context, t termination) {
	if t.err == nil {
		c.Crash("terminate-called")
	}
	for _, id := range t.ids {
		delete(c.terminating, instanceKey{t.provider, id})
	}
	if t.err != nil {
		c.Log.Warn("terminate instances; will try again", "provider", t.provider, "instances", t.ids, "err", t.err)
		for _, id := range t.ids {
			c.backOff(instanceKey{t.provider, id})
		}
		return
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

// backOff keeps an instance out of the next Terminate call for a moment.
func (c *Controller) backOff(k instanceKey) {
	c.terminating[k] = c.Now().Add(retrySoon)
}
