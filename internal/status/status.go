// Package status gathers what people ask midair: what is there, what is being
// bought, which jobs wait for it, and why a job does not run.
package status

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/midair-hpc/midair/internal/config"
	"github.com/midair-hpc/midair/internal/hostlist"
	"github.com/midair-hpc/midair/internal/ledger"
	"github.com/midair-hpc/midair/internal/slurm"
)

// Ledger is what status reads of the ledger.
type Ledger interface {
	OpenLaunches(ctx context.Context) ([]ledger.Launch, error)
	RecentLaunches(ctx context.Context, limit int) ([]ledger.Launch, error)
	LaunchesOfJob(ctx context.Context, jobID int) ([]ledger.Launch, error)
	FailuresOfJob(ctx context.Context, jobID int, limit int) ([]ledger.Failure, error)
	LiveInstances(ctx context.Context) ([]ledger.Instance, error)
	InstancesOfLaunch(ctx context.Context, launch string) ([]ledger.Instance, error)
	Memory(ctx context.Context) ([]ledger.MemoryEntry, error)
}

// Slurm is what status asks Slurm.
type Slurm interface {
	Nodes(ctx context.Context, names ...string) ([]slurm.Node, error)
	Jobs(ctx context.Context, ids ...int) ([]slurm.Job, error)
	ActiveJobs(ctx context.Context) ([]slurm.Job, error)
}

// View is everything `midair status` shows. Its JSON form is stable.
type View struct {
	Cluster    string       `json:"cluster"`
	Controller ControllerUp `json:"controller"`
	Pools      []Pool       `json:"pools"`
	Nodes      []Node       `json:"nodes"`
	Launches   []Launch     `json:"launches"`
	Jobs       []Job        `json:"jobs"`
	PassedOver []PassedOver `json:"passed_over"`
}

// ControllerUp says whether the daemon runs on this host.
type ControllerUp struct {
	Running bool `json:"running"`
	PID     int  `json:"pid,omitempty"`
}

// Pool sums up a pool. Counts are nodes.
type Pool struct {
	Name     string `json:"name"`
	Provider string `json:"provider"`
	Nodes    string `json:"nodes"` // hostlist
	Total    int    `json:"total"`
	Up       int    `json:"up"`      // registered with Slurm
	Booting  int    `json:"booting"` // powering up
	Down     int    `json:"down"`    // down or drained
	Off      int    `json:"off"`     // powered down
	// USDPerHour is what the pool's live instances cost now.
	USDPerHour float64 `json:"usd_per_hour"`
}

// Node is a pool node that is not simply powered down.
type Node struct {
	Name     string    `json:"name"`
	Pool     string    `json:"pool"`
	State    string    `json:"state"` // Slurm's
	Instance string    `json:"instance,omitempty"`
	Offering string    `json:"offering,omitempty"`
	Address  string    `json:"address,omitempty"`
	Since    time.Time `json:"since,omitzero"` // the instance's creation
	Reason   string    `json:"reason,omitempty"`
}

// Launch is an open launch.
type Launch struct {
	ID     string    `json:"id"`
	JobID  int       `json:"job_id,omitempty"`
	Tier   string    `json:"tier,omitempty"`
	Nodes  string    `json:"nodes"` // hostlist
	Bought int       `json:"bought"`
	Total  int       `json:"total"`
	State  string    `json:"state"`
	Since  time.Time `json:"since"`
	Why    string    `json:"why,omitempty"`
}

// Job is a job that waits for nodes: its nodes boot, or midair has put it back.
type Job struct {
	ID      int       `json:"id"`
	User    string    `json:"user"`
	QOS     string    `json:"qos"`
	Tier    string    `json:"tier,omitempty"`
	State   string    `json:"state"`
	Nodes   string    `json:"nodes,omitempty"`
	StartAt time.Time `json:"start_at,omitzero"`
	Why     string    `json:"why,omitempty"`
}

// PassedOver is an offering that failed and is left alone for a while.
type PassedOver struct {
	Provider string    `json:"provider"`
	Offering string    `json:"offering"`
	Class    string    `json:"class"`
	Failures int       `json:"failures"` // in a row
	Until    time.Time `json:"until"`
}

