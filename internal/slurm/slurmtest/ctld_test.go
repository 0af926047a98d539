package slurmtest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/slurm"
	"github.com/midair-hpc/midair/internal/slurm/slurmtest"
)

type cluster struct {
	*slurmtest.Ctld
	t                     *testing.T
	now                   time.Time
	resumed, file         string
	suspended, failedList string
}

func start(t *testing.T) *cluster {
	c := &cluster{t: t, now: time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)}
	c.Ctld = slurmtest.New(slurmtest.Options{
		Now: func() time.Time { return c.now }, ResumeTimeout: time.Minute, SuspendTime: 30 * time.Second, SuspendTimeout: 10 * time.Second,
		SlurmdTimeout: 5 * time.Minute, RequeueDelay: 121 * time.Second,
		Hooks: slurmtest.Hooks{
			Resume:  func(nodes, file string) { c.resumed, c.file = nodes, file },
			Suspend: func(nodes string) { c.suspended = nodes },
			Fail:    func(nodes string) { c.failedList = nodes },
		},
	}, "n1", "n2", "n3")
	return c
}

func (c *cluster) after(d time.Duration) {
	c.now = c.now.Add(d)
	c.Tick()
}

func (c *cluster) node(name string) slurm.Node {
	list, err := c.Nodes(context.Background(), name)
	require.NoError(c.t, err)
	require.Len(c.t, list, 1)
	return list[0]
}

func (c *cluster) job(id int) slurm.Job {
	list, err := c.Jobs(context.Background(), id)
	require.NoError(c.t, err)
	require.Len(c.t, list, 1)
	return list[0]
}

func (c *cluster) set(state string, names ...string) {
	require.NoError(c.t, c.UpdateNodes(context.Background(), names, slurm.NodeUpdate{State: state, Reason: "midair: test"}))
}

func (c *cluster) boot(names ...string) {
	for _, n := range names {
		require.True(c.t, c.Register(slurmtest.Registration{Node: n, Addr: n, Boot: c.now}))
	}
	c.Tick()
}

func TestJobPowersNodesUpRunsAndTheyAreSuspended(t *testing.T) {
	c := start(t)
	id := c.Submit(slurmtest.Job{Nodes: 2, On: []string{"n1", "n2"}, Duration: time.Minute})
	c.Tick()
	require.Equal(t, "n[1-2]", c.resumed)
	require.JSONEq(t, `{"all_nodes":"n[1-2]","jobs":[{"job_id":1,"nodes":"n[1-2]"}]}`, c.file)
	require.Equal(t, "ALLOCATED+CLOUD+POWERING_UP", c.node("n1").State.String())
	require.Equal(t, "CONFIGURING", c.job(id).State)
	c.boot("n1")
	require.Equal(t, "CONFIGURING", c.job(id).State)
	c.boot("n2")
	require.Equal(t, "RUNNING", c.job(id).State)
	c.after(time.Minute)
	require.Equal(t, "COMPLETED", c.job(id).State)
	c.after(30 * time.Second)
	require.Equal(t, "n[1-2]", c.suspended)
	require.Equal(t, "IDLE+CLOUD+POWERING_DOWN", c.node("n2").State.String())
	c.after(10 * time.Second)
	require.Equal(t, "IDLE+CLOUD+POWERED_DOWN", c.node("n2").State.String())
}

func TestRegistrationThatIsNotExpectedIsIgnored(t *testing.T) {
	c := start(t)
	old := c.now
	require.False(t, c.Register(slurmtest.Registration{Node: "n1", Addr: "n1", Boot: old}), "powered down")
	c.now = c.now.Add(time.Second)
	c.set("power_up", "n1")
	c.Tick()
	require.False(t, c.Register(slurmtest.Registration{Node: "n1", Addr: "n1", Boot: old}), "booted before the power-up")
	require.NoError(t, c.SetAddresses(t.Context(), []slurm.NodeAddress{{Node: "n1", Addr: "10.0.0.1", HostName: "h1"}}))
	require.False(t, c.Register(slurmtest.Registration{Node: "n1", Addr: "n1", Boot: c.now}), "another address")
	require.True(t, c.Register(slurmtest.Registration{Node: "n1", Addr: "10.0.0.1", Boot: c.now}))
}

