package controller

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/ledger"
	"github.com/midair-hpc/midair/internal/planner"
	"github.com/midair-hpc/midair/internal/reconcile"
)

// adopt takes instances over from their tags, launch by launch.
func (c *Controller) adopt(ctx context.Context, list []reconcile.Adoptee) {
	byLaunch := map[string]*ledger.Launch{} // by the id in the tags
	var order []string
	var recs []ledger.Instance
	booting := map[string]bool{}
	for _, a := range list {
		i := a.Instance
		tagged := cmp.Or(i.Launch, "none, node "+i.Node)
		l := byLaunch[tagged]
		if l == nil {
			job, _ := strconv.Atoi(i.Tags[cloud.TagJob]) // no tag: a node of no job
			// The tags' launch may be on record, ended or with its other nodes.
			l = &ledger.Launch{ID: c.NewID(), JobID: job, Tier: i.Tags[cloud.TagTier], User: i.Tags[cloud.TagUser],
				Account: i.Tags[cloud.TagAccount], State: ledger.Launching, CreatedAt: i.CreatedAt}
			byLaunch[tagged] = l
			order = append(order, tagged)
		}
		r := c.fromTags(a.Provider, i)
		r.Launch = l.ID
		if !a.Up {
			booting[l.ID] = true
		}
		recs = append(recs, r)
		l.Nodes = append(l.Nodes, ledger.LaunchNode{Node: i.Node, Generation: i.Generation, Pool: r.Pool, Provider: a.Provider, InstanceID: i.ID})
		c.Log.Warn("instance is taken over from its tags", "provider", a.Provider, "instance", i.ID, "node", i.Node, "launch", l.ID, "tagged", i.Launch)
	}
	if len(order) == 0 {
		return
	}
	var launches []ledger.Launch
	for _, id := range order {
		l := *byLaunch[id]
		if !booting[l.ID] { // nothing is left to wait for
			l.State, l.EndedAt = ledger.Ready, c.Now()
		}
		launches = append(launches, l)
	}
	ok := c.update(ctx, "adopted instances", func(tx *ledger.Tx) error {
		if err := tx.AddLaunches(launches); err != nil {
			return err
		}
		return takeOver(tx, recs)
	})
	if !ok {
		return
	}
	for i := range recs {
		c.instances[instanceKey{recs[i].Provider, recs[i].ID}] = &recs[i]
	}
	for _, l := range launches {
		if l.State == ledger.Launching {
			c.track(l)
		}
	}
}

// recordEnded puts on record what the clouds show of instances that have ended
// and that nobody here knows, as after a lost ledger: they have cost money too.
// One that is on record already is left as it is there.
func (c *Controller) recordEnded(ctx context.Context, l listing) bool {
	seen := map[instanceKey]bool{}
	var recs []ledger.Instance
	for p, list := range l.listed {
		unseen := map[string]cloud.Instance{}
		for _, i := range list {
			k := instanceKey{p, i.ID}
			if i.ID == "" || i.EndedAt.IsZero() || i.State != cloud.ShuttingDown && i.State != cloud.Terminated || c.instances[k] != nil {
				continue
			}
			seen[k] = true
			if !c.seenEnded[k] {
				unseen[i.ID] = i
			}
		}
		if len(unseen) == 0 {
			continue
		}
		ids := slices.Sorted(maps.Keys(unseen))
		known, err := c.Ledger.KnownInstances(ctx, p, ids)
		if err != nil {
			c.Log.Error("look up instances that have ended in the ledger", "err", err)
			return false
		}
		for _, id := range ids {
			if known[id] {
				continue
			}
			i := unseen[id]
			r := c.fromTags(p, i)
			if c.launches[r.Launch] != nil {
				r.Launch = "" // which may wait for another one by now
			}
			r.State, r.EndedAt, r.EndCause = ledger.Ended, i.EndedAt, cmp.Or(i.StateCause, string(i.State))
			if r.EndedAt.Before(r.CreatedAt) || r.EndedAt.After(c.Now()) {
				r.EndedAt = c.Now()
			}
			recs = append(recs, r)
		}
	}
	if len(recs) > 0 && !c.update(ctx, "instances that have ended", func(tx *ledger.Tx) error { return tx.AddInstances(recs) }) {
		return false
	}
	c.seenEnded = seen
	return true
}

// warnUnnamed tells of instances whose tags do not say which node they carry,
// as when the ledger was lost before they were named: they cannot be taken over.
func (c *Controller) warnUnnamed(l listing) {
	for p, list := range l.listed {
		for _, i := range list {
			if i.ID != "" && i.Node == "" && i.Live() && c.instances[instanceKey{p, i.ID}] == nil {
				c.Log.Warn("instance has no tag of a node and cannot be taken over; it is terminated as an orphan unless Slurm has a node up at its address", "provider", p, "instance", i.ID, "addr", i.Addr)
			}
		}
	}
}

// skipGenerations makes the nodes' generations of a rebuilt ledger start above
// all that the lost one can have used, or the same create call, token and all,
// would give an old instance back. Minutes since 1970 grow faster than any node
// is launched. A cluster that never had an instance starts from 1.
func (c *Controller) skipGenerations(ctx context.Context) bool {
	if !c.Rebuilt && len(c.instances) == 0 {
		return true
	}
	base := map[string]int{}
	for _, p := range c.Config.Pools {
		for _, n := range p.NodeNames {
			base[n] = int(c.Now().Unix() / 60)
		}
	}
	return c.update(ctx, "generations of a rebuilt ledger", func(tx *ledger.Tx) error { return tx.RaiseGenerations(base) })
}

// takeOver puts instances on record that are there. One that was taken for
// ended, since listings left it out for long, is live again.
func takeOver(tx *ledger.Tx, recs []ledger.Instance) error {
	for _, r := range recs {
		if err := tx.Revive(r.Provider, []string{r.ID}); err != nil {
			return err
		}
	}
	return tx.AddInstances(recs)
}

// fromTags is an instance as its tags describe it. One whose cloud does not say
// when it was created counts from now, not from 1970.
func (c *Controller) fromTags(provider string, i cloud.Instance) ledger.Instance {
	created := i.CreatedAt
	if now := c.Now(); created.IsZero() || created.After(now) {
		created = now
	}
	return ledger.Instance{Provider: provider, ID: i.ID, Node: i.Node, Generation: i.Generation, Launch: i.Launch, Token: i.Token, Pool: i.Pool,
		Offering: i.Offering, Addr: i.Addr, HostName: i.HostName, Price: c.prices[planner.Key{Provider: provider, Offering: i.Offering}], State: ledger.Live, CreatedAt: created}
}
