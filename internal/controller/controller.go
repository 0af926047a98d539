// Package controller does what the hooks recorded: it plans, buys, gives Slurm
// the addresses, settles, puts back what failed and reconciles cloud and Slurm.
//
// One goroutine owns all state. Provider calls run beside it and send their
// answers back; everything that must survive kill -9 is in the ledger before
// it is acted on, so a restart picks up where the last process stopped.
package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/config"
	"github.com/midair-hpc/midair/internal/hold"
	"github.com/midair-hpc/midair/internal/ledger"
	"github.com/midair-hpc/midair/internal/planner"
	"github.com/midair-hpc/midair/internal/slurm"
)

// Intervals. The first decides how soon a job starts after its last node has
// registered; the others only how soon trouble is noticed.
const (
	watchBusy  = 200 * time.Millisecond // while nodes boot or jobs wait for them
	sweepSpool = 5 * time.Second        // in case inotify missed something
	retrySoon  = time.Second            // after Slurm or a provider did not answer
)

// Options is what a Controller works with.
type Options struct {
	Config    *config.Config
	Ledger    *ledger.Ledger
	Slurm     slurm.Client
	Providers map[string]cloud.Provider
	SpoolDir  string
	Log       *slog.Logger
	Now       func() time.Time
	// Rand gives numbers in [0,1) for jitter.
	Rand func() float64
	// NewID gives a new launch's id.
	NewID func() string
	// Go runs a provider call beside the loop. Nil: in a goroutine of its own.
	Go func(call func())
	// Crash is called at each crash point; tests use it to end the process
	// there. Nil: nothing.
	Crash func(point string)
	// Adopt: the ledger is new, instances of this cluster that the cloud knows
	// are taken over from their tags.
	Adopt bool
	// Rebuilt: the ledger is new because a damaged one was moved aside.
	Rebuilt bool
}

// Controller is midair's daemon.
type Controller struct {
	Options
	pools    []planner.Pool
	policies map[string]planner.Policy // by tier

	launches  map[string]*launch               // open ones: launching and failing
	nodes     map[string]*launch               // node → the open launch that carries it
	instances map[instanceKey]*ledger.Instance // live and terminating
	intents   map[string]*intent               // open ones by token
	memory    map[memoryKey]ledger.MemoryEntry
	prices    map[planner.Key]cloud.MicroUSD
	waiters   map[*waiter]bool

	results   chan result
	ended     chan termination
	lists     chan listing
	questions chan *waiter
	named     chan []instanceKey
	newPrices chan map[planner.Key]cloud.MicroUSD

	naming      map[instanceKey]bool // their Name call is on its way
	terminating map[instanceKey]ending
	oddSaid     map[string]bool      // odd items of the last pass, which have been logged
	seenEnded   map[instanceKey]bool // ended in the last listing, and on record
	listing     bool
	sightings   map[string]time.Time // reconciler's first looks
	slurmBack   time.Time            // Slurm did not answer: not asked before this
	nextPass    time.Time            // of the reconciler
	nextJobs    time.Time            // waiters' jobs are looked at
	nextList    time.Time            // for missing addresses
	nextLook    time.Time            // for spot instances that were taken back
	nextPrune   time.Time            // old records are removed from the ledger
	nextPrices  time.Time            // prices are asked for again
	started     time.Time
	adopting    bool
}

type instanceKey struct{ provider, id string }

// memoryKey is what an entry of capacity memory is about; pool is empty where it
// holds for all.
type memoryKey struct {
	provider string
	offering cloud.Offering
	pool     string
}

// launch is an open launch with what is not worth journaling.
type launch struct {
	ledger.Launch
	tried    map[string]bool         // pool + offering key that failed in this round
	said     map[string]*cloud.Error // by pool: what its cloud said last
	waits    map[string]*cloud.Error // by node: why its create call is being repeated
	refused  *planner.Refusal
	putBack  bool // its nodes have been put back; the job is next
	since    time.Time
	failedAt time.Time // when it was given up; a retry is counted from here
	next     time.Time // not before
	// patience is known: wanted and latest are set, where its tier's policy needs
	// them.
	patience bool
	wanted   time.Time // since when its job's nodes are wanted
	latest   time.Time // when they must be asked for, for the job's deadline; zero: it has none
	// parked: the launch's nodes that Slurm powered down meanwhile.
	parked map[string]bool
	// seen: Slurm has been asked about its nodes since it was loaded, so that
	// parked is known. Nothing is bought for a launch before.
	seen bool
}

