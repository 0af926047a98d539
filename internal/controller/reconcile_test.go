package controller

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/ledger"
	"github.com/midair-hpc/midair/internal/slurm"
	"github.com/midair-hpc/midair/internal/slurm/slurmtest"
)

// running has a job run on its nodes.
func (w *world) running(j slurmtest.Job) int {
	w.t.Helper()
	id := w.submit(j)
	w.until(time.Minute, "the job to run", func() bool { return w.job(id).State == "RUNNING" })
	return id
}

// loseTheLedger ends the controller and takes its ledger away.
func (w *world) loseTheLedger() {
	w.kill()
	w.calls = nil
	for _, suffix := range []string{"", "-wal", "-shm"} {
		require.NoError(w.t, os.RemoveAll(filepath.Join(w.dir, "ledger.db"+suffix)))
	}
}

func (w *world) set(node, state, reason string) {
	require.NoError(w.t, w.ctld.UpdateNodes(w.ctx, []string{node}, slurm.NodeUpdate{State: state, Reason: reason}))
}

func TestSpotInterruptionThatTheNodeDidNotTellRequeuesItsJobWithinSeconds(t *testing.T) {
	w := newWorld(t)
	w.conf.Reconcile.Every = 10 * time.Minute
	id := w.running(slurmtest.Job{Nodes: 2, Duration: 10 * time.Minute})
	w.pass(time.Minute)
	w.east.reclaim(w.east.all()[1].ID)
	w.until(spotLook+6*time.Second, "the job to be requeued", func() bool { return w.job(id).Restarts == 1 })
	w.pass(2 * time.Second)
	const why = "midair: out-of-stock: the cloud took the instance back (spot interruption)"
	require.Equal(t, why, w.node("a2").Reason)
	require.Equal(t, why, w.job(id).Comment)
	require.Less(t, w.job(id).StartTime.Sub(w.now), 30*time.Second, "the start time is ours, not Slurm's 121 s")
	w.until(20*time.Minute, "the job to complete", w.completed(id))
	w.settled()
}

func TestInstancesOnDemandAreNotLookedAtBetweenPasses(t *testing.T) {
	w := newWorld(t)
	w.conf.Reconcile.Every = time.Hour
	id := w.submit(slurmtest.Job{On: []string{"b1"}, Duration: 5 * time.Minute})
	w.until(time.Minute, "the job to run", func() bool { return w.job(id).State == "RUNNING" })
	w.west.unlisted = 100
	w.pass(2 * time.Minute)
	require.Equal(t, 100, w.west.unlisted, "nothing was listed")
}

func TestWhatTakesTwoLooksTakesTwoPasses(t *testing.T) {
	w := newWorld(t)
	w.running(slurmtest.Job{On: []string{"a1"}, Duration: 3 * time.Hour})
	other := w.running(slurmtest.Job{On: []string{"a2"}, Duration: 3 * time.Hour})
	w.dropRecords = true // the power-down is lost
	w.ctld.Cancel(other)
	w.until(5*time.Minute, "the orphan to be seen once", func() bool { return len(w.c.sightings) > 0 })
	w.dropRecords = false
	w.c.nextPass = w.now.Add(5 * time.Minute)
	w.east.reclaim(w.east.all()[0].ID)
	w.until(time.Minute, "the other node's loss to be acted on", func() bool { return w.node("a1").State.PoweringDown() })
	w.pass(4 * time.Minute)
	require.False(t, ended(w.east.all()[1]))
	w.until(2*time.Minute, "the next pass to end the orphan", func() bool { return ended(w.east.all()[1]) })
}

