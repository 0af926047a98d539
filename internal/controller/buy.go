package controller

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/ledger"
	"github.com/midair-hpc/midair/internal/planner"
)

// Bounds of the pause before a create call that was throttled, or whose answer
// was lost, is repeated with the same token.
const (
	repeatFirst = 500 * time.Millisecond
	repeatMax   = 30 * time.Second
)

// launchTimeout bounds a create call. Its answer counts as lost then, and the
// call is repeated with the same token.
const launchTimeout = time.Minute

// intent is an open create call.
type intent struct {
	ledger.Intent
	// launches are those of its nodes, by id, as they are known at the first
	// call: a repeated call must send the same tags, also when its launch has
	// been given up meanwhile.
	launches map[string]ledger.Launch
	inFlight bool
	attempts int
	next     time.Time // not repeated before
}

// result is a provider's answer to a create call.
type result struct {
	token string
	res   cloud.LaunchResult
	err   error
}

// buy plans for every node that still needs an instance, commits the create
// calls and makes them; open calls of a former process are repeated.
func (c *Controller) buy(ctx context.Context) {
	c.learnPatience(ctx)
	for {
		demands := c.demands()
		if len(demands) == 0 {
			break
		}
		plan := planner.Plan(planner.Input{
			Now: c.Now(), Pools: c.pools, Memory: c.memoryEntries(), Demands: demands, Prices: c.prices, Policies: c.policies,
			Bucket: c.quotaBucket, Breaker: c.Config.Memory.InitFailures, Probing: c.probing(), MaxNodesPerCall: maxNodesPerCall,
		})
		for i := range plan.Refusals {
			r := &plan.Refusals[i]
			if l := c.launches[r.Launch]; l != nil {
				l.refused = r
				l.explain(r)
			}
		}
		if !c.commit(ctx, plan.Calls) {
			break
		}
		if len(plan.Calls) == 0 {
			break
		}
	}
	c.refuse(ctx)
	for _, token := range slices.Sorted(maps.Keys(c.intents)) {
		if in := c.intents[token]; !in.inFlight && !c.Now().Before(in.next) {
			c.call(ctx, in)
		}
	}
}

// explain puts the cloud's own words in place of a refusal that only knows that
// the offerings failed in this round, and with them their class: without it a
// job would be tried again and again with credentials that are not valid.
func (l *launch) explain(r *planner.Refusal) {
	if e := l.said[r.Pool]; e != nil && r.Err.Class == cloud.Unknown {
		r.Err = &cloud.Error{Class: e.Class, Code: e.Code, Message: e.Message}
	}
}

// hears remembers what a pool's cloud said when it failed the launch in a way
// that capacity memory does not remember. What may pass by itself outlasts what
// does not: with one offering forbidden, another may still come back.
func (l *launch) hears(pool string, e *cloud.Error) {
	if old := l.said[pool]; !e.Class.Remembered() && (old == nil || e.Class.Retryable() || !old.Class.Retryable()) {
		l.said[pool] = e
	}
}

// demands lists what is still to be bought: nodes of launching launches with
// no instance and no open create call.
func (c *Controller) demands() []planner.Demand {
	asked := map[string]bool{}
	for _, in := range c.intents {
		for _, n := range in.Nodes {
			asked[n.Launch+" "+n.Node] = true
		}
	}
	var demands []planner.Demand
	for _, l := range c.ordered() {
		if l.State != ledger.Launching || l.refused != nil || !l.seen {
			continue
		}
		parts := map[string]*planner.Demand{}
		var order []string
		for _, n := range l.Nodes {
			if n.InstanceID != "" || l.parked[n.Node] || asked[l.ID+" "+n.Node] {
				continue
			}
			d := parts[n.Pool]
			if d == nil {
				d = &planner.Demand{Launch: l.ID, JobID: l.JobID, Tier: l.Tier, Pool: n.Pool, Tried: l.triedIn(n.Pool), Since: l.wanted, Latest: l.latest}
				c.together(l, d)
				parts[n.Pool] = d
				order = append(order, n.Pool)
			}
			d.Nodes = append(d.Nodes, ledger.IntentNode{Node: n.Node, Generation: n.Generation, Launch: l.ID})
		}
		for _, p := range order {
			demands = append(demands, *parts[p])
		}
	}
	return demands
}

func (l *launch) triedIn(pool string) map[string]bool {
	tried := map[string]bool{}
	for k := range l.tried {
		if len(k) > len(pool) && k[:len(pool)+1] == pool+" " {
			tried[k[len(pool)+1:]] = true
		}
	}
	return tried
}

func (c *Controller) memoryEntries() []ledger.MemoryEntry {
	entries := make([]ledger.MemoryEntry, 0, len(c.memory))
	for _, m := range c.memory {
		entries = append(entries, m)
	}
	return entries
}