func TestNodeThatDoesNotRegisterIsDownAndItsJobRequeuedWithADelay(t *testing.T) {
	c := start(t)
	id := c.Submit(slurmtest.Job{Nodes: 2, On: []string{"n1", "n2"}})
	c.Tick()
	c.boot("n1")
	c.after(time.Minute)
	require.Equal(t, "n2", c.failedList)
	require.Equal(t, "DOWN+CLOUD+POWERED_DOWN", c.node("n2").State.String())
	require.Equal(t, "IDLE+CLOUD", c.node("n1").State.String())
	j := c.job(id)
	require.Equal(t, "PENDING", j.State)
	require.Equal(t, c.now.Add(121*time.Second), j.StartTime)
	now := c.now
	require.NoError(t, c.UpdateJob(t.Context(), id, slurm.JobUpdate{StartTime: &now}))
	c.set("resume", "n2")
	require.Empty(t, c.node("n2").Reason)
	c.Tick()
	require.Equal(t, "CONFIGURING", c.job(id).State)
}

func TestPowerDownForceRequeuesBatchJobsAndEndsOthers(t *testing.T) {
	c := start(t)
	batch := c.Submit(slurmtest.Job{Nodes: 1, On: []string{"n1"}})
	other := c.Submit(slurmtest.Job{Nodes: 1, On: []string{"n2"}, NoBatch: true})
	c.Tick()
	c.set("power_down_force", "n1", "n2")
	require.Equal(t, "PENDING", c.job(batch).State)
	require.Equal(t, 1, c.job(batch).Restarts)
	require.Equal(t, "NODE_FAIL", c.job(other).State)
	require.Equal(t, "midair: test", c.node("n1").Reason)
	c.Tick()
	require.Equal(t, "n[1-2]", c.suspended)
}

func TestPowerDownWaitsForTheJob(t *testing.T) {
	c := start(t)
	id := c.Submit(slurmtest.Job{Nodes: 1, On: []string{"n1"}, Duration: time.Minute})
	c.Tick()
	c.boot("n1")
	c.set("power_down", "n1")
	require.Equal(t, "RUNNING", c.job(id).State)
	require.True(t, c.node("n1").State.Has("POWER_DOWN"))
	c.after(time.Minute)
	require.Equal(t, "COMPLETED", c.job(id).State)
	require.Equal(t, "IDLE+CLOUD+POWERING_DOWN", c.node("n1").State.String())
}

func TestReasonAloneStaysOnlyOnANodeThatIsDownOrDrained(t *testing.T) {
	c := start(t)
	require.NoError(t, c.UpdateNodes(t.Context(), []string{"n1"}, slurm.NodeUpdate{Reason: "a reason"}))
	require.Empty(t, c.node("n1").Reason)
	c.set("drain", "n1")
	require.NoError(t, c.UpdateNodes(t.Context(), []string{"n1"}, slurm.NodeUpdate{Reason: "a reason"}))
	require.Equal(t, "a reason", c.node("n1").Reason)
}

func TestUnknownNodesAreNamedAndTheOthersUpdated(t *testing.T) {
	c := start(t)
	err := c.UpdateNodes(t.Context(), []string{"n1", "n9"}, slurm.NodeUpdate{State: "down", Reason: "x"})
	var partial *slurm.NotAppliedError
	require.True(t, errors.As(err, &partial))
	require.Equal(t, []string{"n9"}, partial.Nodes)
	require.True(t, c.node("n1").State.Down())
	list, err := c.Nodes(t.Context(), "n9")
	require.NoError(t, err)
	require.Empty(t, list)
}

