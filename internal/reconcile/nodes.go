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

// lost looks at what is on record. An instance that the cloud shows as ended is
// lost at once, and so is the node of one that is off. One that is only absent
// may be lag, however long: while its node answers to Slurm it is there. When
// it is not, Slurm notices by itself (SlurmdTimeout).
func (d *decision) lost() {
	for _, rec := range d.Instances {
		if _, answered := d.Listed[rec.Provider]; !answered {
			continue
		}
		i, listed := d.listed[key{rec.Provider, rec.ID}]
		switch {
		case listed && ended(i):
			d.plan.Lost = append(d.plan.Lost, Lost{Instance: rec, EndedAt: d.endedAt(rec, i), Why: endedWhy(i), Reclaimed: i.Reclaimed})
		case !listed && rec.State == ledger.Terminating:
			// The cloud does not take the call, and perhaps never will.
			d.absent(rec)
		case rec.State != ledger.Live:
		case listed && off(i) && !d.theirs(rec.Node):
			if d.wanted(rec.Node) {
				d.plan.Lost = append(d.plan.Lost, Lost{Instance: rec, Why: offWhy(i), Reclaimed: i.Reclaimed, Off: true})
			}
		case !listed && !d.Launching[rec.Node] && !d.Nodes[rec.Node].State.Registered() && d.absent(rec):
		default:
			d.covered[rec.Node] = true
		}
	}
}

// absent has an instance that is not listed lost after two looks, if it is old
// enough to be listed.
func (d *decision) absent(rec ledger.Instance) bool {
	if !rec.CreatedAt.Before(d.ListedAt.Add(-d.Grace)) {
		return false
	}
	if d.twice("lost " + rec.Provider + " " + rec.ID) {
		d.plan.Lost = append(d.plan.Lost, Lost{Instance: rec, EndedAt: d.Now, Why: "the cloud no longer has the instance"})
	}
	return true
}

// endedAt is when an instance ended, as far as a clock that is not ours can be
// believed: not before it was created and not in the future.
func (d *decision) endedAt(rec ledger.Instance, i cloud.Instance) time.Time {
	at := i.EndedAt
	if at.Before(rec.CreatedAt) && !at.IsZero() {
		at = rec.CreatedAt
	}
	if at.IsZero() || at.After(d.Now) {
		at = d.Now
	}
	return at
}

// The sentences name no instance: a thousand nodes that are taken back together
// get one reason, and Slurm one update.
const takenBack = "the cloud took the instance back (spot interruption)"

func endedWhy(i cloud.Instance) string {
	if i.Reclaimed {
		return takenBack
	}
	return fmt.Sprintf("the cloud ended the instance (%s)", cmp.Or(i.StateCause, string(i.State)))
}

func offWhy(i cloud.Instance) string {
	if i.Reclaimed {
		return takenBack
	}
	return fmt.Sprintf("the instance is stopped (%s)", cmp.Or(i.StateCause, string(i.State)))
}

// bare looks at nodes. Those of lost instances come at once; others that are
// powering up or do not answer, and have no instance, after a second look a
// grace later.
func (d *decision) bare() {
	gone := map[string]Lost{}
	for _, l := range d.plan.Lost {
		if !d.Launching[l.Instance.Node] && l.Instance.State == ledger.Live {
			gone[l.Instance.Node] = l
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
		if s.Down() && s.PoweredDown() && !s.PoweringUp() && Ours(n.Reason) && !s.Drained() && !s.Maintained() {
			if d.twice("down " + name) {
				d.plan.Resume = append(d.plan.Resume, name)
			}
			continue
		}
		if Theirs(n) {
			continue
		}
		powersDown := !s.PoweringUp() && (s.PoweredDown() || s.PoweringDown())
		if powersDown || d.covered[name] {
			continue
		}
		if l, ok := gone[name]; ok {
			d.plan.Bare = append(d.plan.Bare, Bare{name, l.Why, l.Reclaimed})
			continue
		}
		if s.Registered() {
			continue // it answers: it is somewhere, whatever the listing says
		}
		finding := "bare " + name
		first, before := d.Seen[finding]
		if d.twice(finding) && (d.OnceIsEnough || before && d.Now.Sub(first) >= d.Grace) {
			d.plan.Bare = append(d.plan.Bare, Bare{Node: name, Why: "Slurm has it up, no instance carries it"})
		}
	}
}

func (d *decision) theirs(node string) bool {
	n, ok := d.Nodes[node]
	return ok && Theirs(n)
}

// Theirs reports whether somebody else has the node, for their own reason: it
// is drained, failing, set down, under maintenance, or in a reservation. Such a
// node is left alone. A node in a reservation that has a job is not among them:
// its job is a user's like any other.
func Theirs(n slurm.Node) bool {
	s := n.State
	return s.Drained() || s.Has("FAIL") || s.Down() && !Ours(n.Reason) || s.Maintained() || s.Reserved() && !s.Allocated()
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
