package reconcile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/ledger"
)

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
