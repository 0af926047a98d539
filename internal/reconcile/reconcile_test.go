package reconcile_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/ledger"
	"github.com/midair-hpc/midair/internal/reconcile"
	"github.com/midair-hpc/midair/internal/slurm"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func node(name string, flags ...string) slurm.Node {
	s := slurm.StateSet{}
	for _, f := range flags {
		s[f] = true
	}
	return slurm.Node{Name: name, State: s}
}

func inCloud(id, node string, age time.Duration) cloud.Instance {
	return cloud.Instance{ID: id, Node: node, Generation: 1, Token: "t-" + id, State: cloud.Running, CreatedAt: now.Add(-age)}
}

func onRecord(id, node string, age time.Duration) ledger.Instance {
	return ledger.Instance{Provider: "east", ID: id, Node: node, Generation: 1, State: ledger.Live, CreatedAt: now.Add(-age)}
}

// look is an input with one pool of n1…n4 on provider east.
func look(listed []cloud.Instance, recorded []ledger.Instance, nodes ...slurm.Node) reconcile.Input {
	in := reconcile.Input{
		Now: now, ListedAt: now, Grace: 2 * time.Minute, MaxTerminations: 10,
		Listed: map[string][]cloud.Instance{"east": listed}, Instances: recorded,
		Nodes: map[string]slurm.Node{}, Pools: map[string]string{"n1": "east", "n2": "east", "n3": "east", "n4": "east"},
	}
	for _, n := range nodes {
		in.Nodes[n.Name] = n
	}
	return in
}

// twice makes the same finding in two passes and gives the second's plan; the
// first must do nothing.
func twice(t *testing.T, in reconcile.Input) reconcile.Plan {
	t.Helper()
	first := reconcile.Decide(in)
	require.True(t, first.Empty(), "one look is not enough: %+v", first)
	in.Seen = first.Seen
	in.Now = in.Now.Add(3 * time.Minute)
	in.ListedAt = in.Now
	return reconcile.Decide(in)
}

var (
	up  = []string{"IDLE", "CLOUD"}
	off = []string{"IDLE", "CLOUD", "POWERED_DOWN"}
)

func TestAgreementNeedsNothing(t *testing.T) {
	p := reconcile.Decide(look(
		[]cloud.Instance{inCloud("i-1", "n1", time.Hour)},
		[]ledger.Instance{onRecord("i-1", "n1", time.Hour)},
		node("n1", up...), node("n2", off...)))
	require.True(t, p.Empty(), "%+v", p)
	require.Empty(t, p.Seen)
}

func TestInstanceOfAPoweredDownNodeIsTerminatedAfterTwoLooks(t *testing.T) {
	for name, recorded := range map[string][]ledger.Instance{
		"on record":     {onRecord("i-1", "n1", time.Hour)},
		"not on record": nil,
	} {
		t.Run(name, func(t *testing.T) {
			p := twice(t, look([]cloud.Instance{inCloud("i-1", "n1", time.Hour)}, recorded, node("n1", off...)))
			require.Len(t, p.Terminate, 1)
			require.Equal(t, "i-1", p.Terminate[0].Instance.ID)
		})
	}
}

func TestInstanceInGraceIsLeftAlone(t *testing.T) {
	in := look([]cloud.Instance{inCloud("i-1", "n1", time.Minute)}, nil, node("n1", off...))
	p := reconcile.Decide(in)
	require.True(t, p.Empty())
	require.Empty(t, p.Seen, "a look within the grace does not count")
}

func TestInstanceOfAnUnansweredCreateCallIsLeftAlone(t *testing.T) {
	in := look([]cloud.Instance{inCloud("i-1", "n1", time.Hour)}, nil, node("n1", off...))
	in.OpenTokens = map[string]bool{"t-i-1": true}
	require.True(t, reconcile.Decide(in).Empty())
}

func TestInstanceInNoPoolIsTerminatedAndSaysSo(t *testing.T) {
	p := twice(t, look([]cloud.Instance{inCloud("i-1", "other", time.Hour)}, nil))
	require.Len(t, p.Terminate, 1)
	require.Contains(t, p.Terminate[0].Why, "in no pool")
}

func TestTerminationsPerPassAreCapped(t *testing.T) {
	in := look([]cloud.Instance{inCloud("i-1", "n1", time.Hour), inCloud("i-2", "n2", time.Hour), inCloud("i-3", "n3", time.Hour)}, nil,
		node("n1", off...), node("n2", off...), node("n3", off...))
	in.MaxTerminations = 2
	p := twice(t, in)
	require.Len(t, p.Terminate, 2)
	require.Equal(t, 1, p.Deferred)
}

func TestInstanceThatSlurmHasAndTheLedgerLostIsAdopted(t *testing.T) {
	for _, flags := range [][]string{up, {"ALLOCATED", "CLOUD"}, {"ALLOCATED", "CLOUD", "POWERING_UP"}} {
		p := reconcile.Decide(look([]cloud.Instance{inCloud("i-1", "n1", time.Minute)}, nil, node("n1", flags...)))
		require.Len(t, p.Adopt, 1, flags)
		require.Empty(t, p.Terminate)
		require.Empty(t, p.Bare)
	}
}

