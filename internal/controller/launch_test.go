package controller

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/ledger"
	"github.com/midair-hpc/midair/internal/slurm/slurmtest"
)

func TestJobGetsAllItsNodesInOneCallAndOneUpdate(t *testing.T) {
	w := newWorld(t)
	w.east.onLaunch = func(r cloud.LaunchRequest) {
		open, err := w.led.OpenIntents(w.ctx)
		require.NoError(t, err)
		require.Len(t, open, 1, "the create call is on record before it is made")
		require.Equal(t, r.Token, open[0].Token)
		require.Equal(t, open[0].Nodes[0].Launch, r.Nodes[0].Launch)
	}
	id := w.submit(slurmtest.Job{Nodes: 3, User: "ada", Account: "ml"})
	w.until(time.Minute, "the job to complete", w.completed(id))
	require.Len(t, w.east.launches, 1)
	r := w.east.launches[0]
	require.True(t, r.AllOrNothing)
	require.Equal(t, map[string]string{cloud.TagTier: "p2", cloud.TagUser: "ada", cloud.TagAccount: "ml", cloud.TagJob: "1"}, r.Nodes[2].Tags)
	sets := w.ctld.Calls(slurmtest.SetAddresses)
	require.Len(t, sets, 1)
	require.Equal(t, []string{"a1", "a2", "a3"}, sets[0].Nodes)
	require.Equal(t, ledger.Ready, w.launchesOf(id)[0].State)
	w.settled()
}

func TestOutOfStockUsesTheNextOfferingInTheSameRound(t *testing.T) {
	w := newWorld(t)
	w.east.stock[aSmall] = 1
	id := w.submit(slurmtest.Job{Nodes: 2})
	w.until(time.Minute, "the job to complete", w.completed(id))
	require.Len(t, w.launchesOf(id), 1)
	require.Equal(t, aLarge, w.east.all()[0].Offering)
	require.Len(t, w.east.all(), 2)
	memory, err := w.led.Memory(w.ctx)
	require.NoError(t, err)
	require.Len(t, memory, 1)
	w.settled()
}

func TestLostAnswerIsAskedAgainWithTheSameTokenAndBuysOnce(t *testing.T) {
	w := newWorld(t)
	w.east.lose = 3
	id := w.submit(slurmtest.Job{Nodes: 2})
	w.until(time.Minute, "the job to complete", w.completed(id))
	require.Len(t, w.east.launches, 4)
	for _, r := range w.east.launches {
		require.Equal(t, w.east.launches[0].Token, r.Token)
	}
	require.Len(t, w.east.all(), 2)
	w.settled()
}

func TestLostAnswerOfALaunchGivenUpIsAskedWithTheSameTagsAlsoAfterARestart(t *testing.T) {
	w := newWorld(t)
	w.east.lose = 1000
	id := w.submit(slurmtest.Job{Nodes: 2, User: "ada"})
	w.until(5*time.Minute, "the launch to fail", func() bool { return len(w.launchesOf(id)) > 0 && w.launchesOf(id)[0].State == ledger.Failed })
	require.Contains(t, w.job(id).Comment, "midair: unknown: a1 got no instance within ResumeTimeout: the connection was lost")
	w.east.lose = 2
	w.restart()
	w.until(5*time.Minute, "the job to complete", w.completed(id))
	for _, r := range w.east.launches {
		if first := w.east.launches[0]; r.Token == first.Token {
			require.True(t, sameCall(first, r), "%v\n%v", first, r)
		}
	}
	w.settled()
}

func TestThrottledCallIsRepeatedMoreAndMoreSlowly(t *testing.T) {
	w := newWorld(t)
	w.east.throttle = 5
	var at []time.Time
	w.east.onLaunch = func(cloud.LaunchRequest) { at = append(at, w.now) }
	id := w.submit(slurmtest.Job{})
	w.until(2*time.Minute, "the job to complete", w.completed(id))
	require.Len(t, at, 6)
	require.Greater(t, at[5].Sub(at[4]), 4*at[1].Sub(at[0]))
	require.Len(t, w.launchesOf(id), 1, "waiting for the cloud is no failed round")
	w.settled()
}

func TestAddressThatTheCloudLearnsLaterIsListed(t *testing.T) {
	w := newWorld(t)
	w.east.noAddr = true
	id := w.submit(slurmtest.Job{Nodes: 2})
	w.until(time.Minute, "the job to complete", w.completed(id))
	w.settled()
}

func TestInstanceThatHasEndedWhenTheAnswerComesIsReplaced(t *testing.T) {
	w := newWorld(t)
	w.east.stillborn = 1
	id := w.submit(slurmtest.Job{Nodes: 2})
	w.until(time.Minute, "the job to complete", w.completed(id))
	require.Len(t, w.launchesOf(id), 1)
	require.Len(t, w.east.all(), 3)
	w.settled()
}

func TestManualPowerUpOfNodesInNoJob(t *testing.T) {
	w := newWorld(t)
	require.NoError(t, w.ctld.UpdateNodes(w.ctx, []string{"a1", "b1"}, powerUp))
	w.until(time.Minute, "both to register", func() bool { return w.node("a1").State.Registered() && w.node("b1").State.Registered() })
	require.Len(t, w.east.launches, 1)
	require.Len(t, w.west.launches, 1)
	require.False(t, w.east.launches[0].AllOrNothing)
	w.settled()
}

func TestJobOverTwoPoolsGetsBothParts(t *testing.T) {
	w := newWorld(t)
	id := w.submit(slurmtest.Job{Nodes: 4, On: []string{"a1", "a2", "b1", "b2"}})
	w.until(time.Minute, "the job to complete", w.completed(id))
	require.Len(t, w.ctld.Calls(slurmtest.SetAddresses), 1)
	w.settled()
}

func TestTheSameRequestTwiceLaunchesOnce(t *testing.T) {
	w := newWorld(t)
	id := w.submit(slurmtest.Job{Nodes: 2})
	w.ctld.Tick()
	w.ctld.AskAgain() // a slurmctld that crashed and came back
	w.ctld.Tick()
	w.step()
	w.ctld.AskAgain()
	w.until(time.Minute, "the job to complete", w.completed(id))
	w.ctld.AskAgain()
	w.pass(2 * time.Second)
	require.Len(t, w.east.all(), 2)
	require.Len(t, w.launchesOf(id), 1)
	w.settled()
}

func TestRequestForNodesThatSlurmDoesNotPowerUpBuysNothing(t *testing.T) {
	w := newWorld(t)
	w.record(recordOf("resume", "a[1-2],nowhere7"))
	w.pass(5 * time.Second)
	require.Empty(t, w.east.launches)
	w.settled()
}

func TestInstanceOfAnEarlierPowerUpIsReplaced(t *testing.T) {
	w := newWorld(t)
	require.NoError(t, w.ctld.UpdateNodes(w.ctx, []string{"a1"}, powerUp))
	w.until(time.Minute, "a1 to register", func() bool { return w.node("a1").State.Registered() })
	w.dropRecords = true // the power-down is lost
	require.NoError(t, w.ctld.UpdateNodes(w.ctx, []string{"a1"}, powerDownNow))
	w.pass(12 * time.Second)
	w.dropRecords = false
	require.Len(t, w.east.live(), 1)
	require.NoError(t, w.ctld.UpdateNodes(w.ctx, []string{"a1"}, powerUp))
	w.until(time.Minute, "a1 to register again", func() bool { return w.node("a1").State.Registered() })
	require.Len(t, w.east.live(), 1)
	require.Equal(t, 2, w.east.live()[0].Generation)
	w.settled()
}
