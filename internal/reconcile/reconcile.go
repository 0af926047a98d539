// Package reconcile compares what the clouds have with what Slurm has and says
// what to do about the difference. It is pure; the controller acts.
//
// It must survive four things that have killed healthy nodes or leaked
// instances elsewhere: a cloud listing that lags behind creation, node states
// that change between two questions, odd items, and its own eagerness. So the
// cloud is listed first and Slurm asked second, instances are matched by id,
// new ones have a grace, everything is looked at twice, terminations per pass
// are capped, nothing is terminated while its node has a job, and what cannot
// be understood is only reported.
package reconcile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/ledger"
	"github.com/midair-hpc/midair/internal/slurm"
)

// Input is one look at everything.
type Input struct {
	Now             time.Time
	Grace           time.Duration
	MaxTerminations int // per pass; 0: none
	// Listed holds, per provider that answered, what it has for this cluster.
	// A provider that did not answer is absent, and nothing is concluded about
	// its instances.
	Listed map[string][]cloud.Instance
	// ListedAt is when the listing was asked for; instances younger than it
	// cannot be missing from it.
	ListedAt  time.Time
	Nodes     map[string]slurm.Node
	Instances []ledger.Instance // live and terminating
	// Pools maps each node of midair.yaml to its provider.
	Pools map[string]string
	// Launching are nodes of open launches, OpenTokens those of create calls
	// whose answer is not known.
	Launching  map[string]bool
	OpenTokens map[string]bool
	// Seen is when each finding was first made, from earlier passes.
	Seen map[string]time.Time
	// OnceIsEnough skips the second look: what a dry run shows people.
	OnceIsEnough bool
}

// Orphan is an instance that nobody needs.
type Orphan struct {
	Provider string
	Instance cloud.Instance
	Why      string
}

// Lost is an instance on record that the cloud no longer has.
type Lost struct {
	Instance ledger.Instance
	EndedAt  time.Time
	Why      string
}

// Odd is an item of a cloud's listing that cannot be understood, such as an
// instance without the tags that every create call of midair's carries. Nothing
// is done about it: whose it is is not known.
type Odd struct {
	Provider string
	Instance cloud.Instance
	Why      string
}

// Bare is a node that Slurm believes to be up and that has no instance.
type Bare struct {
	Node string
	Why  string
}

// Plan is what to do.
type Plan struct {
	Terminate []Orphan
	Adopt     []Adoptee // live, tagged as ours, wanted by Slurm, not on record
	Lost      []Lost
	Bare      []Bare   // to be powered down in Slurm
	Resume    []string // down and powered down for midair's or Slurm's own reasons: back to service
	Odd       []Odd    // to be reported, no more
	// Deferred counts orphans left for the next pass by the cap.
	Deferred int
	// Seen replaces Input.Seen for the next pass.
	Seen map[string]time.Time
}

// Adoptee is an instance to take over from its tags.
type Adoptee struct {
	Provider string
	Instance cloud.Instance
}

// Empty reports whether there is nothing to do. Odd items are nothing to do.
func (p Plan) Empty() bool {
	return len(p.Terminate)+len(p.Adopt)+len(p.Lost)+len(p.Bare)+len(p.Resume) == 0
}

// Decide compares. It leaves the nodes and instances of launches in progress
// alone, with one exception: an instance that the cloud says has ended is lost.
func Decide(in Input) Plan {
	d := decision{Input: in, plan: Plan{Seen: map[string]time.Time{}}, onRecord: map[string]ledger.Instance{}, covered: map[string]bool{}}
	for _, i := range in.Instances {
		d.onRecord[i.Provider+" "+i.ID] = i
	}
	d.instances()
	d.lost()
	d.bare()
	d.sort()
	return d.plan
}

type decision struct {
	Input
	plan     Plan
	onRecord map[string]ledger.Instance
	covered  map[string]bool // nodes with an instance, known or adopted
}

// twice reports whether a finding was made in an earlier pass too, and
// remembers it for the next.
func (d *decision) twice(finding string) bool {
	first, before := d.Seen[finding]
	if !before {
		first = d.Now
	}
	d.plan.Seen[finding] = first
	return before || d.OnceIsEnough
}

