package controller

import (
	"context"

	"github.com/midair-hpc/midair/internal/hostlist"
	"github.com/midair-hpc/midair/internal/ledger"
	"github.com/midair-hpc/midair/internal/spool"
)

// takeSuspends handles SuspendProgram: the nodes' instances go.
func (c *Controller) takeSuspends(ctx context.Context, batch []spool.Record) bool {
	names := c.expand(batch)
	wanted := map[string]bool{}
	for _, n := range names {
		wanted[n] = true
	}
	const cause = "Slurm powered its node down"
	ids := map[string][]string{}
	for _, i := range c.instances {
		if wanted[i.Node] && i.State == ledger.Live {
			ids[i.Provider] = append(ids[i.Provider], i.ID)
		}
	}
	ok := c.record(ctx, batch, "power-down", func(tx *ledger.Tx) error {
		for p, list := range ids {
			if err := tx.SetTerminating(p, list, cause); err != nil {
				return err
			}
		}
		return nil
	})
	if !ok {
		return false
	}
	for p, list := range ids {
		c.markTerminating(p, list, cause)
	}
	for _, n := range names {
		if l := c.nodes[n]; l != nil && l.State == ledger.Launching {
			c.park(ctx, l, n)
		}
	}
	c.Log.Info("power down", "nodes", hostlist.FoldSorted(names))
	return true
}

// takeFails handles ResumeFailProgram: the nodes did not register in time and
// Slurm has set them down and requeued their jobs.
func (c *Controller) takeFails(ctx context.Context, batch []spool.Record) bool {
	if !c.record(ctx, batch, "nodes that did not register", nil) {
		return false
	}
	byLaunch := map[*launch][]string{}
	var loose []string
	for _, n := range c.expand(batch) {
		switch l := c.nodes[n]; {
		case l == nil:
			loose = append(loose, n)
		case l.State == ledger.Launching:
			byLaunch[l] = append(byLaunch[l], n)
		}
	}
	for _, l := range c.ordered() {
		if nodes := byLaunch[l]; nodes != nil {
			c.didNotRegister(ctx, l, nodes)
		}
	}
	if len(loose) > 0 {
		c.putBackLoose(ctx, loose)
	}
	return true
}
