package controller

import (
	"context"
	"slices"
	"time"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/hostlist"
	"github.com/midair-hpc/midair/internal/ledger"
	"github.com/midair-hpc/midair/internal/planner"
)

// consoleTimeout bounds how long the loop waits for the consoles of nodes that
// did not register, all together.
const consoleTimeout = 10 * time.Second

// didNotRegister fails a launch because nodes of it missed ResumeTimeout, and
// keeps their consoles: they are what tells people why.
func (c *Controller) didNotRegister(ctx context.Context, l *launch, nodes []string) {
	consoles := c.consoles(ctx, nodes)
	c.update(ctx, "consoles", func(tx *ledger.Tx) error {
		for k, text := range consoles {
			if err := tx.SetConsole(k.provider, k.id, text); err != nil {
				return err
			}
		}
		return nil
	})
	e := &cloud.Error{Class: cloud.InitFailed, Message: hostlist.FoldSorted(nodes) + " did not register with Slurm within ResumeTimeout"}
	for _, n := range l.Nodes {
		if why := l.waits[n.Node]; n.InstanceID == "" && why != nil && slices.Contains(nodes, n.Node) {
			e = &cloud.Error{Class: why.Class, Code: why.Code, Message: n.Node + " got no instance within ResumeTimeout: " + why.Message}
			break
		}
	}
	c.fail(ctx, l, e, planner.Refusal{})
}

func (c *Controller) consoles(ctx context.Context, names []string) map[instanceKey]string {
	ctx, cancel := context.WithTimeout(ctx, consoleTimeout)
	defer cancel()
	texts := map[instanceKey]string{}
	for _, n := range names {
		for k, i := range c.instances {
			provider := c.Providers[i.Provider]
			if i.Node != n || provider == nil {
				continue
			}
			text, err := provider.Console(ctx, i.ID)
			if err != nil {
				c.Log.Warn("read an instance's console", "instance", i.ID, "node", n, "err", err)
				continue
			}
			texts[k] = text
		}
	}
	return texts
}
