package reconcile_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/ledger"
	"github.com/midair-hpc/midair/internal/reconcile"
)

func inState(i cloud.Instance, s cloud.InstanceState) cloud.Instance {
	i.State = s
	return i
}

func reclaimed(i cloud.Instance, s cloud.InstanceState) cloud.Instance {
	i.State, i.Reclaimed, i.StateCause = s, true, "Server.SpotInstanceTermination"
	return i
}

func TestStoppedInstanceLosesItsNodeAtOnceAndIsTerminatedAfterTwoLooks(t *testing.T) {
	i := inState(inCloud("i-1", "n1", time.Hour), cloud.Stopped)
	i.StateCause = "Client.UserInitiatedShutdown"
	in := look([]cloud.Instance{i}, []ledger.Instance{onRecord("i-1", "n1", time.Hour)}, node("n1", "ALLOCATED", "CLOUD"))
	p := reconcile.Decide(in)
	require.Equal(t, []reconcile.Bare{{Node: "n1", Why: "the instance is stopped (Client.UserInitiatedShutdown)"}}, p.Bare)
	require.Len(t, p.Lost, 1)
	require.True(t, p.Lost[0].Off, "it is not settled: it is still there")
	require.Empty(t, p.Terminate, "one look is not enough")

	in.Seen, in.Now, in.Nodes["n1"] = p.Seen, now.Add(time.Minute), node("n1", "IDLE", "CLOUD", "POWERING_DOWN")
	p = reconcile.Decide(in)
	require.Equal(t, "i-1", p.Terminate[0].Instance.ID)
	require.Empty(t, p.Bare)
	require.Empty(t, p.Lost, "its node is on its way down already")
}

func TestStoppedInstanceThatNobodyKnowsIsTerminated(t *testing.T) {
	for _, name := range []string{"n1", "", "elsewhere"} {
		i := inState(inCloud("i-1", name, time.Hour), cloud.Stopped)
		require.Len(t, twice(t, look([]cloud.Instance{i}, nil, node("n1", up...))).Terminate, 1, name)
	}
}

func TestStoppedInstanceHasItsGraceAndTheCap(t *testing.T) {
	var list []cloud.Instance
	for _, id := range []string{"i-1", "i-2", "i-3"} {
		list = append(list, inState(inCloud(id, "n1", time.Hour), cloud.Stopped))
	}
	list = append(list, inState(inCloud("i-4", "n1", 0), cloud.Stopped))
	in := look(list, nil, node("n1", off...))
	in.MaxTerminations, in.OnceIsEnough = 2, true
	p := reconcile.Decide(in)
	require.Len(t, p.Terminate, 2)
	require.Equal(t, 1, p.Deferred)
}

func TestStoppingInstanceWaitsForTheNextPass(t *testing.T) {
	i := inState(inCloud("i-1", "n1", time.Hour), cloud.Stopping)
	passes(t, look([]cloud.Instance{i}, []ledger.Instance{onRecord("i-1", "n1", time.Hour)}, node("n1", "ALLOCATED", "CLOUD")))
	passes(t, look([]cloud.Instance{i}, nil, node("n1", off...)))
}

func TestInstanceStoppedUnderANodeThatAnAdminHasKeepsBoth(t *testing.T) {
	i := inState(inCloud("i-1", "n1", time.Hour), cloud.Stopped)
	n := node("n1", "DOWN", "CLOUD", "DRAIN", "NOT_RESPONDING")
	n.Reason = "I look into it"
	in := look([]cloud.Instance{i}, []ledger.Instance{onRecord("i-1", "n1", time.Hour)}, n)
	passes(t, in)
	in.Nodes["n1"] = node("n1", "IDLE", "CLOUD", "DRAIN", "POWERED_DOWN") // once Slurm has powered it down it is nobody's
	require.Len(t, twice(t, in).Terminate, 1)
}

