package controller

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/hostlist"
	"github.com/midair-hpc/midair/internal/ledger"
	"github.com/midair-hpc/midair/internal/planner"
	"github.com/midair-hpc/midair/internal/reconcile"
	"github.com/midair-hpc/midair/internal/slurm"
)

// What midair sets nodes to. power_down_force requeues the batch job of a node
// that is powering up at once, and brings a node that is down back into service
// with the reason kept, which resume does not (22.05.8); plain power_down lets a
// job on the node end first.
const (
	powerDown   = "power_down_force"
	powerDownOK = "power_down"
)

// prefix starts every text that midair leaves in Slurm (promise 11).
const prefix = "midair: "

// noAddress is given to a node that never got one before its job is requeued:
// slurmctld then wants to talk to the node, and looking up a name that does not
// resolve blocks it for 10 s a node with its locks held (seen on 22.05.8).
// 192.0.2.0/24 is nobody's (RFC 5737).
const noAddress = "192.0.2.1"

// requeueWait bounds how long a failed launch waits for Slurm to have requeued
// its job before it is closed without a start time of ours.
const requeueWait = time.Minute

func reason(e *cloud.Error) string { return prefix + e.Error() }

// fail gives a launch up: on record first, with its instances marked to be
// terminated in the same transaction, so that siblings are released at once.
// A sibling that has registered goes through Slurm instead (giveBack): another
// job may have started on it since.
func (c *Controller) fail(ctx context.Context, l *launch, e *cloud.Error, r planner.Refusal) {
	s := l.Launch
	s.State, s.Class, s.Message, s.RetryAt = ledger.Failing, e.Class, e.Error(), r.RetryAt
	cause := "its launch failed: " + e.Error()
	ids := map[string][]string{}
	for _, i := range c.instances {
		if i.Launch == l.ID && i.State == ledger.Live && i.ReadyAt.IsZero() {
			ids[i.Provider] = append(ids[i.Provider], i.ID)
		}
	}
	memory := c.notBooted(l, e)
	ok := c.update(ctx, "failed launch", func(tx *ledger.Tx) error {
		if err := tx.PutMemory(memory); err != nil {
			return err
		}
		for p, list := range ids {
			if err := tx.SetTerminating(p, list, cause); err != nil {
				return err
			}
		}
		if err := tx.SetLaunch(s); err != nil {
			return err
		}
		return tx.AddFailures([]ledger.Failure{{At: c.Now(), Launch: l.ID, JobID: l.JobID, Class: e.Class, Code: e.Code, Message: e.Message, Nodes: hostlist.FoldSorted(nodeNames(l.Nodes))}})
	})
	if !ok {
		return
	}
	for _, m := range memory {
		c.memory[keyOf(m)] = m
	}
	l.Launch, l.since, l.failedAt = s, c.Now(), c.Now()
	for p, list := range ids {
		c.markTerminating(p, list, cause)
	}
	c.Log.Warn("launch failed", "launch", l.ID, "job", l.JobID, "nodes", hostlist.FoldSorted(nodeNames(l.Nodes)), "class", e.Class, "err", e)
	c.Crash("launch-failing")
}

// putBack gives failing launches' nodes back to Slurm with the reason, and
// their jobs a start time of our choice instead of Slurm's 121 s.
func (c *Controller) putBack(ctx context.Context) {
	for _, l := range c.ordered() {
		if l.State != ledger.Failing || c.Now().Before(l.next) || !c.slurmAnswers() {
			continue
		}
		if !l.putBack {
			if !c.putBackNodes(ctx, l) {
				continue
			}
			// Slurm may have been away until now: the wait for the job begins.
			l.putBack, l.since = true, c.Now()
			c.Crash("nodes-powered-down")
			c.letGo(l.JobID)
		}
		at, done := c.putBackJob(ctx, l)
		if !done {
			l.next = c.Now().Add(watchBusy / 2)
			continue
		}
		c.Crash("job-requeued")
		s := l.Launch
		s.State, s.RetryAt, s.EndedAt = ledger.Failed, at, c.Now()
		if c.update(ctx, "failed launch", func(tx *ledger.Tx) error { return tx.SetLaunch(s) }) {
			l.Launch = s
			c.untrack(l)
			c.Crash("launch-failed")
		}
	}
}

func (c *Controller) putBackNodes(ctx context.Context, l *launch) bool {
	var names []string
	for _, n := range l.Nodes {
		// A newer launch may carry the node by now (after a restart).
		if c.nodes[n.Node] == l && !l.parked[n.Node] {
			names = append(names, n.Node)
		}
	}
	err := c.giveBack(ctx, names, prefix+l.Message)
	return err == nil || c.givesUp(l, err)
}

// givesUp: Slurm answers and refuses, and has done so for long enough. While it
// does not answer, nothing is given up.
func (c *Controller) givesUp(l *launch, err error) bool {
	return !slurm.Unreachable(err) && c.Now().Sub(l.since) > requeueWait
}

// putBackLoose returns nodes of no open launch that did not register. One that
// Slurm is powering up again by now is left alone: its request follows.
func (c *Controller) putBackLoose(ctx context.Context, names []string) {
	list, err := c.Slurm.Nodes(ctx, names...)
	if err != nil {
		c.slurmFailed("ask Slurm for nodes that did not register", err)
		return // the reconciler finds them
	}
	var down []string
	for _, n := range list {
		if n.State.Down() {
			down = append(down, n.Name)
		}
	}
	_ = c.giveBack(ctx, down, prefix+string(cloud.InitFailed)+": the node did not register with Slurm within ResumeTimeout") // or the reconciler does it
}

