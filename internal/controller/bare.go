package controller

import (
	"context"
	"maps"
	"slices"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/hostlist"
	"github.com/midair-hpc/midair/internal/ledger"
	"github.com/midair-hpc/midair/internal/reconcile"
	"github.com/midair-hpc/midair/internal/slurm"
)

// bare powers down nodes that Slurm has up and no instance carries: their jobs
// cannot run and are requeued, with a start time of ours. It gives the nodes
// that Slurm took.
func (c *Controller) bare(ctx context.Context, nodes []reconcile.Bare) (done map[string]bool) {
	done = map[string]bool{}
	if len(nodes) == 0 {
		return done
	}
	jobs, err := c.Slurm.ActiveJobs(ctx)
	if err != nil {
		c.slurmFailed("ask Slurm for the jobs on lost nodes", err)
		return done
	}
	byWhy := map[string][]string{}
	errs := map[string]cloud.Error{}
	for _, b := range nodes {
		e := cloud.Error{Class: cloud.Unknown, Message: b.Why}
		if b.Reclaimed {
			e.Class = cloud.OutOfStock
		}
		text := reason(&e)
		byWhy[text], errs[text] = append(byWhy[text], b.Node), e
	}
	why := map[string]cloud.Error{} // by node that is down
	for _, text := range slices.Sorted(maps.Keys(byWhy)) {
		names := byWhy[text]
		slices.Sort(names)
		c.Log.Warn("nodes without an instance are powered down", "nodes", hostlist.FoldSorted(names), "why", text)
		for _, n := range c.dropNodes(ctx, names, text) {
			done[n], why[n] = true, errs[text]
		}
	}
	for _, j := range jobs {
		names, err := hostlist.Expand(j.Nodes)
		if err != nil {
			c.Log.Error("read a job's host list", "job", j.ID, "err", err)
			continue
		}
		// A job may have lost several nodes.
		if k := slices.IndexFunc(names, func(n string) bool { return done[n] }); k >= 0 {
			c.requeueLost(ctx, j.ID, why[names[k]])
		}
	}
	return done
}

// dropNodes sets nodes that are gone down and powers them down, all at once. If
// Slurm refuses that, one of them is odd and they go one by one. It gives those
// that are down.
func (c *Controller) dropNodes(ctx context.Context, names []string, why string) []string {
	err := c.dropTogether(ctx, names, why)
	switch {
	case err == nil:
		return names
	case slurm.Unreachable(err) || len(names) == 1:
		c.slurmFailed("power down nodes without an instance", err)
		return nil
	}
	c.Log.Warn("power down nodes without an instance; they are tried one by one", "err", err)
	var done []string
	for _, n := range names {
		if !c.slurmAnswers() {
			break
		}
		if err := c.dropTogether(ctx, []string{n}, why); slurm.Unreachable(err) {
			c.slurmFailed("power down a node without an instance", err)
		} else if err != nil {
			c.Log.Error("power down a node without an instance", "node", n, "err", err)
		} else {
			done = append(done, n)
		}
	}
	return done
}

// dropTogether: a node that is gone cannot confirm the end of its job, only
// down lets Slurm go on without it.
func (c *Controller) dropTogether(ctx context.Context, names []string, why string) error {
	for _, u := range []slurm.NodeUpdate{{State: "down", Reason: why}, {State: powerDownOK, Reason: why}} {
		if err := c.Slurm.UpdateNodes(ctx, names, u); err != nil {
			return err
		}
	}
	return nil
}

// requeueLost puts a failing launch without nodes on the job, so that the same
// code that puts back failed launches sets its start time and comment.
func (c *Controller) requeueLost(ctx context.Context, jobID int, why cloud.Error) {
	round, err := c.Ledger.FailedRounds(ctx, jobID)
	if err != nil {
		c.Log.Error("look up a job's rounds in the ledger", "job", jobID, "err", err)
		return
	}
	l := ledger.Launch{ID: c.NewID(), JobID: jobID, Round: round, State: ledger.Failing, Class: why.Class, Message: why.Error(), CreatedAt: c.Now()}
	if c.update(ctx, "lost job", func(tx *ledger.Tx) error { return tx.AddLaunches([]ledger.Launch{l}) }) {
		c.track(l).putBack = true
	}
}