func TestInstanceTakenBackWhileItBootsIsReplacedFromTheNextOfferingInTheSameRound(t *testing.T) {
	for name, stopped := range map[string]bool{"ended": false, "stopped": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.boot = 40 * time.Second
			id := w.submit(slurmtest.Job{Nodes: 2})
			w.pass(5 * time.Second)
			first := w.east.all()[0]
			require.Equal(t, aSmall, first.Offering)
			if stopped {
				w.east.stop(first.ID, true)
			} else {
				w.east.reclaim(first.ID)
			}
			w.until(2*time.Minute, "the job to run", func() bool { return w.job(id).State == "RUNNING" })
			require.Len(t, w.launchesOf(id), 1, "the same round")
			require.Equal(t, aLarge, w.east.all()[2].Offering)
			require.Equal(t, first.Node, w.east.all()[2].Node)
			failures, err := w.led.FailuresOfJob(w.ctx, id, 10)
			require.NoError(t, err)
			require.Equal(t, cloud.OutOfStock, failures[0].Class)
			require.Equal(t, aSmall.Key(), failures[0].Offering)
			w.until(10*time.Minute, "the job to complete", w.completed(id))
			require.Zero(t, w.job(id).Restarts)
			w.settled()
		})
	}
}

func TestInstanceTakenBackWhileItBootsWithNoOtherOfferingPutsTheJobBackAsOutOfStock(t *testing.T) {
	w := newWorld(t)
	w.boot = 40 * time.Second
	id := w.submit(slurmtest.Job{On: []string{"b1"}})
	w.pass(5 * time.Second)
	w.west.reclaim(w.west.all()[0].ID)
	w.until(time.Minute, "the launch to fail", w.failed(id, 1))
	require.Equal(t, cloud.OutOfStock, w.launchesOf(id)[0].Class)
	require.Contains(t, w.job(id).Comment, "midair: out-of-stock: ")
	w.until(10*time.Minute, "the job to complete", w.completed(id))
	w.settled()
}

func TestControllerKilledBetweenAnInterruptionAndTheReplacementBuysIt(t *testing.T) {
	w := newWorld(t)
	w.boot = 40 * time.Second
	id := w.submit(slurmtest.Job{Nodes: 2})
	w.pass(5 * time.Second)
	w.east.reclaim(w.east.all()[0].ID)
	w.crash = func(point string) {
		if point == "intent-committed" {
			panic(point)
		}
	}
	require.Panics(t, func() { w.pass(time.Minute) })
	w.crash = func(string) {}
	w.restart()
	w.until(3*time.Minute, "the job to run", func() bool { return w.job(id).State == "RUNNING" })
	require.Len(t, w.east.live(), 2)
	require.Len(t, w.launchesOf(id), 1)
	w.until(10*time.Minute, "the job to complete", w.completed(id))
	w.settled()
}

func TestInstanceStoppedByHandUnderAJobIsTerminatedAndTheJobRunsElsewhere(t *testing.T) {
	w := newWorld(t)
	id := w.running(slurmtest.Job{Nodes: 2, Duration: 10 * time.Minute})
	w.east.stop(w.east.all()[0].ID, false)
	w.until(time.Minute, "the job to be requeued", func() bool { return w.job(id).Restarts == 1 })
	w.pass(time.Second)
	require.Equal(t, "midair: unknown: the instance is stopped (Client.UserInitiatedShutdown)", w.job(id).Comment)
	w.until(5*time.Minute, "the stopped instance to be terminated", func() bool { return ended(w.east.all()[0]) })
	w.until(20*time.Minute, "the job to complete", w.completed(id))
	w.settled()
}

// The power-down's record is lost: the reconciler alone ends it.
func TestStoppedInstanceThatNobodyAskedForIsAnOrphan(t *testing.T) {
	w := newWorld(t)
	w.running(slurmtest.Job{Duration: 10 * time.Minute})
	w.east.stop(w.east.all()[0].ID, false)
	w.dropRecords = true
	w.until(3*time.Minute, "the stopped instance to be terminated", func() bool { return ended(w.east.all()[0]) })
	w.dropRecords = false
}

func TestInstancesThatCouldNotBeNamedYetAreNamedAfterALaterList(t *testing.T) {
	w := newWorld(t)
	w.east.lateNames, w.east.badNames = true, 3
	id := w.running(slurmtest.Job{Nodes: 3, Duration: 10 * time.Minute})
	w.pass(5 * time.Minute)
	require.Empty(t, w.east.unnamed)
	require.Len(t, w.east.live(), 3)
	w.until(10*time.Minute, "the job to complete", w.completed(id))
	require.Zero(t, w.job(id).Restarts)
	w.settled()
}

