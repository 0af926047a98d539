package controller

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/config"
	"github.com/midair-hpc/midair/internal/ledger"
	"github.com/midair-hpc/midair/internal/reconcile"
	"github.com/midair-hpc/midair/internal/slurm"
)

// listTimeout bounds the listing of the clouds; one that has not answered then
// is left out. adoptWait is how long a new ledger waits for all of them.
const (
	listTimeout = time.Minute
	adoptWait   = 2 * time.Minute
)

// listing is what the clouds said they have. pass: it was asked for by a
// reconciler pass, not only to learn addresses.
type listing struct {
	at     time.Time
	listed map[string][]cloud.Instance
	pass   bool
}

// spotLook is how often the clouds are listed while a spot instance lives. When
// a node could not say that the cloud takes it back, a listing is the first to
// know: Slurm finds out after SlurmdTimeout, 300 s by default, and a job that
// boots waits for its whole ResumeTimeout. A listing is cheap, 1000 instances
// to a page on EC2, of which it answers several a second.
const spotLook = 15 * time.Second

// pass starts a reconciler pass when one is due: the clouds are listed first,
// beside the loop; Slurm is asked when they have answered.
func (c *Controller) pass(ctx context.Context) {
	switch now := c.Now(); {
	case c.listing:
	case !now.Before(c.nextPass):
		c.nextPass = now.Add(c.Config.Reconcile.Every)
		c.tidy(ctx)
		c.ask(ctx, true)
	case !now.Before(c.nextLook) && c.hasSpot():
		c.ask(ctx, false)
	}
}

func (c *Controller) hasSpot() bool {
	for _, i := range c.instances {
		if i.Offering.Market == cloud.Spot && i.State == ledger.Live {
			return true
		}
	}
	return false
}

// list asks the clouds outside a pass.
func (c *Controller) list(ctx context.Context) {
	if !c.listing {
		c.ask(ctx, false)
	}
}

func (c *Controller) ask(ctx context.Context, pass bool) {
	c.listing = true
	at := c.Now()
	c.nextLook = at.Add(spotLook)
	c.Go(func() {
		call, cancel := context.WithTimeout(ctx, listTimeout)
		defer cancel()
		l := listing{at: at, pass: pass, listed: List(call, c.Providers, c.Config.Cluster, func(provider string, err error) {
			if ctx.Err() == nil {
				c.Log.Warn("list instances", "provider", provider, "err", err)
			}
		})}
		select {
		case c.lists <- l:
		case <-ctx.Done():
		}
	})
}

// List asks all providers at the same time. One that fails is absent from the
// result and reported to failed.
func List(ctx context.Context, providers map[string]cloud.Provider, cluster string, failed func(provider string, err error)) map[string][]cloud.Instance {
	var (
		mu     sync.Mutex
		wg     sync.WaitGroup
		listed = map[string][]cloud.Instance{}
	)
	for name, p := range providers {
		wg.Go(func() {
			list, err := p.List(ctx, cluster)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed(name, err)
				return
			}
			if list == nil {
				list = []cloud.Instance{}
			}
			listed[name] = list
		})
	}
	wg.Wait()
	return listed
}

func (c *Controller) listed(ctx context.Context, l listing) {
	c.listing = false
	c.learnAddresses(ctx, l)
	c.nameUnnamed(ctx, l)
	if !l.pass && !c.hasLost(l) {
		return
	}
	in, ok := c.look(ctx, l)
	if !l.pass {
		if ok {
			in.Seen = nil // what takes two looks takes two passes
			c.carryOutLost(ctx, reconcile.Decide(in))
		}
		return
	}
	if ok {
		c.carryOut(ctx, reconcile.Decide(in))
		ok = c.recordEnded(ctx, l)
	}
	if c.adopting {
		c.adopted(ctx, l, ok)
	}
}

// adopted ends the rebuilding of a lost ledger when all clouds have been
// listed. Nothing is bought before, so what did not answer is asked again soon,
// and a cloud that never answers is not waited for for ever: what it has and
// nobody needs will be found to be orphans.
func (c *Controller) adopted(ctx context.Context, l listing, looked bool) {
	all := len(l.listed) == len(c.Providers)
	if !looked || !all && c.Now().Sub(c.started) < adoptWait || !c.skipGenerations(ctx) {
		c.nextPass = c.Now().Add(retrySoon)
		return
	}
	c.adopting = false
	c.warnUnnamed(l)
	if !all {
		c.Log.Error("the ledger has been rebuilt without the clouds that did not answer", "answered", len(l.listed), "clouds", len(c.Providers))
	}
	c.Log.Info("the ledger has been rebuilt from the clouds' tags", "instances", len(c.instances))
}

// learnAddresses fills in what a create call could not say yet: the address, and
// since when the instance is paid for. EC2 gives that in whole seconds.
func (c *Controller) learnAddresses(ctx context.Context, l listing) {
	var learned []ledger.Instance
	for p, list := range l.listed {
		for _, i := range list {
			rec := c.instances[instanceKey{p, i.ID}]
			if rec == nil || rec.State != ledger.Live {
				continue
			}
			addr := rec.Addr == "" && i.Addr != ""
			created := !i.CreatedAt.IsZero() && rec.CreatedAt.Sub(i.CreatedAt) >= time.Second
			if addr {
				rec.Addr, rec.HostName = i.Addr, i.HostName
			}
			if created {
				rec.CreatedAt = i.CreatedAt
			}
			if addr || created {
				learned = append(learned, *rec)
			}
		}
	}
	if len(learned) > 0 {
		c.update(ctx, "learned addresses", func(tx *ledger.Tx) error { return tx.AddInstances(learned) })
	}
}