// instances looks at what the clouds have.
func (d *decision) instances() {
	for provider, list := range d.Listed {
		list = d.understood(provider, list)
		newest := map[string]cloud.Instance{}
		for _, i := range list {
			if i.Generation >= newest[i.Node].Generation {
				newest[i.Node] = i
			}
		}
		for _, i := range list {
			rec, known := d.onRecord[provider+" "+i.ID]
			switch {
			case known && rec.State == ledger.Terminating:
				// On its way; the controller repeats the call.
			case known && !d.unused(i.Node):
				d.covered[i.Node] = true
			case d.OpenTokens[i.Token], d.Launching[i.Node] && known:
				d.covered[i.Node] = true
			case d.Now.Sub(i.CreatedAt) < d.Grace && (known || !d.adoptable(i, provider, newest)):
				d.covered[i.Node] = true
			case !known && d.adoptable(i, provider, newest):
				d.covered[i.Node] = true
				d.plan.Adopt = append(d.plan.Adopt, Adoptee{provider, i})
			case !d.wanted(i.Node) && !d.unused(i.Node):
				d.covered[i.Node] = true // its state is changing; the next pass knows
			default:
				d.orphan(provider, i, known)
			}
		}
	}
}

// understood gives the live instances of a listing, each once, without the odd
// ones.
func (d *decision) understood(provider string, list []cloud.Instance) []cloud.Instance {
	var good []cloud.Instance
	seen := map[string]bool{}
	for _, i := range list {
		why := ""
		switch {
		case i.ID == "":
			why = "it has no id"
		case ended(i) || seen[i.ID]:
			continue
		case !i.Live():
			why = fmt.Sprintf("its state %q is not known", i.State)
		case i.Node == "":
			why = "it carries the cluster's tag and no node's"
		}
		seen[i.ID] = true
		if why != "" {
			d.plan.Odd = append(d.plan.Odd, Odd{provider, i, why})
			continue
		}
		good = append(good, i)
	}
	return good
}

// ended: the cloud says so. Any other state, one that is not known included,
// proves nothing.
func ended(i cloud.Instance) bool {
	return i.State == cloud.ShuttingDown || i.State == cloud.Terminated
}

// adoptable: Slurm waits for the node or has it, midair has nothing for it.
func (d *decision) adoptable(i cloud.Instance, provider string, newest map[string]cloud.Instance) bool {
	if d.Pools[i.Node] != provider || d.Launching[i.Node] || newest[i.Node].ID != i.ID {
		return false
	}
	for _, rec := range d.Instances {
		if rec.Node == i.Node && rec.State == ledger.Live {
			return false
		}
	}
	return d.wanted(i.Node)
}

// wanted: Slurm waits for the node or has it. POWER_DOWN alone, without
// POWERING_DOWN, is only an intention (power_down_asap): its jobs still run.
func (d *decision) wanted(node string) bool {
	n, ok := d.Nodes[node]
	return ok && (n.State.PoweringUp() || !n.State.PoweredDown() && !n.State.Has("POWERING_DOWN"))
}

// unused: Slurm has no use for an instance of this node. A node that is not
// shown is unused too: before 23.02 powered-down cloud nodes may be hidden. A
// powered-down node that has a job is not: it is about to be powered up.
func (d *decision) unused(node string) bool {
	s := d.Nodes[node].State
	return !d.wanted(node) && !s.Has("ALLOCATED") && !s.Has("MIXED")
}

func (d *decision) orphan(provider string, i cloud.Instance, known bool) {
	why := "it is not on record and Slurm does not wait for it"
	switch {
	case d.Pools[i.Node] == "":
		why = "its node " + i.Node + " is in no pool"
	case known:
		why = "its node " + i.Node + " is powered down"
	}
	if !d.twice("orphan " + provider + " " + i.ID) {
		return
	}
	if len(d.plan.Terminate) >= d.MaxTerminations {
		d.plan.Deferred++
		return
	}
	d.plan.Terminate = append(d.plan.Terminate, Orphan{provider, i, why})
}

