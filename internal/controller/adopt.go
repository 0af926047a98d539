package controller

import (
	"cmp"
	"context"
	"strconv"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/ledger"
	"github.com/midair-hpc/midair/internal/reconcile"
)

// adopt takes instances over from their tags, launch by launch.
func (c *Controller) adopt(ctx context.Context, list []reconcile.Adoptee) {
	byLaunch := map[string]*ledger.Launch{} // by the id in the tags
	var order []string
	var recs []ledger.Instance
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
		r := fromTags(a.Provider, i, c.prices[memoryKey{a.Provider, i.Offering}])
		r.Launch = l.ID
		recs = append(recs, r)
		l.Nodes = append(l.Nodes, ledger.LaunchNode{Node: i.Node, Generation: i.Generation, Pool: r.Pool, Provider: a.Provider, InstanceID: i.ID})
		c.Log.Warn("instance is taken over from its tags", "provider", a.Provider, "instance", i.ID, "node", i.Node, "launch", l.ID, "tagged", i.Launch)
	}
	if len(order) == 0 {
		return
	}
	var launches []ledger.Launch
	for _, id := range order {
		launches = append(launches, *byLaunch[id])
	}
	ok := c.update(ctx, "adopted instances", func(tx *ledger.Tx) error {
		if err := tx.AddLaunches(launches); err != nil {
			return err
		}
		return tx.AddInstances(recs)
	})
	if !ok {
		return
	}
	for i := range recs {
		c.instances[instanceKey{recs[i].Provider, recs[i].ID}] = &recs[i]
	}
	for _, l := range launches {
		c.track(l)
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

func fromTags(provider string, i cloud.Instance, price cloud.MicroUSD) ledger.Instance {
	return ledger.Instance{Provider: provider, ID: i.ID, Node: i.Node, Generation: i.Generation, Launch: i.Launch, Token: i.Token, Pool: i.Pool,
		Offering: i.Offering, Addr: i.Addr, HostName: i.HostName, Price: price, State: ledger.Live, CreatedAt: i.CreatedAt}
}
