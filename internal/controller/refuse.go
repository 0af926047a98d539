package controller

import (
	"context"
	"slices"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/hostlist"
	"github.com/midair-hpc/midair/internal/ledger"
	"github.com/midair-hpc/midair/internal/planner"
	"github.com/midair-hpc/midair/internal/reconcile"
	"github.com/midair-hpc/midair/internal/slurm"
)

// refuseStrangers adds failing launches for nodes that are in no pool of
// midair.yaml, so that they are powered down with the reason, and their job is
// held with it, as after any other failure. A job that has other nodes fails as
// a whole: the others would be bought in vain.
func refuseStrangers(launches []ledger.Launch, strangers []string, jobs []planner.JobNodes, infos map[int]planner.JobInfo) []ledger.Launch {
	left := map[string]bool{}
	for _, n := range strangers {
		left[n] = true
	}
	for _, j := range append(slices.Clone(jobs), planner.JobNodes{Nodes: strangers}) {
		var nodes []string
		for _, n := range j.Nodes {
			if left[n] {
				delete(left, n)
				nodes = append(nodes, n)
			}
		}
		if len(nodes) == 0 {
			continue
		}
		at := slices.IndexFunc(launches, func(l ledger.Launch) bool { return l.JobID == j.JobID && l.JobID != 0 })
		if at < 0 {
			i := infos[j.JobID]
			at = len(launches)
			launches = append(launches, ledger.Launch{JobID: j.JobID, Tier: i.Tier, QOS: i.QOS, User: i.User, Account: i.Account, Partition: i.Partition, Round: i.Round})
		}
		l := &launches[at]
		for _, n := range nodes {
			l.Nodes = append(l.Nodes, ledger.LaunchNode{Node: n})
		}
		e := stranger(nodes)
		l.State, l.Class, l.Message = ledger.Failing, e.Class, e.Error()
	}
	return launches
}

func stranger(nodes []string) *cloud.Error {
	is := " is"
	if len(nodes) > 1 {
		is = " are"
	}
	return &cloud.Error{Class: cloud.Config, Message: hostlist.FoldSorted(nodes) + is + " in no pool of midair.yaml"}
}

// releaseUnwanted powers the nodes of launches down whose job has ended before
// anything was bought for it, unless another job waits for one of them by now.
// It reports false if Slurm could not be reached and the request has to wait.
func (c *Controller) releaseUnwanted(ctx context.Context, launches []ledger.Launch, nodes []slurm.Node, jobs []slurm.Job) bool {
	waiting := map[int]bool{}
	for _, j := range jobs {
		waiting[j.ID] = !j.Ended()
	}
	allocated, theirs := map[string]bool{}, map[string]bool{}
	for _, n := range nodes {
		allocated[n.Name], theirs[n.Name] = n.State.Allocated(), reconcile.Theirs(n)
	}
	for i := range launches {
		l := &launches[i]
		if l.State != ledger.Launching || l.JobID == 0 || waiting[l.JobID] || slices.ContainsFunc(l.Nodes, func(n ledger.LaunchNode) bool { return allocated[n.Node] }) {
			continue
		}
		why := "job " + itoa(l.JobID) + " ended before its nodes were bought"
		names := slices.DeleteFunc(nodeNames(l.Nodes), func(n string) bool { return theirs[n] })
		err := c.Slurm.UpdateNodes(ctx, names, slurm.NodeUpdate{State: powerDown, Reason: prefix + why})
		if slurm.Unreachable(err) {
			c.slurmFailed("power down nodes of a job that has ended", err)
			return false
		}
		if err != nil { // Slurm would say it again
			c.Log.Error("power down nodes of a job that has ended", "job", l.JobID, "nodes", hostlist.FoldSorted(names), "err", err)
		}
		l.State, l.EndedAt, l.Message = ledger.Released, c.Now(), why
	}
	return true
}
