package controller

import (
	"context"
	"time"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/hostlist"
	"github.com/midair-hpc/midair/internal/ledger"
	"github.com/midair-hpc/midair/internal/planner"
)

// Bounds of the pause before a create call that was throttled, or whose answer
// was lost, is repeated with the same token.
const (
	repeatFirst = 500 * time.Millisecond
	repeatMax   = 30 * time.Second
)

// intent is an open create call.
type intent struct {
	ledger.Intent
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
	for {
		demands := c.demands()
		if len(demands) == 0 {
			break
		}
		plan := planner.Plan(planner.Input{Now: c.Now(), Pools: c.pools, Memory: c.memoryEntries(), Demands: demands})
		for i := range plan.Refusals {
			r := &plan.Refusals[i]
			if l := c.launches[r.Launch]; l != nil {
				l.refused = r
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
	for _, in := range c.intents {
		if !in.inFlight && !c.Now().Before(in.next) {
			c.call(ctx, in)
		}
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
		if l.State != ledger.Launching || l.refused != nil {
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
				d = &planner.Demand{Launch: l.ID, JobID: l.JobID, Tier: l.Tier, Pool: n.Pool, AllOrNothing: len(l.Nodes) > 1, Tried: l.triedIn(n.Pool)}
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
			Provider: call.Provider, Pool: call.Pool, Offerings: []cloud.Offering{call.Offering}, Nodes: call.Nodes,
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
		c.tried(in.Nodes, in.Pool, in.Offerings[0])
	}
	if !c.update(ctx, "create calls", func(tx *ledger.Tx) error { return tx.AddIntents(kept) }) {
		return false
	}
	c.Crash("intent-committed")
	for _, in := range kept {
		c.intents[in.Token] = &intent{Intent: in}
	}
	return true
}

// doomed: another part of the same multi-node launch was refused, so buying
// this part would only be undone.
func (c *Controller) doomed(in ledger.Intent) bool {
	if !in.AllOrNothing {
		return false
	}
	l := c.launches[in.Nodes[0].Launch]
	return l == nil || l.refused != nil
}

func (c *Controller) tried(nodes []ledger.IntentNode, pool string, o cloud.Offering) {
	for _, n := range nodes {
		if l := c.launches[n.Launch]; l != nil {
			l.tried[pool+" "+o.Key()] = true
		}
	}
}

// refuse fails the launches that no offering can serve, once none of their
// create calls is on its way.
func (c *Controller) refuse(ctx context.Context) {
	busy := map[string]bool{}
	for _, in := range c.intents {
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
		req.Nodes = append(req.Nodes, cloud.NodeRequest{Name: n.Node, Generation: n.Generation, Launch: n.Launch, Tags: c.tags(n.Launch)})
	}
	in.inFlight = true
	provider := c.Providers[in.Provider]
	c.Go(func() {
		res, err := provider.Launch(ctx, req)
		select {
		case c.results <- result{token: in.Token, res: res, err: err}:
		case <-ctx.Done():
		}
	})
}

func (c *Controller) tags(id string) map[string]string {
	tags := map[string]string{}
	l := c.launches[id]
	if l == nil {
		return tags
	}
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

func (c *Controller) drainResults(first result) []result {
	all := []result{first}
	for {
		select {
		case r := <-c.results:
			all = append(all, r)
		default:
			return all
		}
	}
}

// bought records the answers to create calls: instances, what was short, and
// what to remember of the offerings.
func (c *Controller) bought(ctx context.Context, results []result) {
	c.Crash("call-returned")
	var (
		instances []ledger.Instance
		failures  []ledger.Failure
		closed    []string
		memory    = map[memoryKey]ledger.MemoryEntry{}
		forget    = map[memoryKey]bool{}
	)
	for _, r := range results {
		in := c.intents[r.token]
		if in == nil {
			continue
		}
		in.inFlight = false
		if r.err != nil {
			e := cloud.AsError(r.err)
			if e.Ambiguous || e.Class == cloud.Throttled {
				c.repeat(in, e)
				continue
			}
			r.res = cloud.LaunchResult{Shortfalls: []cloud.Shortfall{{Offering: in.Offerings[0], Nodes: len(in.Nodes), Err: e}}}
		}
		closed = append(closed, r.token)
		for _, i := range r.res.Instances {
			instances = append(instances, c.toLedger(in, i))
			forget[memoryKey{in.Provider, i.Offering}] = true
		}
		for _, s := range r.res.Shortfalls {
			failures = append(failures, c.shortfall(in, s, memory)...)
		}
	}
	for k := range memory {
		delete(forget, k)
	}
	ok := c.update(ctx, "answers of create calls", func(tx *ledger.Tx) error {
		if err := tx.AddInstances(instances); err != nil {
			return err
		}
		for _, t := range closed {
			if err := tx.CloseIntent(t, c.Now()); err != nil {
				return err
			}
		}
		if err := tx.AddFailures(failures); err != nil {
			return err
		}
		for _, m := range memory {
			if err := tx.PutMemory([]ledger.MemoryEntry{m}); err != nil {
				return err
			}
		}
		for k := range forget {
			if _, had := c.memory[k]; had {
				if err := tx.ForgetMemory(k.provider, []cloud.Offering{k.offering}); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if !ok {
		// The same calls are made again and give the same answers.
		return
	}
	c.Crash("instances-recorded")
	for k, m := range memory {
		c.memory[k] = m
	}
	for k := range forget {
		delete(c.memory, k)
	}
	for _, t := range closed {
		delete(c.intents, t)
	}
	for i := range instances {
		c.link(ctx, &instances[i])
	}
}

// repeat schedules the same call again, token and all.
func (c *Controller) repeat(in *intent, e *cloud.Error) {
	d := min(repeatFirst<<min(in.attempts, 10), repeatMax)
	d += time.Duration(c.Rand() * float64(d) / 4)
	in.attempts++
	in.next = c.Now().Add(d)
	c.Log.Warn("create call is repeated with the same token", "token", in.Token, "in", d, "attempt", in.attempts, "class", e.Class, "err", e)
}

func (c *Controller) toLedger(in *intent, i cloud.Instance) ledger.Instance {
	l := ledger.Instance{
		Provider: in.Provider, ID: i.ID, Node: i.Node, Generation: i.Generation, Launch: i.Launch, Token: in.Token, Pool: in.Pool,
		Offering: i.Offering, Addr: i.Addr, HostName: i.HostName, Price: c.prices[memoryKey{in.Provider, i.Offering}],
		State: ledger.Live, CreatedAt: i.CreatedAt,
	}
	if !i.Live() {
		l.State, l.EndedAt, l.EndCause = ledger.Ended, i.EndedAt, i.StateCause
	}
	return l
}

// shortfall turns what an offering could not give into failures on record, one
// per launch, and into memory of the offering.
func (c *Controller) shortfall(in *intent, s cloud.Shortfall, memory map[memoryKey]ledger.MemoryEntry) []ledger.Failure {
	k := memoryKey{in.Provider, s.Offering}
	var old *ledger.MemoryEntry
	if m, ok := c.memory[k]; ok {
		old = &m
	}
	if m, ok := planner.Remember(old, in.Provider, s.Offering, s.Err, c.Now(), c.Config.Memory.First, c.Config.Memory.Max); ok {
		memory[k] = m
	}
	c.tried(in.Nodes, in.Pool, s.Offering)
	c.Log.Warn("offering did not serve", "offering", s.Offering.Key(), "provider", in.Provider, "nodes", s.Nodes, "class", s.Err.Class, "err", s.Err)
	nodes := map[string][]string{}
	var order []string
	for _, n := range in.Nodes {
		if nodes[n.Launch] == nil {
			order = append(order, n.Launch)
		}
		nodes[n.Launch] = append(nodes[n.Launch], n.Node)
	}
	var failures []ledger.Failure
	for _, id := range order {
		f := ledger.Failure{At: c.Now(), Launch: id, Pool: in.Pool, Provider: in.Provider, Offering: s.Offering.Key(),
			Class: s.Err.Class, Code: s.Err.Code, Message: s.Err.Message, Nodes: hostlist.FoldSorted(nodes[id])}
		if l := c.launches[id]; l != nil {
			f.JobID = l.JobID
		}
		failures = append(failures, f)
	}
	return failures
}

// link joins a recorded instance to its launch. If the launch no longer wants
// it, it is terminated at once.
func (c *Controller) link(ctx context.Context, i *ledger.Instance) {
	if i.State != ledger.Live {
		return
	}
	c.instances[instanceKey{i.Provider, i.ID}] = i
	l := c.launches[i.Launch]
	wanted := false
	if l != nil && l.State == ledger.Launching && l.refused == nil && !l.parked[i.Node] {
		for k := range l.Nodes {
			n := &l.Nodes[k]
			if n.Node == i.Node && n.Generation == i.Generation {
				n.InstanceID = i.ID
				wanted = true
			}
		}
	}
	if !wanted {
		c.release(ctx, "its launch was given up meanwhile", i)
	}
}

// release marks instances for termination, on record and here.
func (c *Controller) release(ctx context.Context, cause string, list ...*ledger.Instance) {
	ids := map[string][]string{}
	for _, i := range list {
		if i.State == ledger.Live {
			ids[i.Provider] = append(ids[i.Provider], i.ID)
		}
	}
	for p, l := range ids {
		if c.update(ctx, "instances to terminate", func(tx *ledger.Tx) error { return tx.SetTerminating(p, l, cause) }) {
			c.markTerminating(p, l, cause)
		}
	}
}