// commit puts the calls on record as intents. A token that is on record
// already was used for this launch before a restart: its answer is known and
// was not enough, so the offering counts as tried and the next is planned.
func (c *Controller) commit(ctx context.Context, calls []planner.Call) bool {
	var fresh []ledger.Intent
	tokens := make([]string, 0, len(calls))
	for _, call := range calls {
		in := ledger.Intent{
			Provider: call.Provider, Pool: call.Pool, Offerings: call.Offerings, Nodes: call.Nodes,
			AllOrNothing: call.AllOrNothing, Open: true, CreatedAt: c.Now(),
		}
		in.Token = planner.Token(c.Config.Cluster, in.Nodes, in.Offerings)
		if c.doomed(in) {
			continue
		}
		fresh = append(fresh, in)
		tokens = append(tokens, in.Token)
	}
	if len(fresh) == 0 {
		return true
	}
	known, err := c.Ledger.KnownIntents(ctx, tokens)
	if err != nil {
		c.Log.Error("look up create calls in the ledger", "err", err)
		return false
	}
	kept := fresh[:0]
	for _, in := range fresh {
		if !known[in.Token] {
			kept = append(kept, in)
			continue
		}
		c.tried(in.Nodes, in.Pool, in.Offerings...)
	}
	if !c.update(ctx, "create calls", func(tx *ledger.Tx) error { return tx.AddIntents(kept) }) {
		return false
	}
	c.Crash("intent-committed")
	for _, in := range kept {
		c.intents[in.Token] = &intent{Intent: in, launches: map[string]ledger.Launch{}}
	}
	return true
}

// doomed: another part of the same multi-node launch was refused, so buying
// this part would only be undone.
func (c *Controller) doomed(in ledger.Intent) bool {
	l := c.launches[in.Nodes[0].Launch]
	return l == nil || l.refused != nil && len(l.Nodes) > 1
}

func (c *Controller) tried(nodes []ledger.IntentNode, pool string, offerings ...cloud.Offering) {
	for _, n := range nodes {
		if l := c.launches[n.Launch]; l != nil {
			for _, o := range offerings {
				l.tried[pool+" "+o.Key()] = true
			}
		}
	}
}

// together says how the nodes of a launch in a pool belong together.
func (c *Controller) together(l *launch, d *planner.Demand) {
	if len(l.Nodes) < 2 {
		return
	}
	d.Alone = true
	if c.pool(d.Pool).Apart {
		return
	}
	d.AllOrNothing = true
	for _, n := range l.Nodes {
		if i := c.instances[instanceKey{n.Provider, n.InstanceID}]; i != nil && n.Pool == d.Pool && i.State == ledger.Live {
			d.Zone = i.Offering.Zone
			return
		}
	}
}

// refuse fails the launches that no offering can serve, once none of their
// create calls is on its way. One that is being repeated is not waited for,
// since that may go on for ever: what it gives is terminated when it is known.
func (c *Controller) refuse(ctx context.Context) {
	busy := map[string]bool{}
	for _, in := range c.intents {
		if in.attempts > 0 {
			continue
		}
		for _, n := range in.Nodes {
			busy[n.Launch] = true
		}
	}
	for _, l := range c.ordered() {
		if l.State == ledger.Launching && l.refused != nil && !busy[l.ID] {
			c.fail(ctx, l, l.refused.Err, *l.refused)
		}
	}
}

// call makes a create call beside the loop.
func (c *Controller) call(ctx context.Context, in *intent) {
	pool := c.pool(in.Pool)
	req := cloud.LaunchRequest{
		Token: in.Token, Cluster: c.Config.Cluster, Pool: in.Pool, Offerings: in.Offerings, AllOrNothing: in.AllOrNothing,
		CPUs: pool.CPUs, MemoryMiB: pool.MemoryMiB, GPUs: pool.GPUs,
	}
	for _, n := range in.Nodes {
		l, ok := in.launches[n.Launch]
		if !ok {
			if open := c.launches[n.Launch]; open != nil {
				l = open.Launch
			}
			in.launches[n.Launch] = l
		}
		req.Nodes = append(req.Nodes, cloud.NodeRequest{Name: n.Node, Generation: n.Generation, Launch: n.Launch, Tags: tags(l)})
	}
	in.inFlight = true
	provider := c.Providers[in.Provider]
	c.Go(func() {
		call, cancel := context.WithTimeout(ctx, launchTimeout)
		defer cancel()
		res, err := provider.Launch(call, req)
		select {
		case c.results <- result{token: in.Token, res: res, err: err}:
		case <-ctx.Done():
		}
	})
}

func tags(l ledger.Launch) map[string]string {
	tags := map[string]string{}
	set := func(k, v string) {
		if v != "" {
			tags[k] = v
		}
	}
	set(cloud.TagTier, l.Tier)
	set(cloud.TagAccount, l.Account)
	set(cloud.TagUser, l.User)
	if l.JobID != 0 {
		tags[cloud.TagJob] = itoa(l.JobID)
	}
	return tags
}
