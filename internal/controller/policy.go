package controller

import (
	"context"
	"time"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/config"
	"github.com/midair-hpc/midair/internal/ledger"
	"github.com/midair-hpc/midair/internal/planner"
	"github.com/midair-hpc/midair/internal/slurm"
)

// maxNodesPerCall bounds a create call of one-node launches: EC2 fills its
// bucket of instances by a few a second, and a call that does not fit fails.
const maxNodesPerCall = 500

// PlannerPool gives a pool of midair.yaml as the planner sees it.
func PlannerPool(p *config.Pool) planner.Pool {
	pool := planner.Pool{Name: p.Name, Provider: p.Provider, Offerings: p.Offerings, Entries: p.Entries,
		Apart: p.Placement == config.PlaceAny, CPUs: p.Node.CPUs, MemoryMiB: p.Node.MemoryMiB, GPUs: p.Node.GPUs()}
	if len(p.Locality)+len(p.Interconnect) > 0 {
		for _, o := range p.Offerings {
			pool.Factors = append(pool.Factors, factor(p.Locality, o.Zone)*factor(p.Interconnect, o.Type))
		}
	}
	return pool
}

func factor(of map[string]float64, key string) float64 {
	if f, ok := of[key]; ok {
		return f
	}
	return 1
}

// PlannerPolicy gives what a tier of midair.yaml says about markets.
func PlannerPolicy(t *config.Tier) planner.Policy {
	p := planner.Policy{Markets: t.Markets, After: t.FallbackAfter}
	switch t.WhenOutOfStock {
	case config.Pause:
		p.WhenOut = planner.Pause
	case config.Deadline:
		p.WhenOut = planner.Deadline
	case config.Fallback:
		p.WhenOut = planner.Fallback
	}
	return p
}

func policiesOf(cfg *config.Config) map[string]planner.Policy {
	policies := map[string]planner.Policy{}
	for i := range cfg.Tiers {
		policies[cfg.Tiers[i].Name] = PlannerPolicy(&cfg.Tiers[i])
	}
	return policies
}

// LatestStart is when a job's nodes must be asked for so that it can end before
// its deadline: its time limit, a boot and the tier's margin before it. Zero: it
// has no deadline.
func LatestStart(j slurm.Job, boot, margin time.Duration) time.Time {
	if j.Deadline.IsZero() {
		return time.Time{}
	}
	return j.Deadline.Add(-j.TimeLimit - boot - margin)
}

// needsPatience: the policy depends on how long a job has waited or must not.
func needsPatience(p planner.Policy) bool {
	return p.WhenOut == planner.Deadline || p.WhenOut == planner.Fallback && p.After > 0
}

// learnPatience finds out since when the jobs of launches are waiting and until
// when they can, for the tiers whose policy depends on it.
func (c *Controller) learnPatience(ctx context.Context) {
	var ask []int
	for _, l := range c.launches {
		p := c.policies[l.Tier]
		if l.patience || !needsPatience(p) {
			continue
		}
		l.wanted = l.RequestedAt
		if l.JobID == 0 {
			l.patience = true
			continue
		}
		since, err := c.Ledger.WantedSince(ctx, l.JobID)
		if err != nil {
			c.Log.Error("look up since when a job waits", "job", l.JobID, "err", err)
		} else if !since.IsZero() && since.Before(l.wanted) {
			l.wanted = since
		}
		if l.patience = p.WhenOut != planner.Deadline; !l.patience {
			ask = append(ask, l.JobID)
		}
	}
	if len(ask) == 0 || !c.slurmAnswers() {
		return
	}
	jobs, err := c.Slurm.Jobs(ctx, ask...)
	if err != nil {
		c.slurmFailed("ask Slurm for the deadlines of jobs", err)
		return
	}
	byID := map[int]slurm.Job{}
	for _, j := range jobs {
		byID[j.ID] = j
	}
	for _, l := range c.launches {
		if l.patience || l.JobID == 0 || !needsPatience(c.policies[l.Tier]) {
			continue
		}
		l.patience = true
		if j, ok := byID[l.JobID]; ok {
			l.latest = LatestStart(j, c.slowestBoot(l), c.margin(l.Tier))
		}
	}
}