// look gathers the reconciler's input.
func (c *Controller) look(ctx context.Context, l listing) (reconcile.Input, bool) {
	in := reconcile.Input{
		Now: c.Now(), Grace: c.Config.Reconcile.Grace, MaxTerminations: c.Config.Reconcile.MaxTerminations,
		Listed: l.listed, ListedAt: l.at, Seen: c.sightings,
		Launching: map[string]bool{}, OpenTokens: map[string]bool{},
	}
	if !c.slurmAnswers() {
		return in, false
	}
	var err error
	if in.Pools, in.Nodes, err = PoolNodes(ctx, c.Config.Pools, c.Slurm); err != nil {
		c.slurmFailed("ask Slurm for the pools' nodes", err)
		return in, false
	}
	for _, i := range c.instances {
		in.Instances = append(in.Instances, *i)
	}
	for _, l := range c.launches {
		for _, n := range l.Nodes {
			in.Launching[n.Node] = true
		}
	}
	for t := range c.intents {
		in.OpenTokens[t] = true
	}
	return in, true
}

// hasLost: a listing shows an instance as ended or off that is on record as
// live. Between two passes nothing else is acted on.
func (c *Controller) hasLost(l listing) bool {
	for p, list := range l.listed {
		for _, i := range list {
			if i.Live() {
				continue
			}
			if rec := c.instances[instanceKey{p, i.ID}]; rec != nil && rec.State == ledger.Live {
				return !c.adopting
			}
		}
	}
	return false
}

func (c *Controller) carryOut(ctx context.Context, p reconcile.Plan) {
	if c.adopting {
		// Requests are still in the spool: what looks bare or orphaned now is not.
		p = reconcile.Plan{Adopt: p.Adopt, Odd: p.Odd}
	}
	c.sightings = p.Seen
	if p.Deferred > 0 {
		c.Log.Warn("more orphans than one pass may terminate; the rest waits for the next", "deferred", p.Deferred, "cap", c.Config.Reconcile.MaxTerminations)
	}
	odd := map[string]bool{}
	for _, o := range p.Odd {
		k := o.Provider + " " + o.Instance.ID + " " + o.Why
		odd[k] = true
		if !c.oddSaid[k] {
			c.Log.Warn("odd item in a cloud's listing; left alone", "provider", o.Provider, "instance", o.Instance.ID, "node", o.Instance.Node, "why", o.Why)
		}
	}
	c.oddSaid = odd
	c.adopt(ctx, p.Adopt)
	c.releaseOrphans(ctx, p.Terminate)
	c.carryOutLost(ctx, p)
	if len(p.Resume) > 0 {
		_ = c.giveBack(ctx, p.Resume, prefix+"back in service after it was down") // or the next pass does it
	}
}

// releaseOrphans puts orphans on record, if they are not, and marks them to be
// terminated.
func (c *Controller) releaseOrphans(ctx context.Context, orphans []reconcile.Orphan) {
	for _, o := range orphans {
		c.Log.Warn("orphan is terminated", "provider", o.Provider, "instance", o.Instance.ID, "node", o.Instance.Node, "why", o.Why)
		k := instanceKey{o.Provider, o.Instance.ID}
		rec := c.instances[k]
		if rec == nil {
			r := c.fromTags(o.Provider, o.Instance)
			if !c.update(ctx, "orphan", func(tx *ledger.Tx) error { return takeOver(tx, []ledger.Instance{r}) }) {
				continue
			}
			rec = &r
			c.instances[k] = rec
		}
		c.release(ctx, "orphan: "+o.Why, rec)
	}
}

// carryOutLost powers down the nodes without an instance and settles what the
// cloud has ended. Slurm first: if it does not answer, or not take a node, the
// instances are found to be lost again in the next pass, and their nodes with
// them.
func (c *Controller) carryOutLost(ctx context.Context, p reconcile.Plan) {
	done := c.bare(ctx, p.Bare)
	waits := map[string]bool{}
	for _, b := range p.Bare {
		waits[b.Node] = !done[b.Node]
	}
	c.lose(ctx, slices.DeleteFunc(p.Lost, func(l reconcile.Lost) bool { return waits[l.Instance.Node] }))
}

// PoolNodes gives each pool node's provider and Slurm's view of it.
func PoolNodes(ctx context.Context, pools []config.Pool, client slurm.Client) (map[string]string, map[string]slurm.Node, error) {
	providers := map[string]string{}
	var names []string
	for _, p := range pools {
		for _, n := range p.NodeNames {
			providers[n] = p.Provider
			names = append(names, n)
		}
	}
	nodes := map[string]slurm.Node{}
	if len(names) == 0 {
		return providers, nodes, nil
	}
	list, err := client.Nodes(ctx, names...)
	if err != nil {
		return nil, nil, err
	}
	for _, n := range list {
		nodes[n.Name] = n
	}
	return providers, nodes, nil
}