// waiter is a PrologSlurmctld that holds a job.
type waiter struct {
	jobID  int
	nodes  []string
	answer chan hold.Answer
	gone   <-chan struct{}
}

// New makes a Controller and loads its state from the ledger.
func New(ctx context.Context, o Options) (*Controller, error) {
	if o.Crash == nil {
		o.Crash = func(string) {}
	}
	if o.Go == nil {
		o.Go = func(call func()) { go call() }
	}
	c := &Controller{
		Options:     o,
		launches:    map[string]*launch{},
		nodes:       map[string]*launch{},
		instances:   map[instanceKey]*ledger.Instance{},
		intents:     map[string]*intent{},
		memory:      map[memoryKey]ledger.MemoryEntry{},
		prices:      map[planner.Key]cloud.MicroUSD{},
		policies:    policiesOf(o.Config),
		newPrices:   make(chan map[planner.Key]cloud.MicroUSD, 1),
		waiters:     map[*waiter]bool{},
		results:     make(chan result, 64),
		ended:       make(chan termination, 16),
		lists:       make(chan listing, 1),
		questions:   make(chan *waiter, 64),
		named:       make(chan []instanceKey, 64),
		naming:      map[instanceKey]bool{},
		terminating: map[instanceKey]ending{},
		sightings:   map[string]time.Time{},
		started:     o.Now(),
		adopting:    o.Adopt,
	}
	for _, p := range o.Config.Pools {
		if _, ok := o.Providers[p.Provider]; !ok {
			return nil, fmt.Errorf("start controller: pool %s wants provider %s, which is not open", p.Name, p.Provider)
		}
		c.pools = append(c.pools, PlannerPool(&p))
	}
	if err := c.load(ctx); err != nil {
		return nil, fmt.Errorf("start controller: %w", err)
	}
	return c, nil
}

func (c *Controller) load(ctx context.Context) error {
	open, err := c.Ledger.OpenLaunches(ctx)
	if err != nil {
		return err
	}
	for _, l := range open {
		c.track(l)
	}
	live, err := c.Ledger.LiveInstances(ctx)
	if err != nil {
		return err
	}
	for i := range live {
		c.instances[instanceKey{live[i].Provider, live[i].ID}] = &live[i]
	}
	intents, err := c.Ledger.OpenIntents(ctx)
	if err != nil {
		return err
	}
	if err := c.loadIntents(ctx, intents); err != nil {
		return err
	}
	mem, err := c.Ledger.Memory(ctx)
	if err != nil {
		return err
	}
	for _, m := range mem {
		c.memory[memoryKey{m.Provider, m.Offering, m.Pool}] = m
	}
	return nil
}

// recentLaunches is how far back the launches of open create calls are looked
// for: such a call is minutes old, or as old as its cloud's trouble.
const recentLaunches = 10_000

func (c *Controller) loadIntents(ctx context.Context, intents []ledger.Intent) error {
	if len(intents) == 0 {
		return nil
	}
	recent, err := c.Ledger.RecentLaunches(ctx, recentLaunches)
	if err != nil {
		return err
	}
	byID := map[string]ledger.Launch{}
	for _, l := range recent {
		byID[l.ID] = l
	}
	for _, in := range intents {
		launches := map[string]ledger.Launch{}
		for _, n := range in.Nodes {
			launches[n.Launch] = byID[n.Launch]
		}
		c.intents[in.Token] = &intent{Intent: in, launches: launches}
	}
	return nil
}

