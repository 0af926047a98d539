package controller

import (
	"context"
	"slices"
	"time"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/hold"
	"github.com/midair-hpc/midair/internal/hostlist"
	"github.com/midair-hpc/midair/internal/ledger"
	"github.com/midair-hpc/midair/internal/planner"
	"github.com/midair-hpc/midair/internal/reconcile"
	"github.com/midair-hpc/midair/internal/slurm"
)

// watchJobs is how often the jobs of waiting hooks are looked at, which is how
// soon a cancelled job's hook lets go.
const watchJobs = time.Second

// Question answers a hook that holds a job; it blocks until there is an answer
// or ctx is done, which it is when the hook hangs up.
func (c *Controller) Question(ctx context.Context, q hold.Question) (hold.Answer, error) {
	nodes, err := hostlist.Expand(q.Nodes)
	if err != nil {
		return hold.Answer{}, err
	}
	w := &waiter{jobID: q.JobID, nodes: nodes, answer: make(chan hold.Answer, 1), gone: ctx.Done()}
	select {
	case c.questions <- w:
	case <-ctx.Done():
		return hold.Answer{}, ctx.Err()
	}
	select {
	case a := <-w.answer:
		return a, nil
	case <-ctx.Done():
		return hold.Answer{}, ctx.Err()
	}
}

func (c *Controller) reply(w *waiter, o hold.Outcome) {
	w.answer <- hold.Answer{Outcome: o}
	delete(c.waiters, w)
}

// watch looks at the nodes that boot or that hooks wait for: settles launches,
// lets go of jobs, and drops nodes that Slurm has powered down meanwhile.
func (c *Controller) watch(ctx context.Context) {
	for w := range c.waiters {
		select {
		case <-w.gone:
			delete(c.waiters, w)
		default:
		}
	}
	names := c.watched()
	if len(names) == 0 || !c.slurmAnswers() {
		return
	}
	list, err := c.Slurm.Nodes(ctx, names...)
	if err != nil {
		c.slurmFailed("ask Slurm for the state of booting nodes", err)
		return
	}
	nodes := make(map[string]slurm.Node, len(list))
	for _, n := range list {
		nodes[n.Name] = n
	}
	c.settle(ctx, nodes)
	for w := range c.waiters {
		if allRegistered(w.nodes, nodes) {
			c.reply(w, hold.Ready)
		}
	}
	c.watchWaiters(ctx)
}

