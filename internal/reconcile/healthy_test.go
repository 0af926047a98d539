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

// passes makes five passes, ten minutes apart, of which none may do anything.
func passes(t *testing.T, in reconcile.Input) {
	t.Helper()
	for range 5 {
		p := reconcile.Decide(in)
		require.True(t, p.Empty(), "%+v", p)
		in.Seen, in.Now, in.ListedAt = p.Seen, in.Now.Add(10*time.Minute), in.ListedAt.Add(10*time.Minute)
	}
}

// A node that has a job and an instance is left alone whatever other flags it
// has: replacing running nodes on a state alone has cost others their jobs.
func TestNoFlagCostsANodeWithAJobItsInstance(t *testing.T) {
	flags := []string{"POWER_DOWN", "POWERING_DOWN", "POWERED_DOWN", "POWERING_UP", "POWER_UP", "NOT_RESPONDING", "DRAIN", "REBOOT_ISSUED", "REBOOT_REQUESTED", "COMPLETING", "FAIL", "MAINTENANCE", "A_FLAG_OF_2031"}
	for set := range 1 << len(flags) {
		for _, base := range []string{"ALLOCATED", "MIXED"} {
			n := node("n1", base, "CLOUD")
			for k, f := range flags {
				if set&(1<<k) != 0 {
					n.State[f] = true
				}
			}
			in := look([]cloud.Instance{inCloud("i-1", "n1", time.Hour)}, []ledger.Instance{onRecord("i-1", "n1", time.Hour)}, n)
			in.OnceIsEnough = true
			p := reconcile.Decide(in)
			require.True(t, p.Empty(), "%s: %+v", n.State, p)
			in.Instances = nil
			p = reconcile.Decide(in)
			require.Empty(t, p.Terminate, "%s, the ledger is lost", n.State)
			require.Empty(t, p.Bare, "%s, the ledger is lost", n.State)
		}
	}
}

func TestNodeToBePoweredDownAfterItsJobIsAdopted(t *testing.T) {
	p := reconcile.Decide(look([]cloud.Instance{inCloud("i-1", "n1", time.Hour)}, nil, node("n1", "ALLOCATED", "CLOUD", "POWER_DOWN", "DRAIN")))
	require.Len(t, p.Adopt, 1)
}

// Between the allocation of a powered-down node and the power-up an instance of
// an earlier generation may still be listed.
func TestOldInstanceOfANodeAboutToBePoweredUpWaitsForTheNextPass(t *testing.T) {
	passes(t, look([]cloud.Instance{inCloud("i-1", "n1", time.Hour)}, nil, node("n1", "ALLOCATED", "CLOUD", "POWERED_DOWN")))
}

func TestNodeThatRebootsKeepsItsInstance(t *testing.T) {
	for _, flags := range [][]string{
		{"DOWN", "CLOUD", "REBOOT_ISSUED", "NOT_RESPONDING"}, {"IDLE", "CLOUD", "REBOOT_REQUESTED", "DRAIN"}, {"ALLOCATED", "CLOUD", "NOT_RESPONDING"},
	} {
		n := node("n1", flags...)
		n.Reason = "reboot issued"
		passes(t, look([]cloud.Instance{inCloud("i-1", "n1", time.Hour)}, []ledger.Instance{onRecord("i-1", "n1", time.Hour)}, n))
	}
}

// Slurm shows POWERING_UP a moment after the resume program has been called.
func TestPassBetweenCreateAndPoweringUpKillsNothing(t *testing.T) {
	in := look([]cloud.Instance{inCloud("i-1", "n1", 0)}, []ledger.Instance{onRecord("i-1", "n1", 0)}, node("n1", off...))
	in.Launching = map[string]bool{"n1": true}
	in.Now = now.Add(-time.Second) // the cloud's clock is ahead of ours
	passes(t, in)
}

func TestInstanceThatBootsIsNotLostHoweverLongTheListingLags(t *testing.T) {
	in := look(nil, []ledger.Instance{onRecord("i-1", "n1", time.Hour)}, node("n1", "ALLOCATED", "CLOUD", "POWERING_UP"))
	in.Launching = map[string]bool{"n1": true}
	passes(t, in)
}

func TestInstanceThatEndsWhileItBootsIsLostAtOnceAndItsNodeLeftToTheLaunch(t *testing.T) {
	gone := inCloud("i-1", "n1", time.Minute)
	gone.State = cloud.ShuttingDown
	in := look([]cloud.Instance{gone}, []ledger.Instance{onRecord("i-1", "n1", time.Minute)}, node("n1", "ALLOCATED", "CLOUD", "POWERING_UP"))
	in.Launching = map[string]bool{"n1": true}
	p := reconcile.Decide(in)
	require.Len(t, p.Lost, 1)
	require.Contains(t, p.Lost[0].Why, "shutting-down")
	require.Empty(t, p.Bare)
}

// The address of a new instance may come minutes after it: nothing is matched
// by address.
func TestInstanceWithoutAnAddressIsAnInstance(t *testing.T) {
	i := inCloud("i-1", "n1", time.Hour)
	i.Addr, i.State = "", cloud.Pending
	passes(t, look([]cloud.Instance{i}, []ledger.Instance{onRecord("i-1", "n1", time.Hour)}, node("n1", "ALLOCATED", "CLOUD", "POWERING_UP")))
}