func (c *Controller) track(l ledger.Launch) *launch {
	t := &launch{Launch: l, tried: map[string]bool{}, said: map[string]*cloud.Error{}, waits: map[string]*cloud.Error{}, parked: map[string]bool{}, since: c.Now(), failedAt: c.Now()}
	c.launches[l.ID] = t
	for _, n := range l.Nodes {
		if older := c.nodes[n.Node]; older != nil {
			older.parked[n.Node] = true // Slurm has powered it down and up again
		}
		c.nodes[n.Node] = t
	}
	return t
}

// untrack forgets a launch that has ended. A node that a newer launch carries
// stays with that one.
func (c *Controller) untrack(l *launch) {
	delete(c.launches, l.ID)
	for _, n := range l.Nodes {
		if c.nodes[n.Node] == l {
			delete(c.nodes, n.Node)
		}
	}
}

// Run works until ctx is done. wake tells that the spool may hold something
// new.
func (c *Controller) Run(ctx context.Context, wake <-chan struct{}) error {
	c.nextPass = c.Now().Add(c.Config.Reconcile.Every)
	if c.adopting {
		c.nextPass = c.Now()
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case _, ok := <-wake:
			if !ok {
				return errors.New("run controller: the spool's watch ended")
			}
		case r := <-c.results:
			c.bought(ctx, c.drainResults(r))
		case t := <-c.ended:
			c.terminated(ctx, t)
		case l := <-c.lists:
			c.listed(ctx, l)
		case w := <-c.questions:
			c.hear(w)
		case keys := <-c.named:
			c.wereNamed(keys)
		case p := <-c.newPrices:
			c.priced(p)
		case <-timer.C:
		}
		c.drain(ctx)
		c.askPrices(ctx)
		timer.Reset(c.Step(ctx))
	}
}

// drain takes what else has arrived: a step asks Slurm, so hundreds of hooks
// that ask at the same time must not cost a step each.
func (c *Controller) drain(ctx context.Context) {
	for {
		select {
		case t := <-c.ended:
			c.terminated(ctx, t)
		case w := <-c.questions:
			c.hear(w)
		case keys := <-c.named:
			c.wereNamed(keys)
		default:
			return
		}
	}
}

// hear notes a hook that holds a job.
func (c *Controller) hear(w *waiter) { c.waiters[w] = true }

// Step takes every step that is due and says when the next one may be. Each is
// safe to repeat.
func (c *Controller) Step(ctx context.Context) time.Duration {
	// Nothing is planned before a lost ledger has been rebuilt, or a node that
	// has an instance would get a second one.
	if !c.adopting {
		c.intake(ctx)
		c.buy(ctx)
	}
	c.address(ctx)
	c.watch(ctx)
	c.putBack(ctx)
	c.terminate(ctx)
	c.pass(ctx)
	return c.pause()
}

func (c *Controller) pause() time.Duration {
	d := sweepSpool
	if len(c.launches) > 0 || len(c.waiters) > 0 || len(c.intents) > 0 {
		d = watchBusy
	}
	for _, i := range c.instances {
		if i.State == ledger.Terminating && d > retrySoon {
			d = retrySoon
		}
	}
	if until := c.nextPass.Sub(c.Now()); !c.listing && until < d {
		d = max(until, 0)
	}
	return d
}

// slurmAnswers reports whether Slurm may be asked now: after a failure it is
// left alone for a moment, since each call blocks until its timeout.
func (c *Controller) slurmAnswers() bool { return !c.Now().Before(c.slurmBack) }

// slurmFailed notes that a Slurm command failed and logs it.
func (c *Controller) slurmFailed(what string, err error) {
	c.slurmBack = c.Now().Add(retrySoon)
	c.Log.Warn(what, "err", err)
}

// update commits to the ledger. A ledger that cannot be written stops all
// action: nothing may be bought that is not on record.
func (c *Controller) update(ctx context.Context, what string, fn func(tx *ledger.Tx) error) bool {
	if err := c.Ledger.Update(ctx, fn); err != nil {
		c.Log.Error("write to the ledger", "what", what, "err", err)
		return false
	}
	return true
}