func TestOnlyTheNewestOfTwoInstancesOfANodeIsAdopted(t *testing.T) {
	older, newer := inCloud("i-1", "n1", time.Hour), inCloud("i-2", "n1", time.Hour)
	newer.Generation = 2
	in := look([]cloud.Instance{older, newer}, nil, node("n1", up...))
	p := reconcile.Decide(in)
	require.Len(t, p.Adopt, 1)
	require.Equal(t, "i-2", p.Adopt[0].Instance.ID)
	in.Instances, in.Seen = []ledger.Instance{onRecord("i-2", "n1", time.Hour)}, p.Seen
	p = reconcile.Decide(in)
	require.Len(t, p.Terminate, 1)
	require.Equal(t, "i-1", p.Terminate[0].Instance.ID)
}

func TestListingThatLagsIsNoLoss(t *testing.T) {
	p := reconcile.Decide(look(nil, []ledger.Instance{onRecord("i-1", "n1", time.Minute)}, node("n1", "ALLOCATED", "CLOUD")))
	require.True(t, p.Empty())
	require.Empty(t, p.Seen)
}

func TestInstanceThatTheCloudEndedIsSettledAtOnceAndItsNodePoweredDown(t *testing.T) {
	gone := inCloud("i-1", "n1", time.Hour)
	gone.State, gone.EndedAt, gone.StateCause = cloud.Terminated, now.Add(-time.Minute), "Server.SpotInstanceTermination"
	p := reconcile.Decide(look([]cloud.Instance{gone}, []ledger.Instance{onRecord("i-1", "n1", time.Hour)}, node("n1", "ALLOCATED", "CLOUD")))
	require.Len(t, p.Lost, 1)
	require.Equal(t, now.Add(-time.Minute), p.Lost[0].EndedAt)
	require.Len(t, p.Bare, 1)
	require.Contains(t, p.Bare[0].Why, "Server.SpotInstanceTermination")
}

func TestInstanceAbsentFromTwoListingsIsLost(t *testing.T) {
	p := twice(t, look(nil, []ledger.Instance{onRecord("i-1", "n1", time.Hour)}, node("n1", "ALLOCATED", "CLOUD", "NOT_RESPONDING")))
	require.Len(t, p.Lost, 1)
	require.Len(t, p.Bare, 1)
}

func TestNodeThatAnswersToSlurmIsNotLostHoweverLongTheListingLags(t *testing.T) {
	in := look(nil, []ledger.Instance{onRecord("i-1", "n1", time.Hour)}, node("n1", "ALLOCATED", "CLOUD"))
	for range 5 {
		p := reconcile.Decide(in)
		require.True(t, p.Empty(), "%+v", p)
		in.Seen, in.Now, in.ListedAt = p.Seen, in.Now.Add(10*time.Minute), in.ListedAt.Add(10*time.Minute)
	}
}

func TestProviderThatDoesNotAnswerProvesNothing(t *testing.T) {
	in := look(nil, []ledger.Instance{onRecord("i-1", "n1", time.Hour)}, node("n1", up...), node("n2", up...))
	in.Listed = map[string][]cloud.Instance{}
	for range 3 {
		p := reconcile.Decide(in)
		require.True(t, p.Empty())
		in.Seen = p.Seen
	}
}

func TestNodeUpWithoutAnInstanceIsPoweredDownAfterTheGrace(t *testing.T) {
	in := look(nil, nil, node("n1", "ALLOCATED", "CLOUD", "POWERING_UP"), node("n2", up...))
	first := reconcile.Decide(in)
	require.True(t, first.Empty())
	in.Seen, in.Now = first.Seen, now.Add(time.Minute)
	second := reconcile.Decide(in)
	require.True(t, second.Empty(), "seen twice, but the grace is not over")
	in.Seen, in.Now = second.Seen, now.Add(3*time.Minute)
	require.Equal(t, []reconcile.Bare{{Node: "n1", Why: "Slurm has it up, no instance carries it"}}, reconcile.Decide(in).Bare)
}

func TestNodesOfALaunchInProgressAreLeftAlone(t *testing.T) {
	in := look(nil, nil, node("n1", "ALLOCATED", "CLOUD", "POWERING_UP"))
	in.Launching = map[string]bool{"n1": true}
	p := reconcile.Decide(in)
	require.True(t, p.Empty())
	require.Empty(t, p.Seen)
}

func TestWhatAnAdminDrainedOrSetDownStays(t *testing.T) {
	drained := node("n1", "IDLE", "CLOUD", "DRAIN")
	down := node("n2", "DOWN", "CLOUD", "POWERED_DOWN")
	down.Reason = "bad cable"
	in := look(nil, nil, drained, down)
	for range 3 {
		p := reconcile.Decide(in)
		require.True(t, p.Empty(), "%+v", p)
		in.Seen, in.Now = p.Seen, in.Now.Add(10*time.Minute)
	}
}

func TestNodeThatDidNotRegisterComesBackIntoService(t *testing.T) {
	for _, reason := range []string{"", "ResumeTimeout reached", "midair: init-failed: it did not register"} {
		for _, flags := range [][]string{{"DOWN", "CLOUD", "POWERED_DOWN"}, {"DOWN", "CLOUD", "POWERED_DOWN", "NOT_RESPONDING"}} {
			n := node("n1", flags...)
			n.Reason = reason
			require.Equal(t, []string{"n1"}, twice(t, look(nil, nil, n)).Resume)
		}
	}
}

func TestDryRunShowsAtOnceWhatTwoLooksWouldDo(t *testing.T) {
	in := look([]cloud.Instance{inCloud("i-1", "n1", time.Hour)}, nil, node("n1", off...))
	in.OnceIsEnough = true
	require.Len(t, reconcile.Decide(in).Terminate, 1)
}