func TestInstanceTheCloudTookBackLosesItsNodeAtOnceWhateverStateItIsIn(t *testing.T) {
	for _, s := range []cloud.InstanceState{cloud.ShuttingDown, cloud.Terminated, cloud.Stopping, cloud.Stopped} {
		p := reconcile.Decide(look([]cloud.Instance{reclaimed(inCloud("i-1", "n1", time.Hour), s)},
			[]ledger.Instance{onRecord("i-1", "n1", time.Hour)}, node("n1", "ALLOCATED", "CLOUD")))
		require.Equal(t, []reconcile.Bare{{Node: "n1", Why: "the cloud took the instance back (spot interruption)", Reclaimed: true}}, p.Bare, s)
		require.True(t, p.Lost[0].Reclaimed)
		require.Equal(t, s == cloud.Stopping || s == cloud.Stopped, p.Lost[0].Off)
	}
}

func TestThousandNodesTakenBackTogetherHaveOneReason(t *testing.T) {
	in := look([]cloud.Instance{reclaimed(inCloud("i-1", "n1", time.Hour), cloud.Terminated), reclaimed(inCloud("i-2", "n2", time.Hour), cloud.Terminated)},
		[]ledger.Instance{onRecord("i-1", "n1", time.Hour), onRecord("i-2", "n2", time.Hour)}, node("n1", up...), node("n2", up...))
	p := reconcile.Decide(in)
	require.Len(t, p.Bare, 2)
	require.Equal(t, p.Bare[0].Why, p.Bare[1].Why)
}

func TestInstanceTakenBackWhileItBootsIsLostAtOnceAndItsNodeLeftToTheLaunch(t *testing.T) {
	in := look([]cloud.Instance{reclaimed(inCloud("i-1", "n1", time.Second), cloud.Stopped)},
		[]ledger.Instance{onRecord("i-1", "n1", time.Second)}, node("n1", "ALLOCATED", "CLOUD", "POWERING_UP"))
	in.Launching = map[string]bool{"n1": true}
	p := reconcile.Decide(in)
	require.Len(t, p.Lost, 1)
	require.Empty(t, p.Bare)
	require.Empty(t, p.Terminate)
}

func TestTerminationUnderWayIsSettledWhenTheCloudSaysItHasEnded(t *testing.T) {
	rec := onRecord("i-1", "n1", time.Hour)
	rec.State = ledger.Terminating
	i := inState(inCloud("i-1", "n1", time.Hour), cloud.ShuttingDown)
	i.EndedAt = now.Add(-3 * time.Second)
	p := reconcile.Decide(look([]cloud.Instance{i}, []ledger.Instance{rec}, node("n1", up...)))
	require.Equal(t, i.EndedAt, p.Lost[0].EndedAt)
	require.Empty(t, p.Bare, "what midair ends by itself is no loss of the node's")
}

func TestTerminationThatTheCloudDoesNotTakeIsOverWhenTheInstanceIsNoLongerListed(t *testing.T) {
	rec := onRecord("i-1", "n1", time.Hour)
	rec.State = ledger.Terminating
	p := twice(t, look(nil, []ledger.Instance{rec}, node("n1", up...)))
	require.Len(t, p.Lost, 1)
	require.Empty(t, p.Bare)
	rec.CreatedAt = now
	require.True(t, reconcile.Decide(look(nil, []ledger.Instance{rec}, node("n1", up...))).Empty())
}

func TestEndThatACloudsClockPutsInTheFutureOrBeforeTheBeginningIsSettledInBetween(t *testing.T) {
	for at, want := range map[time.Time]time.Time{
		now.Add(time.Hour):           now,
		now.Add(-100 * time.Hour):    now.Add(-time.Hour),
		{}:                           now,
		now.Add(-20 * time.Minute):   now.Add(-20 * time.Minute),
		now.Add(1000000 * time.Hour): now,
	} {
		i := inState(inCloud("i-1", "n1", time.Hour), cloud.Terminated)
		i.EndedAt = at
		p := reconcile.Decide(look([]cloud.Instance{i}, []ledger.Instance{onRecord("i-1", "n1", time.Hour)}, node("n1", off...)))
		require.Equal(t, want, p.Lost[0].EndedAt)
	}
}
