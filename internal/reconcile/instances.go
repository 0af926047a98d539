package reconcile

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/ledger"
)

// key identifies an instance.
type key struct{ provider, id string }

// instances looks at what the clouds have.
func (d *decision) instances() {
	for _, provider := range slices.Sorted(maps.Keys(d.Listed)) {
		list := d.understood(provider, d.Listed[provider])
		newest := map[string]cloud.Instance{}
		for _, i := range list {
			if i.Generation >= newest[i.Node].Generation {
				newest[i.Node] = i
			}
		}
		for _, i := range list {
			rec, known := d.onRecord[key{provider, i.ID}]
			switch {
			case known && rec.State == ledger.Terminating:
				// On its way; the controller repeats the call.
			case d.OpenTokens[i.Token]:
				d.covered[i.Node] = true // the answer to its create call is not known
			case off(i):
				d.off(provider, i, known)
			case i.State == cloud.Stopping:
				d.covered[i.Node] = true // the next pass knows
			case i.Node == "":
				d.unnamed(provider, i)
			default:
				d.named(provider, i, known, newest[i.Node].ID == i.ID)
			}
		}
	}
}

// named looks at an instance that is there and whose node is known.
func (d *decision) named(provider string, i cloud.Instance, known, newest bool) {
	adoptable := !known && newest && d.adoptable(i, provider)
	switch {
	case known && (!d.unused(i.Node) || d.Launching[i.Node]):
		d.covered[i.Node] = true
	case adoptable:
		d.covered[i.Node] = true
		d.plan.Adopt = append(d.plan.Adopt, Adoptee{provider, i, !d.Nodes[i.Node].State.PoweringUp()})
	case d.young(provider, i):
		d.covered[i.Node] = true
	case !d.wanted(i.Node) && !d.unused(i.Node):
		d.covered[i.Node] = true // its state is changing; the next pass knows
	case !known && d.atAddress(i) != "":
		// Somebody has changed its tags or the pools. It works.
		d.odd(provider, i, "its tags say node "+i.Node+", which it is not; Slurm has node "+d.atAddress(i)+" up at its address")
	default:
		d.orphan(provider, i, d.orphaned(provider, i, known))
	}
}

func (d *decision) orphaned(provider string, i cloud.Instance, known bool) string {
	switch pool := d.Pools[i.Node]; {
	case pool == "":
		return "its node " + i.Node + " is in no pool"
	case known:
		return "its node " + i.Node + " is powered down"
	case pool != provider:
		return "it is not on record, and its node " + i.Node + " is of provider " + pool
	}
	return "it is not on record and Slurm does not wait for it"
}

// unnamed looks at an instance that no tag and no record gives a node: the one
// of a create call that nobody knows, since the ledger was lost before it was
// named. Its generation and launch are not known, so it cannot be adopted.
func (d *decision) unnamed(provider string, i cloud.Instance) {
	if d.young(provider, i) {
		return
	}
	if node := d.atAddress(i); node != "" {
		d.odd(provider, i, "it has no tag of a node and cannot be taken over; Slurm has node "+node+" up at its address")
		return
	}
	d.orphan(provider, i, "it was never given a node's name and no open create call is waiting for it")
}

// off looks at an instance that is stopped or hibernated, or being so by the
// cloud's will. It carries no node and its disks are billed.
func (d *decision) off(provider string, i cloud.Instance, known bool) {
	if d.theirs(i.Node) && !d.unused(i.Node) {
		d.covered[i.Node] = true // stopped by whoever has the node
		return
	}
	if d.young(provider, i) {
		return
	}
	d.orphan(provider, i, offWhy(i))
}

// understood gives the instances of a listing that have not ended, each once
// and with the node that is on record for it, without the odd ones. What the
// listing says of each is kept for lost.
func (d *decision) understood(provider string, list []cloud.Instance) []cloud.Instance {
	good := make([]cloud.Instance, 0, len(list))
	for _, i := range list {
		if i.ID == "" {
			d.odd(provider, i, "it has no id")
			continue
		}
		k := key{provider, i.ID}
		// Listed twice, it has ended only if both say so.
		before, again := d.listed[k]
		if again && !ended(before) {
			continue
		}
		d.listed[k] = i
		if ended(i) {
			continue
		}
		rec, known := d.onRecord[k]
		if known {
			i.Node, i.Generation = cmp.Or(rec.Node, i.Node), rec.Generation
			if i.CreatedAt.IsZero() {
				i.CreatedAt = rec.CreatedAt
			}
		}
		switch {
		case !i.Live() && i.State != cloud.Stopping && i.State != cloud.Stopped:
			d.odd(provider, i, fmt.Sprintf("its state %q is not known", i.State))
		case i.Node == "" && i.Token == "" && !known:
			d.odd(provider, i, "it carries the cluster's tag, no node's and no create call's")
		default:
			good = append(good, i)
		}
	}
	return good
}

func (d *decision) odd(provider string, i cloud.Instance, why string) {
	d.plan.Odd = append(d.plan.Odd, Odd{provider, i, why})
}

// ended: the cloud says so. Any other state, one that is not known included,
// proves nothing.
func ended(i cloud.Instance) bool {
	return i.State == cloud.ShuttingDown || i.State == cloud.Terminated
}

// off: it is not there for its node, and not ended. One that the cloud is
// stopping to take it back will not change its mind.
func off(i cloud.Instance) bool {
	return i.State == cloud.Stopped || i.State == cloud.Stopping && i.Reclaimed
}

// adoptable: Slurm waits for the node or has it, midair has nothing for it.
func (d *decision) adoptable(i cloud.Instance, provider string) bool {
	return d.Pools[i.Node] == provider && !d.Launching[i.Node] && !d.carried[i.Node] && d.wanted(i.Node)
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

// young: it has not been there for the grace. An instance whose time of
// creation is missing, or lies ahead, is as old as its first sight.
func (d *decision) young(provider string, i cloud.Instance) bool {
	if age := d.Now.Sub(i.CreatedAt); !i.CreatedAt.IsZero() && age >= 0 {
		return age < d.Grace
	}
	finding := "age " + provider + " " + i.ID
	first, before := d.Seen[finding]
	if !before {
		first = d.Now
	}
	d.plan.Seen[finding] = first
	return d.Now.Sub(first) < d.Grace
}

// atAddress gives the node that Slurm has up at the instance's address. It only
// ever protects: nothing is matched by address, since addresses are used again.
func (d *decision) atAddress(i cloud.Instance) string {
	if d.byAddr == nil {
		d.byAddr = map[string]string{}
		for _, n := range d.Nodes {
			if n.Addr == "" || n.Addr == n.Name || !n.State.Registered() && !n.State.Allocated() {
				continue
			}
			if other := d.byAddr[n.Addr]; other == "" || n.Name < other {
				d.byAddr[n.Addr] = n.Name
			}
		}
	}
	return d.byAddr[i.Addr]
}

func (d *decision) orphan(provider string, i cloud.Instance, why string) {
	if !d.twice("orphan " + provider + " " + i.ID) {
		return
	}
	if len(d.plan.Terminate) >= d.MaxTerminations {
		d.plan.Deferred++
		return
	}
	d.plan.Terminate = append(d.plan.Terminate, Orphan{provider, i, why})
}