// Gather asks ledger and Slurm. led may be nil where no ledger exists yet.
func Gather(ctx context.Context, cfg *config.Config, led Ledger, sl Slurm, now time.Time) (View, error) {
	v := View{Cluster: cfg.Cluster, Pools: []Pool{}, Nodes: []Node{}, Launches: []Launch{}, Jobs: []Job{}, PassedOver: []PassedOver{}}
	instances := map[string]ledger.Instance{}
	var open []ledger.Launch
	if led != nil {
		live, err := led.LiveInstances(ctx)
		if err != nil {
			return v, fmt.Errorf("read instances from the ledger: %w", err)
		}
		for _, i := range live {
			if i.State == ledger.Live {
				instances[i.Node] = i
			}
		}
		if open, err = led.OpenLaunches(ctx); err != nil {
			return v, fmt.Errorf("read launches from the ledger: %w", err)
		}
		mem, err := led.Memory(ctx)
		if err != nil {
			return v, fmt.Errorf("read capacity memory from the ledger: %w", err)
		}
		for _, m := range mem {
			if m.Until.After(now) {
				v.PassedOver = append(v.PassedOver, PassedOver{m.Provider, m.Offering.Key(), string(m.Class), m.Failures, m.Until})
			}
		}
	}
	if err := v.nodes(ctx, cfg, sl, instances); err != nil {
		return v, err
	}
	for _, l := range open {
		s := Launch{ID: l.ID, JobID: l.JobID, Tier: l.Tier, Total: len(l.Nodes), State: string(l.State), Since: l.CreatedAt, Why: l.Message}
		var names []string
		for _, n := range l.Nodes {
			names = append(names, n.Node)
			if n.InstanceID != "" {
				s.Bought++
			}
		}
		s.Nodes = hostlist.FoldSorted(names)
		v.Launches = append(v.Launches, s)
	}
	return v, v.jobs(ctx, cfg, sl)
}

func (v *View) nodes(ctx context.Context, cfg *config.Config, sl Slurm, instances map[string]ledger.Instance) error {
	var names []string
	for _, p := range cfg.Pools {
		names = append(names, p.NodeNames...)
	}
	list, err := sl.Nodes(ctx, names...)
	if err != nil {
		return fmt.Errorf("ask Slurm for the pools' nodes: %w", err)
	}
	byName := map[string]slurm.Node{}
	for _, n := range list {
		byName[n.Name] = n
	}
	for _, p := range cfg.Pools {
		s := Pool{Name: p.Name, Provider: p.Provider, Nodes: p.Nodes, Total: len(p.NodeNames)}
		for _, name := range p.NodeNames {
			i, has := instances[name]
			if has {
				s.USDPerHour += float64(i.Price) / 1e6
			}
			n := byName[name]
			off := false
			switch st := n.State; {
			case st.PoweringUp():
				s.Booting++
			case st.Down(), st.Drained():
				s.Down++
			case st.PoweredDown(), st.PoweringDown(), n.Name == "":
				s.Off++
				off = !st.PoweringDown()
			default:
				s.Up++
			}
			if off && !has && n.Reason == "" {
				continue
			}
			node := Node{Name: name, Pool: p.Name, State: n.State.String(), Address: n.Addr, Reason: n.Reason}
			if has {
				node.Instance, node.Offering, node.Since, node.Address = i.ID, i.Offering.Key(), i.CreatedAt, i.Addr
			}
			v.Nodes = append(v.Nodes, node)
		}
		v.Pools = append(v.Pools, s)
	}
	return nil
}

// jobs lists jobs whose nodes boot, and those that midair put back.
func (v *View) jobs(ctx context.Context, cfg *config.Config, sl Slurm) error {
	active, err := sl.ActiveJobs(ctx)
	if err != nil {
		return fmt.Errorf("ask Slurm for the jobs: %w", err)
	}
	for _, j := range active {
		put := Sentence(j)
		if j.State != "CONFIGURING" && (j.State != "PENDING" || put == "") {
			continue
		}
		job := Job{ID: j.ID, User: j.User, QOS: j.QOS, State: j.State, Nodes: j.Nodes, Why: put}
		if t, ok := cfg.TierOf(j.QOS); ok {
			job.Tier = t.Name
		}
		if j.State == "PENDING" {
			job.StartAt = j.EligibleTime
		}
		v.Jobs = append(v.Jobs, job)
	}
	slices.SortFunc(v.Jobs, func(a, b Job) int { return cmp.Compare(a.ID, b.ID) })
	return nil
}

// Only keeps the nodes named, and the pools, launches and jobs that have one of
// them.
func (v *View) Only(names []string) {
	want := map[string]bool{}
	for _, n := range names {
		want[n] = true
	}
	v.Nodes = slices.DeleteFunc(v.Nodes, func(n Node) bool { return !want[n.Name] })
	has := func(list string) bool {
		all, err := hostlist.Expand(list)
		return err == nil && slices.ContainsFunc(all, func(n string) bool { return want[n] })
	}
	v.Pools = slices.DeleteFunc(v.Pools, func(p Pool) bool { return !has(p.Nodes) })
	v.Launches = slices.DeleteFunc(v.Launches, func(l Launch) bool { return !has(l.Nodes) })
	v.Jobs = slices.DeleteFunc(v.Jobs, func(j Job) bool { return !has(j.Nodes) })
}
