package reconcile

import (
	"fmt"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/ledger"
)

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
