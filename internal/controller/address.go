package controller

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/ledger"
	"github.com/midair-hpc/midair/internal/planner"
	"github.com/midair-hpc/midair/internal/slurm"
)

func itoa(n int) string { return strconv.Itoa(n) }

// ordered gives the open launches, oldest first.
func (c *Controller) ordered() []*launch {
	all := make([]*launch, 0, len(c.launches))
	for _, l := range c.launches {
		all = append(all, l)
	}
	slices.SortFunc(all, func(a, b *launch) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	return all
}

// address tells Slurm where the new nodes are: all that are known in one
// update, before their slurmds can register, since slurmctld blocks on names
// that do not resolve.
func (c *Controller) address(ctx context.Context) {
	var (
		addrs   []slurm.NodeAddress
		byNode  = map[string]*launch{}
		missing bool
	)
	for _, l := range c.launches {
		if l.State != ledger.Launching {
			continue
		}
		for _, n := range l.Nodes {
			if n.InstanceID == "" || n.Addressed || l.parked[n.Node] {
				continue
			}
			i := c.instances[instanceKey{n.Provider, n.InstanceID}]
			if i == nil || i.State != ledger.Live {
				continue
			}
			if i.Addr == "" {
				missing = true
				continue
			}
			addrs = append(addrs, slurm.NodeAddress{Node: n.Node, Addr: i.Addr, HostName: cmp.Or(i.HostName, n.Node)})
			byNode[n.Node] = l
		}
	}
	if missing && !c.Now().Before(c.nextList) {
		c.nextList = c.Now().Add(retrySoon)
		c.list(ctx)
	}
	if len(addrs) == 0 || !c.slurmAnswers() {
		return
	}
	err := c.Slurm.SetAddresses(ctx, addrs)
	var partial *slurm.NotAppliedError
	if err != nil && !errors.As(err, &partial) {
		c.slurmFailed("set node addresses", err)
		return
	}
	c.Crash("addresses-set")
	refused := map[string]bool{}
	if partial != nil {
		for _, n := range partial.Nodes {
			refused[n] = true
		}
	}
	done := map[*launch][]string{}
	for _, a := range addrs {
		if l := byNode[a.Node]; refused[a.Node] {
			l.refused = &planner.Refusal{Launch: l.ID, Err: &cloud.Error{Class: cloud.Config, Message: "Slurm has no node " + a.Node + "; run midair slurmconf and compare"}}
		} else {
			done[l] = append(done[l], a.Node)
		}
	}
	ok := c.update(ctx, "node addresses", func(tx *ledger.Tx) error {
		for l, nodes := range done {
			if err := tx.SetAddressed(l.ID, nodes); err != nil {
				return err
			}
		}
		return nil
	})
	if !ok {
		return
	}
	c.Crash("addresses-recorded")
	for l, nodes := range done {
		for k := range l.Nodes {
			if slices.Contains(nodes, l.Nodes[k].Node) {
				l.Nodes[k].Addressed = true
			}
		}
	}
}
