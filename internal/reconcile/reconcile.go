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
//
// What an instance's record says of it goes before its tags, and its node's
// state in Slurm before both. Nodes that somebody drained, reserved or set down
// are theirs (Theirs): they keep state and reason, and as long as Slurm has not
// powered them down they keep their instances, also stopped ones.
package reconcile

import (
	"cmp"
	"slices"
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

// Lost is an instance on record that the cloud no longer has, or one that is
// off and whose node Slurm still counts on.
type Lost struct {
	Instance  ledger.Instance
	EndedAt   time.Time // zero: it is off
	Why       string
	Reclaimed bool // the cloud took it back
	// Off: it is stopped or hibernated. It is not settled: it goes as an orphan.
	Off bool
}

// Odd is an item of a cloud's listing that cannot be understood, such as an
// instance without the tags that every create call of midair's carries, or one
// that works for a node it should not have. Nothing is done about it.
type Odd struct {
	Provider string
	Instance cloud.Instance
	Why      string
}

// Bare is a node that Slurm believes to be up and that has no instance.
type Bare struct {
	Node      string
	Why       string
	Reclaimed bool // the cloud took its instance back
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
	// Up: its node has registered before; nothing waits for it to boot.
	Up bool
}

// Empty reports whether there is nothing to do. Odd items are nothing to do.
func (p Plan) Empty() bool {
	return len(p.Terminate)+len(p.Adopt)+len(p.Lost)+len(p.Bare)+len(p.Resume) == 0
}

// Decide compares. It leaves the nodes and instances of launches in progress
// alone, with one exception: an instance that the cloud says has ended is lost.
func Decide(in Input) Plan {
	d := decision{Input: in, plan: Plan{Seen: map[string]time.Time{}}, onRecord: make(map[key]ledger.Instance, len(in.Instances)),
		carried: make(map[string]bool, len(in.Instances)), listed: make(map[key]cloud.Instance, len(in.Instances)), covered: make(map[string]bool, len(in.Instances))}
	for _, i := range in.Instances {
		d.onRecord[key{i.Provider, i.ID}] = i
		if i.State == ledger.Live {
			d.carried[i.Node] = true
		}
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
	onRecord map[key]ledger.Instance
	carried  map[string]bool        // nodes with a live instance on record
	listed   map[key]cloud.Instance // what the clouds say, by instance
	covered  map[string]bool        // nodes with an instance, known or adopted
	byAddr   map[string]string      // nodes that are up; nil: not looked at yet
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

func (d *decision) sort() {
	slices.SortFunc(d.plan.Terminate, func(a, b Orphan) int { return cmp.Compare(a.Instance.ID, b.Instance.ID) })
	slices.SortFunc(d.plan.Adopt, func(a, b Adoptee) int { return cmp.Compare(a.Instance.ID, b.Instance.ID) })
	slices.SortFunc(d.plan.Lost, func(a, b Lost) int { return cmp.Compare(a.Instance.ID, b.Instance.ID) })
	slices.SortFunc(d.plan.Odd, func(a, b Odd) int { return cmp.Compare(a.Instance.ID, b.Instance.ID) })
	slices.SortFunc(d.plan.Bare, func(a, b Bare) int { return cmp.Compare(a.Node, b.Node) })
	slices.Sort(d.plan.Resume)
}
