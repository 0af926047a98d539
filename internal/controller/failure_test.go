package controller

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/ledger"
	"github.com/midair-hpc/midair/internal/planner"
	"github.com/midair-hpc/midair/internal/slurm"
	"github.com/midair-hpc/midair/internal/slurm/slurmtest"
)

// soldOut takes all of pool a's offerings away.
func (w *world) soldOut() { w.east.stock[aSmall], w.east.stock[aLarge] = 0, 0 }

func (w *world) failed(id, rounds int) func() bool {
	return func() bool {
		n, err := w.led.FailedRounds(w.ctx, id)
		return err == nil && n >= rounds
	}
}

func TestRefusedEverywhereTheNodesGoDownWithTheReasonAndTheJobGetsOurStartTime(t *testing.T) {
	w := newWorld(t)
	w.soldOut()
	id := w.submit(slurmtest.Job{Nodes: 2})
	w.turn()
	w.turn()
	require.True(t, w.failed(id, 1)(), w.describe())
	for _, n := range []string{"a1", "a2"} {
		require.True(t, w.node(n).State.PoweringDown(), w.describe())
		require.True(t, strings.HasPrefix(w.node(n).Reason, "midair: out-of-stock: "), w.node(n).Reason)
	}
	j := w.job(id)
	require.Equal(t, w.node("a1").Reason, j.Comment, "the same sentence")
	want := planner.AfterFailure(cloud.OutOfStock, 0, w.now.Add(w.conf.Memory.First), w.now, w.conf.Retry.First, w.conf.Retry.Max, w.conf.Retry.Rounds, 0, false)
	require.Equal(t, want.StartAt, j.StartTime)
	require.Equal(t, "out-of-stock", string(w.launchesOf(id)[0].Class))
	w.east.mend()
	w.until(5*time.Minute, "the job to complete", w.completed(id))
	require.Empty(t, w.job(id).Comment, "the old failure's sentence is taken off")
	w.settled()
}

func TestRoundsAreCappedThenTheJobIsHeldAndReleasedByItsOwner(t *testing.T) {
	w := newWorld(t)
	w.soldOut()
	id := w.submit(slurmtest.Job{Nodes: 2})
	w.until(20*time.Minute, "the job to be held", w.held(id))
	w.turn()
	require.Contains(t, w.job(id).Comment, "held after 3 of 3 rounds")
	require.False(t, w.job(id).StartTime.After(w.now.Add(time.Second)), "it waits for its owner only")
	require.Len(t, w.launchesOf(id), 3)
	w.settled()
	w.east.mend()
	w.pass(3 * time.Minute)
	w.ctld.Release(id)
	w.until(5*time.Minute, "the job to complete", w.completed(id))
	w.settled()
}

func TestTheUsersOwnCommentIsNotOverwritten(t *testing.T) {
	w := newWorld(t)
	w.soldOut()
	id := w.submit(slurmtest.Job{Comment: "my experiment"})
	w.until(time.Minute, "the launch to fail", w.failed(id, 1))
	require.Equal(t, "my experiment", w.job(id).Comment)
	require.Contains(t, w.job(id).AdminComment, "midair: out-of-stock: ")
}

func TestUnauthorizedHoldsTheJobAtOnce(t *testing.T) {
	for _, class := range []cloud.Class{cloud.Unauthorized, cloud.Config} {
		t.Run(string(class), func(t *testing.T) {
			w := newWorld(t)
			w.east.classes[aSmall], w.east.classes[aLarge] = class, class
			id := w.submit(slurmtest.Job{Nodes: 2})
			w.until(time.Minute, "the job to be held", w.held(id))
			require.Contains(t, w.job(id).Comment, "midair: "+string(class)+": the cloud says "+string(class))
			require.Len(t, w.launchesOf(id), 1)
			w.settled()
		})
	}
}

func TestOneOfferingThatIsForbiddenDoesNotHoldWhatAnotherMaySell(t *testing.T) {
	w := newWorld(t)
	w.east.classes[aSmall], w.east.classes[aLarge] = cloud.Unauthorized, cloud.Unknown
	id := w.submit(slurmtest.Job{Nodes: 2})
	w.until(time.Minute, "the launch to fail", w.failed(id, 1))
	require.False(t, w.held(id)())
	require.Contains(t, w.job(id).Comment, "midair: unknown: the cloud says unknown")
}

func TestJobOverTwoPoolsOfWhichOneIsRefusedGivesTheOtherBack(t *testing.T) {
	w := newWorld(t)
	w.west.stock[bOnly] = 0
	id := w.submit(slurmtest.Job{Nodes: 3, On: []string{"a1", "a2", "b1"}})
	w.until(time.Minute, "the launch to fail", w.failed(id, 1))
	w.turn()
	require.Empty(t, w.east.live(), "the siblings are released at once")
	require.Contains(t, w.node("a1").Reason, "midair: out-of-stock")
	w.west.mend()
	w.until(5*time.Minute, "the job to complete", w.completed(id))
	w.settled()
}