func TestLedgerLostBeforeTheInstancesWereNamedLeaksNothingAndKillsNothingThatWorks(t *testing.T) {
	w := newWorld(t)
	w.east.lateNames, w.east.badNames = true, 1<<30
	id := w.running(slurmtest.Job{Nodes: 2, Duration: 10 * time.Minute})
	w.loseTheLedger()
	w.start()
	require.True(t, w.c.adopting)
	w.until(12*time.Minute, "the job to complete", w.completed(id))
	require.Zero(t, w.job(id).Restarts, "its instances cannot be taken over, but they work")
	w.until(10*time.Minute, "them to be terminated", func() bool { return len(w.east.there()) == 0 })
	w.settled()
}

func TestRebuiltLedgerHasWhatEndedWhileItWasLost(t *testing.T) {
	w := newWorld(t)
	w.running(slurmtest.Job{Nodes: 2, Duration: 10 * time.Minute})
	w.loseTheLedger()
	gone := w.east.all()[0]
	w.east.reclaim(gone.ID)
	w.pass0(time.Minute)
	w.start()
	w.until(time.Minute, "the ledger to be rebuilt", func() bool { return !w.c.adopting })
	list, err := w.led.InstancesOfNode(w.ctx, gone.Node)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, ledger.Ended, list[0].State)
	require.True(t, list[0].CreatedAt.Equal(gone.CreatedAt))
	require.True(t, list[0].EndedAt.Equal(w.east.all()[0].EndedAt))
}

func TestOneInstanceThatTheCloudWillNotEndDoesNotKeepTheOthersBilled(t *testing.T) {
	w := newWorld(t)
	id := w.submit(slurmtest.Job{Nodes: 6})
	w.until(time.Minute, "the job to run", func() bool { return w.job(id).State == "RUNNING" })
	stubborn := w.east.all()[3].ID
	w.east.protected[stubborn] = true
	w.until(10*time.Minute, "the others to end", func() bool { return len(w.east.there()) == 1 })
	require.Equal(t, stubborn, w.east.there()[0].ID)
	delete(w.east.protected, stubborn)
	w.settled()
}

func TestSuspendTimeoutShorterThanTheDeleteGivesTheNodeOneLiveInstance(t *testing.T) {
	w := newWorld(t)
	w.east.slow = 5 * time.Minute
	first := w.submit(slurmtest.Job{On: []string{"a1"}})
	w.until(2*time.Minute, "the job to complete", w.completed(first))
	w.until(3*time.Minute, "its node to be powered down", func() bool { return w.node("a1").State.PoweredDown() })
	second := w.running(slurmtest.Job{On: []string{"a1"}, Duration: 3 * time.Minute})
	require.Equal(t, cloud.ShuttingDown, w.east.all()[0].State)
	w.until(5*time.Minute, "the second job to complete", w.completed(second))
	require.Zero(t, w.job(second).Restarts, "the old instance's end is not the new one's")
	w.settled()
}

func TestTerminateWhoseAnswerIsLostIsRepeated(t *testing.T) {
	w := newWorld(t)
	id := w.submit(slurmtest.Job{Nodes: 2})
	w.until(time.Minute, "the job to complete", w.completed(id))
	w.east.loseEnd = 2
	w.settled()
	require.Zero(t, w.east.loseEnd)
}

func TestInstanceThatComesUpAfterItsNodeWentDownDoesNotGetTheNode(t *testing.T) {
	w := newWorld(t)
	w.boot = 200 * time.Second // ResumeTimeout is 3 minutes
	id := w.submit(slurmtest.Job{On: []string{"a1"}})
	w.until(4*time.Minute, "the launch to fail", w.failed(id, 1))
	late := w.east.all()[0]
	w.until(time.Minute, "the late instance to be terminated", func() bool { return ended(w.east.all()[0]) })
	w.boot = 2 * time.Second
	w.until(10*time.Minute, "the job to complete", w.completed(id))
	require.NotEqual(t, late.ID, w.east.all()[len(w.east.all())-1].ID)
	w.settled()
}