// slowestBoot is how long the nodes of a launch may take to register.
func (c *Controller) slowestBoot(l *launch) time.Duration {
	var d time.Duration
	for _, n := range l.Nodes {
		if p, ok := c.Config.PoolNamed(n.Pool); ok {
			d = max(d, p.ResumeTimeout)
		}
	}
	return d
}

func (c *Controller) margin(tier string) time.Duration {
	for _, t := range c.Config.Tiers {
		if t.Name == tier {
			return t.DeadlineMargin
		}
	}
	return 0
}

// patient: the job of a launch waits for its tier's first market.
func (c *Controller) patient(l *launch) bool {
	return c.policies[l.Tier].Patient(l.wanted, l.latest, c.Now())
}

// quotaBucket names the quota that an offering counts against, where its
// provider knows.
func (c *Controller) quotaBucket(k planner.Key) string {
	if p, ok := c.Providers[k.Provider].(interface {
		QuotaBucket(o cloud.Offering) string
	}); ok {
		return p.QuotaBucket(k.Offering)
	}
	return ""
}

// probing gives the offerings that a launch is trying after their breaker was
// open.
func (c *Controller) probing() map[planner.Key]bool {
	broken := map[planner.Key]bool{}
	for k, m := range c.memory {
		if m.Class == cloud.InitFailed {
			broken[planner.Key{Provider: k.provider, Offering: k.offering}] = true
		}
	}
	if len(broken) == 0 {
		return nil
	}
	probing := map[planner.Key]bool{}
	for _, in := range c.intents {
		for _, o := range in.Offerings {
			if k := (planner.Key{Provider: in.Provider, Offering: o}); broken[k] {
				probing[k] = true
			}
		}
	}
	for _, i := range c.instances {
		l := c.launches[i.Launch]
		if k := (planner.Key{Provider: i.Provider, Offering: i.Offering}); broken[k] && l != nil && l.State == ledger.Launching && i.ReadyAt.IsZero() {
			probing[k] = true
		}
	}
	return probing
}

// notBooted counts against their offerings that instances of a failed launch
// did not become nodes.
func (c *Controller) notBooted(l *launch, e *cloud.Error) []ledger.MemoryEntry {
	if e.Class != cloud.InitFailed {
		return nil
	}
	var entries []ledger.MemoryEntry
	done := map[memoryKey]bool{}
	for _, i := range c.instances {
		k := memoryKey{i.Provider, i.Offering, ""}
		if i.Launch != l.ID || !i.ReadyAt.IsZero() || done[k] {
			continue
		}
		done[k] = true
		var old *ledger.MemoryEntry
		if m, ok := c.memory[k]; ok {
			old = &m
		}
		m, ok := planner.RememberInit(old, i.Provider, i.Offering, e, c.Now(), c.Config.Memory.First, c.Config.Memory.Max, c.Config.Memory.InitFailures)
		if ok {
			entries = append(entries, m)
		}
	}
	return entries
}

// reclaimed remembers that the cloud has taken an instance of an offering back:
// it has sold out of it.
func (c *Controller) reclaimed(i ledger.Instance, e *cloud.Error) (ledger.MemoryEntry, bool) {
	k := memoryKey{i.Provider, i.Offering, ""}
	var old *ledger.MemoryEntry
	if m, ok := c.memory[k]; ok {
		old = &m
	}
	return planner.RememberFor(old, i.Provider, "", i.Offering, e, 1, c.Now(), c.Config.Memory.First, c.Config.Memory.Max)
}

func keyOf(m ledger.MemoryEntry) memoryKey { return memoryKey{m.Provider, m.Offering, m.Pool} }