func TestTerminationThatTheCloudForgotIsFoundAgain(t *testing.T) {
	in := look([]cloud.Instance{inCloud("i-1", "n1", time.Hour)}, nil, node("n1", off...)) // ended in the ledger, so not among its live ones
	require.Equal(t, "i-1", twice(t, in).Terminate[0].Instance.ID)
	rec := onRecord("i-1", "n1", time.Hour)
	rec.State = ledger.Terminating
	in.Instances = []ledger.Instance{rec}
	passes(t, in) // the controller repeats the call by itself
}

func TestOldInstanceThatIsSlowToEndDoesNotTouchTheNew(t *testing.T) {
	for name, state := range map[string]cloud.InstanceState{"still running": cloud.Running, "shutting down": cloud.ShuttingDown} {
		t.Run(name, func(t *testing.T) {
			older, newer := inCloud("i-1", "n1", time.Hour), inCloud("i-2", "n1", 10*time.Minute)
			older.State, newer.Generation = state, 2
			record := []ledger.Instance{onRecord("i-1", "n1", time.Hour), onRecord("i-2", "n1", 10*time.Minute)}
			record[0].State = ledger.Terminating
			settled := reconcile.Decide(look([]cloud.Instance{older, newer}, record, node("n1", "ALLOCATED", "CLOUD")))
			require.Empty(t, settled.Terminate)
			require.Empty(t, settled.Bare)
			if state == cloud.ShuttingDown {
				require.Equal(t, "i-1", settled.Lost[0].Instance.ID, "what is on its way is settled when the cloud says so")
			} else {
				require.Empty(t, settled.Lost)
			}
			in := look([]cloud.Instance{older, newer}, record[1:], node("n1", "ALLOCATED", "CLOUD")) // the ledger took i-1 for ended
			if state == cloud.ShuttingDown {
				passes(t, in)
				return
			}
			p := twice(t, in)
			require.Len(t, p.Terminate, 1)
			require.Equal(t, "i-1", p.Terminate[0].Instance.ID)
			require.Empty(t, p.Bare)
			require.Empty(t, p.Lost)
		})
	}
}

func TestOddItemsAreReportedAndTheRestIsDone(t *testing.T) {
	nameless, untagged, strange := inCloud("", "n1", time.Hour), inCloud("i-2", "", time.Hour), inCloud("i-3", "n3", time.Hour)
	strange.State = "hibernated"
	untagged.Token = ""
	in := look([]cloud.Instance{nameless, untagged, strange, {}, inCloud("i-4", "n4", time.Hour), inCloud("i-4", "n4", time.Hour)},
		[]ledger.Instance{onRecord("i-3", "n3", time.Hour)},
		node("n1", off...), node("n3", "ALLOCATED", "CLOUD", "NOT_RESPONDING"), node("n4", off...))
	p := twice(t, in)
	require.Len(t, p.Terminate, 1)
	require.Equal(t, "i-4", p.Terminate[0].Instance.ID)
	require.Empty(t, p.Lost)
	require.Empty(t, p.Bare)
	why := map[string]string{}
	for _, o := range p.Odd {
		why[o.Instance.ID] = o.Why
	}
	require.Equal(t, map[string]string{"": "it has no id", "i-2": "it carries the cluster's tag, no node's and no create call's", "i-3": `its state "hibernated" is not known`}, why)
}

func TestInstanceListedTwiceIsAdoptedOnce(t *testing.T) {
	i := inCloud("i-1", "n1", time.Hour)
	require.Len(t, reconcile.Decide(look([]cloud.Instance{i, i}, nil, node("n1", up...))).Adopt, 1)
}

func TestNodeThatSomebodySetDownKeepsStateAndReason(t *testing.T) {
	n := node("n1", "DOWN", "CLOUD")
	n.Reason = "bad cable"
	passes(t, look(nil, nil, n))
	gone := inCloud("i-1", "n1", time.Hour)
	gone.State = cloud.Terminated
	p := reconcile.Decide(look([]cloud.Instance{gone}, []ledger.Instance{onRecord("i-1", "n1", time.Hour)}, n))
	require.Len(t, p.Lost, 1)
	require.Empty(t, p.Bare)
}

func TestReasonsThatAreSlurmsOwnOrMidairs(t *testing.T) {
	for reason, ours := range map[string]bool{
		"": true, "midair: quota: full": true, "ResumeTimeout reached": true, "Not responding": true, "Node unexpectedly rebooted": true,
		"bad cable": false, "midair is slow": false, "Low RealMemory": false, "Kill task failed": false,
	} {
		require.Equal(t, ours, reconcile.Ours(reason), reason)
	}
}

// Before 23.02 a powered-down cloud node may be hidden from everybody.
func TestHiddenNodeIsAPoweredDownOne(t *testing.T) {
	in := look([]cloud.Instance{inCloud("i-1", "n1", time.Hour)}, []ledger.Instance{onRecord("i-1", "n1", time.Hour)})
	in.Nodes = map[string]slurm.Node{}
	require.Len(t, twice(t, in).Terminate, 1)
}