func (c *Controller) watched() []string {
	set := map[string]bool{}
	for w := range c.waiters {
		for _, n := range w.nodes {
			set[n] = true
		}
	}
	for _, l := range c.launches {
		if l.State == ledger.Launching {
			for _, n := range l.Nodes {
				set[n.Node] = true
			}
		}
	}
	names := make([]string, 0, len(set))
	for n := range set {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

func allRegistered(names []string, nodes map[string]slurm.Node) bool {
	for _, n := range names {
		s, ok := nodes[n]
		if !ok || !s.State.Registered() {
			return false
		}
	}
	return true
}

// arrived: nothing is left to wait for at a node. It has registered, or somebody
// has set it down and Slurm is through with powering it up.
func arrived(n slurm.Node) bool {
	s := n.State
	return s.Registered() || reconcile.Theirs(n) && !s.PoweringUp() && !s.PoweredDown() && !s.PoweringDown()
}

// settle closes launches whose nodes have all registered.
func (c *Controller) settle(ctx context.Context, nodes map[string]slurm.Node) {
	var done []*launch
	ready := map[string][]string{}
	for _, l := range c.ordered() {
		if l.State != ledger.Launching {
			continue
		}
		l.seen = true
		complete := true
		var late []string
		ended := ""
		for _, n := range l.Nodes {
			if l.parked[n.Node] {
				c.releaseParked(ctx, n)
				continue
			}
			s, known := nodes[n.Node]
			if known && s.State.Down() && s.State.PoweredDown() {
				// What Slurm makes of a node that has not registered within
				// ResumeTimeout.
				late = append(late, n.Node)
				continue
			}
			if known && !s.State.PoweringUp() && (s.State.PoweredDown() || s.State.PoweringDown()) {
				c.park(ctx, l, n.Node)
				continue
			}
			if n.InstanceID != "" && c.isEnding(l, n.Node) {
				ended = n.Node
			}
			if !n.Addressed || !known || !arrived(s) {
				complete = false
				continue
			}
			if i := c.instances[instanceKey{n.Provider, n.InstanceID}]; i != nil && i.ReadyAt.IsZero() {
				ready[n.Provider] = append(ready[n.Provider], n.InstanceID)
			}
		}
		switch {
		case c.launches[l.ID] == nil:
			continue
		case len(l.parked) == len(l.Nodes):
			c.releaseLaunch(ctx, l)
			continue
		case len(late) > 0:
			c.didNotRegister(ctx, l, late)
			continue
		case ended != "":
			// On record from before a crash; otherwise the launch has failed.
			c.fail(ctx, l, &cloud.Error{Class: cloud.InitFailed, Message: "the instance of " + ended + " ended while it booted"}, planner.Refusal{})
			continue
		}
		if complete && l.State == ledger.Launching {
			done = append(done, l)
		}
	}
	if len(done) == 0 && len(ready) == 0 {
		return
	}
	now := c.Now()
	mended := map[memoryKey]bool{}
	for p, ids := range ready {
		for _, id := range ids {
			if k := (memoryKey{p, c.instances[instanceKey{p, id}].Offering, ""}); c.memory[k].Class == cloud.InitFailed {
				mended[k] = true
			}
		}
	}
	ok := c.update(ctx, "registered nodes", func(tx *ledger.Tx) error {
		for k := range mended {
			if err := tx.ForgetMemory(k.provider, []cloud.Offering{k.offering}); err != nil {
				return err
			}
		}
		for p, ids := range ready {
			if err := tx.SetReady(p, ids, now); err != nil {
				return err
			}
		}
		for _, l := range done {
			s := l.Launch
			s.State, s.EndedAt = ledger.Ready, now
			if err := tx.SetLaunch(s); err != nil {
				return err
			}
		}
		return nil
	})
	if !ok {
		return
	}
	for k := range mended {
		delete(c.memory, k)
	}
	for p, ids := range ready {
		for _, id := range ids {
			if i := c.instances[instanceKey{p, id}]; i != nil {
				i.ReadyAt = now
			}
		}
	}
	for _, l := range done {
		c.Crash("launch-settled")
		l.State = ledger.Ready
		c.untrack(l)
		c.Log.Info("ready", "launch", l.ID, "job", l.JobID, "nodes", hostlist.FoldSorted(nodeNames(l.Nodes)), "after", now.Sub(l.CreatedAt).Round(time.Millisecond))
		if l.Round > 0 {
			c.clearComment(ctx, l.JobID)
		}
	}
}

// park drops a node from a launching launch because Slurm has powered it down:
// its instance goes, and the launch ends when no node is left.
func (c *Controller) park(ctx context.Context, l *launch, node string) {
	l.parked[node] = true
	for _, n := range l.Nodes {
		if n.Node == node {
			c.releaseParked(ctx, n)
		}
	}
	if len(l.parked) == len(l.Nodes) {
		c.releaseLaunch(ctx, l)
	}
}

func (c *Controller) releaseParked(ctx context.Context, n ledger.LaunchNode) {
	if i := c.instances[instanceKey{n.Provider, n.InstanceID}]; i != nil {
		c.release(ctx, "Slurm powered its node down before it was ready", i)
	}
}

func (c *Controller) releaseLaunch(ctx context.Context, l *launch) {
	s := l.Launch
	s.State, s.EndedAt = ledger.Released, c.Now()
	if c.update(ctx, "released launch", func(tx *ledger.Tx) error { return tx.SetLaunch(s) }) {
		l.State = ledger.Released
		c.untrack(l)
		c.Log.Info("released: Slurm powered its nodes down before they were ready", "launch", l.ID, "job", l.JobID)
	}
}

// watchWaiters lets go of hooks whose job no longer waits for its nodes.
func (c *Controller) watchWaiters(ctx context.Context) {
	if len(c.waiters) == 0 || c.Now().Before(c.nextJobs) {
		return
	}
	c.nextJobs = c.Now().Add(watchJobs)
	ids := make([]int, 0, len(c.waiters))
	for w := range c.waiters {
		ids = append(ids, w.jobID)
	}
	slices.Sort(ids)
	jobs, err := c.Slurm.Jobs(ctx, slices.Compact(ids)...)
	if err != nil {
		c.slurmFailed("ask Slurm for the jobs that wait for nodes", err)
		return
	}
	byID := map[int]slurm.Job{}
	for _, j := range jobs {
		byID[j.ID] = j
	}
	for w := range c.waiters {
		j, ok := byID[w.jobID]
		if !ok || (j.State != "CONFIGURING" && j.State != "RUNNING") {
			c.reply(w, hold.Gone)
		}
	}
}

// letGo answers the hooks that hold a job whose launch has failed.
func (c *Controller) letGo(jobID int) {
	for w := range c.waiters {
		if jobID != 0 && w.jobID == jobID {
			c.reply(w, hold.Gone)
		}
	}
}