func TestNodeThatIsGoneIsDownAfterSlurmdTimeout(t *testing.T) {
	c := start(t)
	id := c.Submit(slurmtest.Job{Nodes: 1, On: []string{"n1"}, Duration: time.Minute})
	c.Tick()
	c.boot("n1")
	c.Silence("n1")
	require.True(t, c.node("n1").State.Has("NOT_RESPONDING"))
	c.after(2 * time.Minute)
	require.Equal(t, "RUNNING", c.job(id).State, "nobody has heard of its end")
	c.after(3 * time.Minute)
	require.Equal(t, "PENDING", c.job(id).State)
	require.True(t, c.node("n1").State.Down())
}

func TestHeldJobWaitsForItsOwnerAndAHoldOfAGoneJobIsAnError(t *testing.T) {
	c := start(t)
	id := c.Submit(slurmtest.Job{Nodes: 1, On: []string{"n1"}})
	require.NoError(t, c.HoldJob(t.Context(), id))
	c.Tick()
	require.Equal(t, "JobHeldUser", c.job(id).Reason)
	c.Release(id)
	c.Tick()
	require.Equal(t, "CONFIGURING", c.job(id).State)
	c.Cancel(id)
	require.True(t, slurm.InvalidJob(c.HoldJob(t.Context(), id)))
	c.Forget(id)
	list, err := c.Jobs(t.Context(), id)
	require.NoError(t, err)
	require.Empty(t, list)
}

func TestSlurmctldThatCrashedAsksAgain(t *testing.T) {
	c := start(t)
	c.set("power_up", "n3")
	c.Tick()
	c.resumed = ""
	c.Tick()
	require.Empty(t, c.resumed)
	c.AskAgain()
	c.Tick()
	require.Equal(t, "n3", c.resumed)
	require.JSONEq(t, `{"all_nodes":"n3","jobs":[]}`, c.file)
}

func TestBrokenCallsCannotReachSlurmctldAndMayHaveTakenEffect(t *testing.T) {
	c := start(t)
	for _, applied := range []bool{false, true} {
		c.Break(slurmtest.UpdateNodes, 1, applied)
		err := c.UpdateNodes(t.Context(), []string{"n1"}, slurm.NodeUpdate{State: "drain", Reason: "x"})
		require.True(t, slurm.Unreachable(err))
		require.Equal(t, applied, c.node("n1").State.Drained())
	}
	c.Break(slurmtest.Nodes, 5, false)
	c.Mend()
	c.node("n1")
	require.Len(t, c.Calls(slurmtest.UpdateNodes), 2)
}

func TestMaintainedNodeIsNotChosenAndNotSuspended(t *testing.T) {
	c := start(t)
	c.set("power_up", "n1")
	c.Tick()
	c.boot("n1")
	c.Maintain("n1", true)
	c.after(time.Minute)
	require.Equal(t, "IDLE+CLOUD+MAINTENANCE", c.node("n1").State.String())
	id := c.Submit(slurmtest.Job{Nodes: 1, On: []string{"n1"}})
	c.Tick()
	require.Equal(t, "PENDING", c.job(id).State)
	c.Maintain("n1", false)
	c.Tick()
	require.Equal(t, "ALLOCATED+CLOUD", c.node("n1").State.String())
}

func TestPeekingIsNoCall(t *testing.T) {
	c := start(t)
	id := c.Submit(slurmtest.Job{Nodes: 1, On: []string{"n1"}})
	c.Break(slurmtest.Nodes, 1, false)
	c.Break(slurmtest.Jobs, 1, false)
	require.Len(t, c.PeekNodes(), 3)
	require.Equal(t, "n2", c.PeekNodes("n2")[0].Name)
	require.Equal(t, id, c.PeekJob(id).ID)
	require.Zero(t, c.PeekJob(99).ID)
	require.Empty(t, c.Calls(slurmtest.Nodes))
	_, err := c.Nodes(context.Background())
	require.Error(t, err, "the fault is still there")
	require.Len(t, c.Calls(slurmtest.Nodes), 1)
	c.ForgetCalls()
	require.Empty(t, c.Calls(slurmtest.Nodes))
}
