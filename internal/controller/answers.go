package controller

import (
	"context"
	"slices"
	"time"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/hostlist"
	"github.com/midair-hpc/midair/internal/ledger"
	"github.com/midair-hpc/midair/internal/planner"
)

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

		byProvider = map[string][]cloud.Instance{}
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
			r.res = cloud.LaunchResult{}
			for _, o := range in.Offerings {
				r.res.Shortfalls = append(r.res.Shortfalls, cloud.Shortfall{Offering: o, Nodes: len(in.Nodes), Err: e})
			}
		}
		closed = append(closed, r.token)
		byProvider[in.Provider] = append(byProvider[in.Provider], r.res.Instances...)
		for _, i := range r.res.Instances {
			instances = append(instances, c.toLedger(in, i))
			if k := (memoryKey{in.Provider, i.Offering, ""}); c.memory[k].Class != cloud.InitFailed {
				forget[k] = true // a breaker closes only when a node has registered
			}
		}
		for _, s := range r.res.Shortfalls {
			failures = append(failures, c.shortfall(in, s, memory)...)
		}
		if len(r.res.Instances) < len(in.Nodes) && len(r.res.Shortfalls) == 0 {
			c.tried(in.Nodes, in.Pool, in.Offerings...) // why is not said, but it is no use to ask again
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
	for p, list := range byProvider {
		c.name(ctx, p, slices.DeleteFunc(list, func(i cloud.Instance) bool { return !i.Live() }))
	}
}

// repeat schedules the same call again, token and all.
func (c *Controller) repeat(in *intent, e *cloud.Error) {
	for _, n := range in.Nodes {
		if l := c.launches[n.Launch]; l != nil {
			l.waits[n.Node] = e
		}
	}
	d := min(repeatFirst<<min(in.attempts, 10), repeatMax)
	d += time.Duration(c.Rand() * float64(d) / 4)
	in.attempts++
	in.next = c.Now().Add(d)
	c.Log.Warn("create call is repeated with the same token", "token", in.Token, "in", d, "attempt", in.attempts, "class", e.Class, "err", e)
}

func (c *Controller) toLedger(in *intent, i cloud.Instance) ledger.Instance {
	l := ledger.Instance{
		Provider: in.Provider, ID: i.ID, Node: i.Node, Generation: i.Generation, Launch: i.Launch, Token: in.Token, Pool: in.Pool,
		Offering: i.Offering, Addr: i.Addr, HostName: i.HostName, Price: c.prices[planner.Key{Provider: in.Provider, Offering: i.Offering}],
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
	k := memoryKey{in.Provider, s.Offering, ""}
	if s.Err.Class == cloud.SpecMismatch {
		k.pool = in.Pool
	}
	size := 1
	if in.AllOrNothing {
		size = len(in.Nodes)
	}
	var old *ledger.MemoryEntry
	if m, ok := c.memory[k]; ok {
		old = &m
	}
	if m, ok := planner.RememberFor(old, in.Provider, in.Pool, s.Offering, s.Err, size, c.Now(), c.Config.Memory.First, c.Config.Memory.Max); ok {
		memory[k] = m
	}
	c.tried(in.Nodes, in.Pool, s.Offering)
	for _, n := range in.Nodes {
		if l := c.launches[n.Launch]; l != nil {
			l.hears(in.Pool, s.Err)
		}
	}
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