func TestLostAnswerFollowedByATerminateThatFailsAndAFallbackBuysNothingTwice(t *testing.T) {
	w := newWorld(t)
	w.east.lose, w.east.stillborn, w.east.busy, w.east.loseEnd = 2, 1, 3, 2
	id := w.submit(slurmtest.Job{Nodes: 2})
	w.until(5*time.Minute, "the job to complete", w.completed(id))
	byNode := map[string]int{}
	for _, i := range w.east.live() {
		byNode[i.Node]++
		require.Equal(t, 1, byNode[i.Node])
	}
	w.settled()
}

func TestControllerStoppedWhileNodesPowerUpFinishesTheLaunchWhenItIsBack(t *testing.T) {
	w := newWorld(t)
	w.boot = time.Minute
	id := w.submit(slurmtest.Job{Nodes: 2, Duration: 5 * time.Minute})
	w.pass(5 * time.Second)
	w.kill()
	w.calls = nil
	w.pass0(70 * time.Second)
	w.start()
	w.until(time.Minute, "the launch to be settled", func() bool { return w.launchesOf(id)[0].State == ledger.Ready })
	w.until(10*time.Minute, "the job to complete", w.completed(id))
	require.Zero(t, w.job(id).Restarts)
	require.Len(t, w.east.all(), 2)
	w.settled()
}

func TestNodeThatAnAdminDrainsWhileItBootsStaysDrainedWhenItsLaunchFails(t *testing.T) {
	w := newWorld(t)
	w.boot = time.Hour
	id := w.submit(slurmtest.Job{Nodes: 2, On: []string{"a1", "a2"}})
	w.pass(5 * time.Second)
	w.set("a1", "drain", "new disk")
	w.until(5*time.Minute, "the launch to fail", w.failed(id, 1))
	w.pass(5 * time.Minute)
	require.True(t, w.node("a1").State.Drained(), w.describe())
	require.True(t, w.node("a2").State.PoweredDown() || w.node("a2").State.PoweringDown() || w.node("a2").State.PoweringUp(), w.describe())
}

func TestNodeThatAnAdminSetsDownWhileItBootsIsNotWaitedForForEver(t *testing.T) {
	w := newWorld(t)
	require.NoError(t, w.ctld.UpdateNodes(w.ctx, []string{"a1"}, powerUp))
	w.ctld.Tick()
	w.set("a1", "down", "bad cable")
	w.pass(20 * time.Second)
	require.Empty(t, w.c.launches)
	require.Len(t, w.east.live(), 1)
	require.True(t, w.node("a1").State.Down())
}

func TestDrainedNodeKeepsItsInstanceWhateverHappensToTheLedger(t *testing.T) {
	w := newWorld(t)
	w.conf.Reconcile.Every = 20 * time.Second
	w.running(slurmtest.Job{Duration: 30 * time.Minute, On: []string{"a1"}})
	w.set("a1", "drain", "new disk")
	w.loseTheLedger()
	w.start()
	w.pass(10 * time.Minute)
	require.Len(t, w.east.live(), 1)
	require.True(t, w.node("a1").State.Drained())
	require.Empty(t, w.c.launches, "its launch is not waited for")
	require.Len(t, w.c.instances, 1, "it was taken over")
}

func TestOneNodeThatSlurmWillNotSetDownDoesNotKeepTheOthersUp(t *testing.T) {
	w := newWorld(t)
	id := w.running(slurmtest.Job{Nodes: 2, Duration: 10 * time.Minute})
	other := w.running(slurmtest.Job{Nodes: 2, Duration: 10 * time.Minute, On: []string{"a5", "a6"}})
	// The call for all four is refused, then that for the first.
	w.ctld.BreakWith(slurmtest.UpdateNodes, 2, false, &slurm.CommandError{Program: "scontrol", ExitCode: 1, Stderr: "slurm_update error: Invalid node state specified", Err: os.ErrInvalid})
	for _, i := range w.east.all() {
		w.east.reclaim(i.ID)
	}
	w.until(time.Minute, "the second job to be requeued", func() bool { return w.job(other).Restarts == 1 })
	w.until(30*time.Minute, "both to complete", func() bool { return w.completed(id)() && w.completed(other)() })
	w.settled()
}
