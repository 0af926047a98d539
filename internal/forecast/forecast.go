// Package forecast says what midair would buy for a job if it were to start now:
// from which offerings, at what price, and why not from the others. It buys
// nothing; it asks the planner the question that the controller asks.
package forecast

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/config"
	"github.com/midair-hpc/midair/internal/controller"
	"github.com/midair-hpc/midair/internal/ledger"
	"github.com/midair-hpc/midair/internal/planner"
	"github.com/midair-hpc/midair/internal/slurm"
)

// Job is what is asked about.
type Job struct {
	Nodes     int      // how many
	Names     []string // which, where that was said
	QOS       string
	Partition string        // only this pool; empty: the tier's
	TimeLimit time.Duration // 0: not known
	Deadline  time.Time     // zero: none
	GPUs      int           // per node; 0: whatever
}

// Forecast is the answer.
type Forecast struct {
	Job  Job    `json:"-"`
	Tier string `json:"tier"`
	// Home: the tier has no pool, so nothing is ever bought for it.
	Home       bool     `json:"home"`
	Partitions []string `json:"partitions"`
	Nodes      int      `json:"nodes"`
	Pools      []Pool   `json:"pools"` // in the order of the tier's partitions
}

// Pool is what the job would get in one pool.
type Pool struct {
	Name     string `json:"pool"`
	Provider string `json:"provider"`
	// Unfit says why the pool is not for the job at all; empty: it is.
	Unfit      string     `json:"unfit,omitempty"`
	Offerings  []Offering `json:"offerings,omitempty"`
	Refused    string     `json:"refused,omitempty"`     // why nothing can be bought now
	RetryAt    time.Time  `json:"retry_at,omitzero"`     // when it may be tried again
	USDPerHour float64    `json:"usd_per_hour"`          // of all nodes, at the first offering's price; 0: not known
	USDAtMost  float64    `json:"usd_at_most,omitempty"` // if the job runs its whole limit
}

// Offering is one line of a pool's plan.
type Offering struct {
	Key        string        `json:"offering"`
	USDPerHour float64       `json:"usd_per_hour"`      // of one node; 0: not known
	Weighed    float64       `json:"weighed,omitempty"` // where data or fabric weigh in
	Place      planner.Place `json:"place"`
	Class      cloud.Class   `json:"class,omitempty"`
	Until      time.Time     `json:"until,omitzero"`
	Why        string        `json:"why,omitempty"`
}

// Input is what a forecast depends on.
type Input struct {
	Config *config.Config
	Memory []ledger.MemoryEntry
	Prices map[planner.Key]cloud.MicroUSD
	Bucket func(planner.Key) string
	Now    time.Time
}

// Served reports whether some pool can serve the job now, or none ever has to.
func (f Forecast) Served() bool {
	return f.Home || slices.ContainsFunc(f.Pools, func(p Pool) bool { return p.Unfit == "" && p.Refused == "" })
}

// Make plans the job. It fails where the job can belong to no tier or pool.
func Make(in Input, j Job) (Forecast, error) {
	tier, ok := in.Config.TierOf(j.QOS)
	if !ok {
		return Forecast{}, fmt.Errorf("QOS %q is in no tier of %s; there are %s", j.QOS, in.Config.Path, qosList(in.Config))
	}
	f := Forecast{Job: j, Tier: tier.Name, Partitions: tier.Partitions, Nodes: j.Nodes, Home: true, Pools: []Pool{}}
	for _, name := range tier.Partitions {
		if _, isPool := in.Config.PoolNamed(name); isPool {
			f.Home = false
		}
	}
	if f.Home {
		return f, nil
	}
	if j.Partition != "" && !slices.Contains(tier.Partitions, j.Partition) {
		return f, fmt.Errorf("tier %s does not run in partition %q; it runs in %s", tier.Name, j.Partition, strings.Join(tier.Partitions, ", "))
	}
	for _, name := range tier.Partitions {
		p, isPool := in.Config.PoolNamed(name)
		if !isPool || j.Partition != "" && j.Partition != name {
			continue
		}
		f.Pools = append(f.Pools, in.pool(p, tier, j))
	}
	if len(f.Pools) == 0 {
		f.Home = true // the partition that was asked for is on the premises
		f.Partitions = []string{j.Partition}
	}
	return f, nil
}

func qosList(cfg *config.Config) string {
	var all []string
	for _, t := range cfg.Tiers {
		all = append(all, strings.Join(t.QOS, ", ")+" (tier "+t.Name+")")
	}
	if len(all) == 0 {
		return "no tiers"
	}
	return strings.Join(all, "; ")
}

// unfit says why a pool is not for a job at all.
func unfit(p *config.Pool, j Job) string {
	switch {
	case j.Nodes > len(p.NodeNames):
		return fmt.Sprintf("it has %d nodes", len(p.NodeNames))
	case j.GPUs > p.Node.GPUs():
		return fmt.Sprintf("its nodes have %d GPUs", p.Node.GPUs())
	}
	for _, n := range j.Names {
		if !slices.Contains(p.NodeNames, n) {
			return n + " is not in it"
		}
	}
	return ""
}

func (in Input) pool(p *config.Pool, tier *config.Tier, j Job) Pool {
	out := Pool{Name: p.Name, Provider: p.Provider, Unfit: unfit(p, j)}
	if out.Unfit != "" {
		return out
	}
	pool := controller.PlannerPool(p)
	d := planner.Demand{Launch: "plan", Tier: tier.Name, Pool: p.Name, Since: in.Now, AllOrNothing: j.Nodes > 1 && !pool.Apart, Alone: j.Nodes > 1,
		Latest: controller.LatestStart(slurm.Job{Deadline: j.Deadline, TimeLimit: j.TimeLimit}, p.ResumeTimeout, tier.DeadlineMargin)}
	for k := range j.Nodes {
		d.Nodes = append(d.Nodes, ledger.IntentNode{Node: p.NodeNames[k], Generation: 1, Launch: d.Launch})
	}
	verdicts, refusal := planner.Explain(planner.Input{
		Now: in.Now, Pools: []planner.Pool{pool}, Memory: in.Memory, Prices: in.Prices, Bucket: in.Bucket, Breaker: in.Config.Memory.InitFailures,
		Policies: map[string]planner.Policy{tier.Name: controller.PlannerPolicy(tier)},
	}, d)
	for _, v := range verdicts {
		o := Offering{Key: v.Offering.Key(), USDPerHour: usd(v.Price), Place: v.Place, Class: v.Class, Until: v.Until, Why: v.Message}
		if pool.Factors != nil {
			o.Weighed = v.Weighed / 1e6
		}
		out.Offerings = append(out.Offerings, o)
		if v.Place == planner.Asked && out.USDPerHour == 0 {
			out.USDPerHour = usd(v.Price) * float64(j.Nodes)
			out.USDAtMost = out.USDPerHour * j.TimeLimit.Hours()
		}
	}
	if refusal != nil {
		out.Refused, out.RetryAt = refusal.Err.Error(), refusal.RetryAt
	}
	return out
}

func usd(m cloud.MicroUSD) float64 { return float64(m) / 1e6 }
