package controller

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/config"
	"github.com/midair-hpc/midair/internal/hostlist"
	"github.com/midair-hpc/midair/internal/ledger"
	"github.com/midair-hpc/midair/internal/planner"
	"github.com/midair-hpc/midair/internal/reconcile"
	"github.com/midair-hpc/midair/internal/slurm"
)

// listing is what the clouds said they have. pass: it was asked for by a
// reconciler pass, not only to learn addresses.
type listing struct {
	at     time.Time
	listed map[string][]cloud.Instance
	pass   bool
}

// pass starts a reconciler pass when one is due: the clouds are listed first,
// beside the loop; Slurm is asked when they have answered.
func (c *Controller) pass(ctx context.Context) {
	if c.Now().Before(c.nextPass) || c.listing {
		return
	}
	c.nextPass = c.Now().Add(c.Config.Reconcile.Every)
	c.ask(ctx, true)
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
	c.Go(func() {
		l := listing{at: at, pass: pass, listed: List(ctx, c.Providers, c.Config.Cluster, func(provider string, err error) {
			c.Log.Warn("list instances", "provider", provider, "err", err)
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
	if !l.pass {
		return
	}
	in, ok := c.look(ctx, l)
	if !ok {
		return
	}
	c.carryOut(ctx, reconcile.Decide(in))
	if c.adopting && len(l.listed) == len(c.Providers) && c.skipGenerations(ctx) {
		c.adopting = false
		c.Log.Info("the ledger has been rebuilt from the clouds' tags", "instances", len(c.instances))
	}
}

// learnAddresses fills in what a create call could not say yet.
func (c *Controller) learnAddresses(ctx context.Context, l listing) {
	var learned []ledger.Instance
	for p, list := range l.listed {
		for _, i := range list {
			rec := c.instances[instanceKey{p, i.ID}]
			if rec != nil && rec.State == ledger.Live && rec.Addr == "" && i.Addr != "" {
				rec.Addr, rec.HostName = i.Addr, i.HostName
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

func (c *Controller) carryOut(ctx context.Context, p reconcile.Plan) {
	c.sightings = p.Seen
	if p.Deferred > 0 {
		c.Log.Warn("more orphans than one pass may terminate; the rest waits for the next", "deferred", p.Deferred, "cap", c.Config.Reconcile.MaxTerminations)
	}
	c.adopt(ctx, p.Adopt)
	for _, o := range p.Terminate {
		c.Log.Warn("orphan is terminated", "provider", o.Provider, "instance", o.Instance.ID, "node", o.Instance.Node, "why", o.Why)
		rec := c.instances[instanceKey{o.Provider, o.Instance.ID}]
		if rec == nil {
			r := fromTags(o.Provider, o.Instance, c.prices[memoryKey{o.Provider, o.Instance.Offering}])
			if !c.update(ctx, "orphan", func(tx *ledger.Tx) error { return tx.AddInstances([]ledger.Instance{r}) }) {
				continue
			}
			rec = &r
			c.instances[instanceKey{o.Provider, o.Instance.ID}] = rec
		}
		c.release(ctx, "orphan: "+o.Why, rec)
	}
	for _, l := range p.Lost {
		c.lose(ctx, l)
	}
	c.bare(ctx, p.Bare)
	if len(p.Resume) > 0 {
		c.giveBack(ctx, p.Resume, prefix+"back in service after it was down")
	}
}

// lose settles an instance that the cloud has ended by itself. A launch that
// waited for it fails.
func (c *Controller) lose(ctx context.Context, l reconcile.Lost) {
	c.Log.Warn("instance is gone", "provider", l.Instance.Provider, "instance", l.Instance.ID, "node", l.Instance.Node, "why", l.Why)
	ok := c.update(ctx, "lost instance", func(tx *ledger.Tx) error {
		return tx.SetEnded(l.Instance.Provider, []string{l.Instance.ID}, l.EndedAt, l.Why)
	})
	if !ok {
		return
	}
	delete(c.instances, instanceKey{l.Instance.Provider, l.Instance.ID})
	if o := c.nodes[l.Instance.Node]; o != nil && o.State == ledger.Launching && o.ID == l.Instance.Launch {
		c.fail(ctx, o, &cloud.Error{Class: cloud.InitFailed, Message: "the instance of " + l.Instance.Node + " ended while it booted: " + l.Why}, planner.Refusal{})
	}
}

// bare powers down nodes that Slurm has up and no instance carries: their jobs
// cannot run and are requeued, with a start time of ours.
func (c *Controller) bare(ctx context.Context, nodes []reconcile.Bare) {
	if len(nodes) == 0 {
		return
	}
	byWhy := map[string][]string{}
	for _, b := range nodes {
		e := &cloud.Error{Class: cloud.Unknown, Message: b.Why}
		byWhy[reason(e)] = append(byWhy[reason(e)], b.Node)
	}
	hit := map[string]bool{}
	for why, names := range byWhy {
		c.Log.Warn("nodes without an instance are powered down", "nodes", hostlist.FoldSorted(names), "why", why)
		slices.Sort(names)
		for _, n := range names {
			hit[n] = true
		}
		jobs, err := c.Slurm.ActiveJobs(ctx)
		if err != nil {
			c.slurmFailed("ask Slurm for the jobs on lost nodes", err)
		}
		// A node that is gone cannot confirm the end of its job: only down lets
		// Slurm go on without it.
		for _, u := range []slurm.NodeUpdate{{State: "down", Reason: why}, {State: powerDownOK, Reason: why}} {
			if err = c.Slurm.UpdateNodes(ctx, names, u); err != nil {
				c.slurmFailed("power down nodes without an instance", err)
				break
			}
		}
		if err != nil {
			continue
		}
		for _, j := range jobs {
			if on(j, hit) {
				c.requeueLost(ctx, j.ID, why)
			}
		}
	}
}

func on(j slurm.Job, hit map[string]bool) bool {
	names, err := hostlist.Expand(j.Nodes)
	return err == nil && slices.ContainsFunc(names, func(n string) bool { return hit[n] })
}

// requeueLost puts a failing launch without nodes on the job, so that the same
// code that puts back failed launches sets its start time and comment.
func (c *Controller) requeueLost(ctx context.Context, jobID int, why string) {
	round, err := c.Ledger.FailedRounds(ctx, jobID)
	if err != nil {
		c.Log.Error("look up a job's rounds in the ledger", "job", jobID, "err", err)
		return
	}
	l := ledger.Launch{ID: c.NewID(), JobID: jobID, Round: round, State: ledger.Failing, Class: cloud.Unknown,
		Message: strings.TrimPrefix(why, prefix), CreatedAt: c.Now()}
	if c.update(ctx, "lost job", func(tx *ledger.Tx) error { return tx.AddLaunches([]ledger.Launch{l}) }) {
		c.track(l).putBack = true
	}
}

// adopt takes instances over from their tags, launch by launch.
func (c *Controller) adopt(ctx context.Context, list []reconcile.Adoptee) {
	byLaunch := map[string]*ledger.Launch{}
	var order []string
	var recs []ledger.Instance
	for _, a := range list {
		i := a.Instance
		r := fromTags(a.Provider, i, c.prices[memoryKey{a.Provider, i.Offering}])
		recs = append(recs, r)
		l := byLaunch[i.Launch]
		if l == nil {
			job, _ := strconv.Atoi(i.Tags[cloud.TagJob]) // no tag: a node of no job
			l = &ledger.Launch{ID: i.Launch, JobID: job, Tier: i.Tags[cloud.TagTier], User: i.Tags[cloud.TagUser],
				Account: i.Tags[cloud.TagAccount], State: ledger.Launching, CreatedAt: i.CreatedAt}
			if !c.adopting || l.ID == "" {
				l.ID = c.NewID() // the tag's launch is on record and may have ended
			}
			byLaunch[i.Launch] = l
			order = append(order, i.Launch)
		}
		l.Nodes = append(l.Nodes, ledger.LaunchNode{Node: i.Node, Generation: i.Generation, Pool: r.Pool, Provider: a.Provider, InstanceID: i.ID})
		c.Log.Warn("instance is taken over from its tags", "provider", a.Provider, "instance", i.ID, "node", i.Node, "launch", i.Launch)
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
