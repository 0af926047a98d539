package reconcile_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/ledger"
	"github.com/midair-hpc/midair/internal/reconcile"
	"github.com/midair-hpc/midair/internal/slurm"
)

// somebodys are states of nodes that somebody else has, with their reasons.
var somebodys = map[string]string{
	"IDLE+CLOUD+DRAIN":                      "new disk",
	"IDLE+CLOUD+DRAIN+NOT_RESPONDING":       "new disk",
	"ALLOCATED+CLOUD+DRAIN+NOT_RESPONDING":  "new disk",
	"IDLE+CLOUD+DRAIN+POWERING_UP":          "new disk",
	"DOWN+CLOUD":                            "bad cable",
	"DOWN+CLOUD+NOT_RESPONDING":             "bad cable",
	"DOWN+CLOUD+DRAIN+NOT_RESPONDING":       "Not responding",
	"IDLE+CLOUD+MAINTENANCE+NOT_RESPONDING": "",
	"DOWN+CLOUD+MAINTENANCE+NOT_RESPONDING": "Not responding",
	"IDLE+CLOUD+RESERVED+NOT_RESPONDING":    "",
	"IDLE+CLOUD+FAIL+NOT_RESPONDING":        "fans",
}

// What the cloud has for such a node makes no difference to it.
func TestNodesThatSomebodyElseHasAreLeftAloneAndKeepTheirInstances(t *testing.T) {
	here := inCloud("i-1", "n1", time.Hour)
	clouds := map[string][]cloud.Instance{
		"running": {here}, "stopping": {inState(here, cloud.Stopping)}, "stopped": {inState(here, cloud.Stopped)},
		"reclaimed and stopped": {reclaimed(here, cloud.Stopped)}, "ended": {inState(here, cloud.Terminated)}, "absent": {}, "unnamed": {unnamed("i-1", time.Hour)},
	}
	for state, reason := range somebodys {
		for what, listed := range clouds {
			for _, record := range [][]ledger.Instance{nil, {onRecord("i-1", "n1", time.Hour)}} {
				if record == nil && what != "running" && what != "absent" {
					continue
				}
				n := slurm.Node{Name: "n1", State: slurm.ParseStates(state), Reason: reason}
				in := look(listed, record, n)
				for range 4 {
					p := reconcile.Decide(in)
					require.Empty(t, p.Bare, "%s %s", state, what)
					require.Empty(t, p.Resume, "%s %s", state, what)
					require.Empty(t, p.Terminate, "%s %s", state, what)
					in.Seen, in.Now, in.ListedAt = p.Seen, in.Now.Add(10*time.Minute), in.ListedAt.Add(10*time.Minute)
				}
			}
		}
	}
}

func TestDownNodeOfAMaintenanceOrADrainIsNotReturned(t *testing.T) {
	for state, returned := range map[string]bool{
		"DOWN+CLOUD+POWERED_DOWN": true, "DOWN+CLOUD+POWERED_DOWN+RESERVED": true,
		"DOWN+CLOUD+POWERED_DOWN+MAINTENANCE": false, "DOWN+CLOUD+POWERED_DOWN+DRAIN": false, "DOWN$": false,
	} {
		in := look(nil, nil, slurm.Node{Name: "n1", State: slurm.ParseStates(state), Reason: "ResumeTimeout reached"})
		in.OnceIsEnough = true
		require.Equal(t, returned, len(reconcile.Decide(in).Resume) == 1, state)
	}
}

func TestJobInAReservationIsRequeuedLikeAnyOtherWhenItsInstanceIsTakenBack(t *testing.T) {
	gone := reclaimed(inCloud("i-1", "n1", time.Hour), cloud.Terminated)
	p := reconcile.Decide(look([]cloud.Instance{gone}, []ledger.Instance{onRecord("i-1", "n1", time.Hour)},
		slurm.Node{Name: "n1", State: slurm.ParseStates("ALLOCATED+CLOUD+RESERVED")}))
	require.Len(t, p.Bare, 1)
}

// A matcher of exact sets has left nodes down for ever: Slurm 22.05 shows a
// node that missed ResumeTimeout with NOT_RESPONDING, 23.02.5 without, and each
// version has flags of its own.
func TestNodeDownForSlurmsOwnReasonsComesBackWhateverFlagsTheVersionAddsOrDrops(t *testing.T) {
	extra := []string{"NOT_RESPONDING", "NO_RESPOND", "DYNAMIC_NORM", "PLANNED", "RESERVED", "INVALID_REG", "COMPLETING", "POWER_DOWN", "A_FLAG_OF_2031"}
	for set := range 1 << len(extra) {
		flags := []string{"DOWN", "CLOUD", "POWERED_DOWN"}
		for k, f := range extra {
			if set&(1<<k) != 0 {
				flags = append(flags, f)
			}
		}
		n := node("n1", flags...)
		n.Reason = "ResumeTimeout reached"
		in := look(nil, nil, n)
		in.OnceIsEnough = true
		require.Equal(t, []string{"n1"}, reconcile.Decide(in).Resume, strings.Join(flags, "+"))
	}
}