// lost looks at what is on record as live. An instance that the cloud shows as
// ended is lost at once. One that is only absent may be lag, however long: while
// its node answers to Slurm it is there. When it is not, Slurm notices by itself
// (SlurmdTimeout).
func (d *decision) lost() {
	for _, rec := range d.Instances {
		list, answered := d.Listed[rec.Provider]
		if !answered || rec.State != ledger.Live {
			continue
		}
		k := slices.IndexFunc(list, func(i cloud.Instance) bool { return i.ID == rec.ID })
		switch {
		case k >= 0 && ended(list[k]):
			why := cmp.Or(list[k].StateCause, string(list[k].State))
			d.plan.Lost = append(d.plan.Lost, Lost{rec, cmp.Or(list[k].EndedAt, d.Now), fmt.Sprintf("the cloud ended %s (%s)", rec.ID, why)})
		case k < 0 && rec.CreatedAt.Before(d.ListedAt.Add(-d.Grace)) && !d.Launching[rec.Node] && !d.Nodes[rec.Node].State.Registered():
			if d.twice("lost " + rec.Provider + " " + rec.ID) {
				d.plan.Lost = append(d.plan.Lost, Lost{rec, d.Now, fmt.Sprintf("the cloud no longer has %s", rec.ID)})
			}
		default:
			d.covered[rec.Node] = true
		}
	}
}

// bare looks at nodes. Those of lost instances come at once; others that are
// powering up or do not answer, and have no instance, after a second look a
// grace later.
func (d *decision) bare() {
	gone := map[string]string{}
	for _, l := range d.plan.Lost {
		if !d.Launching[l.Instance.Node] {
			gone[l.Instance.Node] = l.Why
		}
	}
	for name, provider := range d.Pools {
		n, ok := d.Nodes[name]
		if !ok || d.Launching[name] {
			continue
		}
		if _, answered := d.Listed[provider]; !answered {
			continue
		}
		s := n.State
		if s.Down() && !Ours(n.Reason) {
			continue // somebody set it down; it has no jobs
		}
		if s.Down() && s.PoweredDown() && !s.PoweringUp() && !s.Drained() && Ours(n.Reason) {
			if d.twice("down " + name) {
				d.plan.Resume = append(d.plan.Resume, name)
			}
			continue
		}
		off := !s.PoweringUp() && (s.PoweredDown() || s.PoweringDown())
		if off || d.covered[name] || s.Drained() {
			continue
		}
		if why, ok := gone[name]; ok {
			d.plan.Bare = append(d.plan.Bare, Bare{name, why})
			continue
		}
		if s.Registered() {
			continue // it answers: it is somewhere, whatever the listing says
		}
		finding := "bare " + name
		first, before := d.Seen[finding]
		if d.twice(finding) && (d.OnceIsEnough || before && d.Now.Sub(first) >= d.Grace) {
			d.plan.Bare = append(d.plan.Bare, Bare{name, "Slurm has it up, no instance carries it"})
		}
	}
}

// ownReasons start the reasons that Slurm itself gives for a node that is down
// because it did not register, went silent or came back rebooted (slurmctld's
// set_node_down_ptr calls), which is over when its instance is; and midair's.
var ownReasons = []string{"midair: ", "ResumeTimeout reached", "Not responding", "Node unexpectedly rebooted"}

// Ours reports whether a node is down for a reason that is midair's or Slurm's
// own. Anybody else's is left alone.
func Ours(reason string) bool {
	return reason == "" || slices.ContainsFunc(ownReasons, func(own string) bool { return strings.HasPrefix(reason, own) })
}

func (d *decision) sort() {
	slices.SortFunc(d.plan.Terminate, func(a, b Orphan) int { return cmp.Compare(a.Instance.ID, b.Instance.ID) })
	slices.SortFunc(d.plan.Adopt, func(a, b Adoptee) int { return cmp.Compare(a.Instance.ID, b.Instance.ID) })
	slices.SortFunc(d.plan.Lost, func(a, b Lost) int { return cmp.Compare(a.Instance.ID, b.Instance.ID) })
	slices.SortFunc(d.plan.Odd, func(a, b Odd) int { return cmp.Compare(a.Instance.ID, b.Instance.ID) })
	slices.SortFunc(d.plan.Bare, func(a, b Bare) int { return cmp.Compare(a.Node, b.Node) })
	slices.Sort(d.plan.Resume)
}