// giveBack returns nodes to powered-down with a reason. It touches only nodes
// that are powering up, or that Slurm set down because they did not register;
// a registered sibling is let go when idle, and what an admin has drained or
// set down stays as it is.
func (c *Controller) giveBack(ctx context.Context, names []string, why string) error {
	if len(names) == 0 {
		return nil
	}
	list, err := c.Slurm.Nodes(ctx, names...)
	if err != nil {
		c.slurmFailed("ask Slurm for the nodes to put back", err)
		return err
	}
	var (
		force, gentle []string
		nowhere       []slurm.NodeAddress
	)
	for _, n := range list {
		switch s := n.State; {
		case s.Drained(), s.Maintained(), s.Down() && !reconcile.Ours(n.Reason):
			// Powering it down would put it back into service.
		case s.PoweringUp(), s.Down():
			force = append(force, n.Name)
			if n.Addr == "" || n.Addr == n.Name {
				nowhere = append(nowhere, slurm.NodeAddress{Node: n.Name, Addr: noAddress, HostName: n.Name})
			}
		case s.Registered():
			gentle = append(gentle, n.Name)
		}
	}
	if err := c.Slurm.SetAddresses(ctx, nowhere); err != nil {
		c.slurmFailed("set the addresses of nodes to put back", err)
		return err
	}
	for _, u := range []struct {
		names []string
		state string
	}{{force, powerDown}, {gentle, powerDownOK}} {
		if len(u.names) == 0 {
			continue
		}
		slices.Sort(u.names)
		if err := c.Slurm.UpdateNodes(ctx, u.names, slurm.NodeUpdate{State: u.state, Reason: why}); err != nil {
			c.slurmFailed("put nodes back ("+u.state+")", err)
			return err
		}
	}
	return nil
}

// putBackJob chooses when the job of a failed launch may start again, or holds
// it. done is false while Slurm has not requeued it yet.
func (c *Controller) putBackJob(ctx context.Context, l *launch) (at time.Time, done bool) {
	if l.JobID == 0 || c.newerLaunch(l) {
		return time.Time{}, true
	}
	jobs, err := c.Slurm.Jobs(ctx, l.JobID)
	if err != nil {
		c.slurmFailed("ask Slurm for a failed launch's job", err)
		return time.Time{}, false
	}
	if len(jobs) == 0 || jobs[0].Ended() {
		return time.Time{}, true
	}
	j := jobs[0]
	if j.State != "PENDING" {
		// A job that Slurm does not requeue (srun, --no-requeue) never comes
		// back to pending.
		return time.Time{}, c.Now().Sub(l.since) > requeueWait
	}
	d := planner.AfterFailure(l.Class, l.Round, l.RetryAt, l.failedAt, c.Config.Retry.First, c.Config.Retry.Max, c.Config.Retry.Rounds, c.Rand(), c.patient(l))
	text := prefix + l.Message
	if d.Hold {
		// Held first, or it could start again. Its owner's release is then all
		// that it waits for, not the delay of a requeue as well.
		if err := c.Slurm.HoldJob(ctx, l.JobID); err != nil {
			c.slurmFailed("hold a job after its last round", err)
			return time.Time{}, c.givesUp(l, err)
		}
		d.StartAt = c.Now()
		text += "; held after " + itoa(l.Round+1) + " of " + itoa(c.Config.Retry.Rounds) + " rounds, release it with scontrol release " + itoa(l.JobID)
	}
	u := slurm.JobUpdate{StartTime: &d.StartAt}
	if j.Comment == "" || strings.HasPrefix(j.Comment, prefix) {
		u.Comment = &text
	} else {
		u.AdminComment = &text // the comment is the user's own
	}
	if err := c.Slurm.UpdateJob(ctx, l.JobID, u); err != nil {
		c.slurmFailed("set a failed launch's job's start time", err)
		return time.Time{}, c.givesUp(l, err)
	}
	if d.Hold {
		c.Log.Warn("job held", "job", l.JobID, "rounds", l.Round+1, "class", l.Class)
		return time.Time{}, true
	}
	c.Log.Info("job requeued", "job", l.JobID, "start", d.StartAt, "round", l.Round+1)
	return d.StartAt, true
}

// newerLaunch: after a restart the job may already be in a launch that is
// younger than the failing one; then its start time is not ours to change.
func (c *Controller) newerLaunch(l *launch) bool {
	for _, o := range c.launches {
		if o != l && o.JobID == l.JobID && o.CreatedAt.After(l.CreatedAt) {
			return true
		}
	}
	return false
}

// clearComment takes an old failure's sentence off a job whose nodes are ready.
func (c *Controller) clearComment(ctx context.Context, jobID int) {
	if jobID == 0 {
		return
	}
	jobs, err := c.Slurm.Jobs(ctx, jobID)
	if err != nil || len(jobs) == 0 || jobs[0].State == "PENDING" || !strings.HasPrefix(jobs[0].Comment, prefix) {
		return // a pending job waits for other nodes, or is held: what it says is still so
	}
	empty := ""
	if err := c.Slurm.UpdateJob(ctx, jobID, slurm.JobUpdate{Comment: &empty}); err != nil {
		c.Log.Warn("clear a job's comment", "job", jobID, "err", err)
	}
}
