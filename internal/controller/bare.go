package controller

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/hostlist"
	"github.com/midair-hpc/midair/internal/ledger"
	"github.com/midair-hpc/midair/internal/reconcile"
	"github.com/midair-hpc/midair/internal/slurm"
)

// bare powers down nodes that Slurm has up and no instance carries: their jobs
// cannot run and are requeued, with a start time of ours. It reports false if
// Slurm did not take it all.
func (c *Controller) bare(ctx context.Context, nodes []reconcile.Bare) bool {
	if len(nodes) == 0 {
		return true
	}
	jobs, err := c.Slurm.ActiveJobs(ctx)
	if err != nil {
		c.slurmFailed("ask Slurm for the jobs on lost nodes", err)
		return false
	}
	byWhy := map[string][]string{}
	for _, b := range nodes {
		e := &cloud.Error{Class: cloud.Unknown, Message: b.Why}
		byWhy[reason(e)] = append(byWhy[reason(e)], b.Node)
	}
	requeued := map[int]bool{} // a job may have lost several nodes
	for _, why := range slices.Sorted(maps.Keys(byWhy)) {
		names := byWhy[why]
		slices.Sort(names)
		c.Log.Warn("nodes without an instance are powered down", "nodes", hostlist.FoldSorted(names), "why", why)
		// A node that is gone cannot confirm the end of its job: only down lets
		// Slurm go on without it.
		for _, u := range []slurm.NodeUpdate{{State: "down", Reason: why}, {State: powerDownOK, Reason: why}} {
			if err := c.Slurm.UpdateNodes(ctx, names, u); err != nil {
				c.slurmFailed("power down nodes without an instance", err)
				return false
			}
		}
		for _, j := range jobs {
			if on(j, names) && !requeued[j.ID] {
				requeued[j.ID] = true
				c.requeueLost(ctx, j.ID, why)
			}
		}
	}
	return true
}

func on(j slurm.Job, nodes []string) bool {
	names, err := hostlist.Expand(j.Nodes)
	return err == nil && slices.ContainsFunc(names, func(n string) bool { return slices.Contains(nodes, n) })
}

// requeueLost puts a failing launch without nodes on the job, so that the same
// code that puts back failed launches sets its start time and comment.
func (c *Controller) requeueLost(ctx context.Context, jobID int, why string) {
	round, err := c.Ledger.FailedRounds(ctx, jobID)
	if err != nil {
		c.Log.Error("look up a job's rounds in the ledger", "job", jobID, "err", err)
		return
	}
	l := ledger.Launch{ID: c.NewID(), JobID: jobID, Round: round, State: ledger.Failing, Class: cloud.Unknown,
		Message: strings.TrimPrefix(why, prefix), CreatedAt: c.Now()}
	if c.update(ctx, "lost job", func(tx *ledger.Tx) error { return tx.AddLaunches([]ledger.Launch{l}) }) {
		c.track(l).putBack = true
	}
}