// The other pool's call is repeated for as long as its cloud does not answer:
// that must not keep the siblings billed.
func TestRefusedLaunchDoesNotWaitForACallThatIsRepeatedForEver(t *testing.T) {
	w := newWorld(t)
	w.west.lose = 1000
	id := w.submit(slurmtest.Job{Nodes: 3, On: []string{"a1", "a2", "b1"}})
	w.pass(5 * time.Second)
	w.c.ordered()[0].refused = &planner.Refusal{Err: &cloud.Error{Class: cloud.OutOfStock, Message: "none left"}}
	w.pass(2 * time.Second)
	require.True(t, w.failed(id, 1)(), w.describe())
	require.Empty(t, w.east.live())
	w.west.mend()
	w.until(5*time.Minute, "the job to complete", w.completed(id))
	w.settled()
}

func TestNodeThatNeverRegistersFailsItsLaunchAndKeepsTheConsole(t *testing.T) {
	for name, lostHook := range map[string]bool{"ResumeFailProgram runs": false, "ResumeFailProgram fails": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.east.neverBooting["a2"], w.east.console = true, "kernel panic"
			id := w.submit(slurmtest.Job{Nodes: 2})
			w.until(time.Minute, "a1 to register", func() bool { return w.node("a1").State.Registered() })
			w.dropRecords = lostHook
			w.until(4*time.Minute, "the launch to fail", w.failed(id, 1))
			w.dropRecords = false
			require.Contains(t, w.job(id).Comment, "midair: init-failed: a2 did not register")
			require.Less(t, w.job(id).StartTime.Sub(w.now), 121*time.Second)
			w.east.mend()
			w.until(5*time.Minute, "the job to complete", w.completed(id))
			list, err := w.led.InstancesOfNode(w.ctx, "a2")
			require.NoError(t, err)
			require.Equal(t, "kernel panic", list[len(list)-1].Console)
			w.settled()
		})
	}
}

func TestSiblingThatHasRegisteredIsLeftToSlurmNotTerminated(t *testing.T) {
	w := newWorld(t)
	id := w.submit(slurmtest.Job{Nodes: 2})
	w.turn()
	w.turn()
	l := w.c.nodes["a1"]
	require.NotNil(t, l, w.describe())
	registered := w.c.instances[instanceKey{"east", l.Nodes[0].InstanceID}]
	registered.ReadyAt = w.now
	w.c.fail(w.ctx, l, &cloud.Error{Class: cloud.InitFailed, Message: "a2 did not register"}, planner.Refusal{})
	require.Equal(t, ledger.Live, registered.State, "another job may have started on it")
	require.Equal(t, ledger.Terminating, w.c.instances[instanceKey{"east", l.Nodes[1].InstanceID}].State)
	w.until(5*time.Minute, "the job to complete", w.completed(id))
	w.settled()
}

func TestNodesInNoPoolArePoweredDownAndTheirJobIsHeldWithTheReason(t *testing.T) {
	for name, on := range map[string][]string{"alone": {"x1"}, "with nodes of a pool": {"a1", "x1"}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			id := w.submit(slurmtest.Job{Nodes: len(on), On: on})
			w.until(time.Minute, "the job to be held", w.held(id))
			require.Contains(t, w.job(id).Comment, "midair: config: x1 is in no pool of midair.yaml")
			require.Empty(t, w.east.launches)
			for _, n := range on {
				require.True(t, w.node(n).State.PoweringDown() || w.node(n).State.PoweredDown(), w.describe())
			}
			w.settled()
		})
	}
}

func TestNodeThatSlurmDoesNotKnowAtTheLastMomentFailsTheLaunch(t *testing.T) {
	w := newWorld(t)
	w.ctld.BreakWith(slurmtest.SetAddresses, 1, false, &slurm.NotAppliedError{Nodes: []string{"a2"}, Err: errors.New("Invalid node name specified")})
	id := w.submit(slurmtest.Job{Nodes: 2})
	w.until(time.Minute, "the job to be held", w.held(id))
	require.Contains(t, w.job(id).Comment, "Slurm has no node a2")
	w.settled()
}

func TestJobThatIsNotRequeuedEndsTheLaunch(t *testing.T) {
	w := newWorld(t)
	w.soldOut()
	id := w.submit(slurmtest.Job{Nodes: 2, NoBatch: true})
	w.until(time.Minute, "the launch to fail", func() bool { return len(w.launchesOf(id)) == 1 && w.launchesOf(id)[0].State == ledger.Failed })
	require.Equal(t, "NODE_FAIL", w.job(id).State)
	w.settled()
}

func TestJobThatWasCancelledBeforeAnythingWasBoughtBuysNothing(t *testing.T) {
	w := newWorld(t)
	id := w.submit(slurmtest.Job{Nodes: 2})
	w.ctld.Tick()
	w.ctld.Cancel(id)
	w.pass(15 * time.Second)
	require.Empty(t, w.east.launches)
	require.Equal(t, ledger.Released, w.launchesOf(id)[0].State)
	require.True(t, w.node("a1").State.PoweredDown(), w.describe())
	w.settled()
}

func TestNodesOfACancelledJobAreStillBoughtForAnotherThatWaitsForThem(t *testing.T) {
	w := newWorld(t)
	first := w.submit(slurmtest.Job{Nodes: 2, On: []string{"a1", "a2"}})
	w.ctld.Tick()
	w.ctld.Cancel(first)
	second := w.submit(slurmtest.Job{Nodes: 2, On: []string{"a1", "a2"}})
	w.ctld.Tick()
	w.until(time.Minute, "the second job to complete", w.completed(second))
	require.Len(t, w.east.all(), 2)
	w.settled()
}
