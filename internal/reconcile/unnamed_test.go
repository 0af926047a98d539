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

// unnamed is an instance whose create call has named its token only.
func unnamed(id string, age time.Duration) cloud.Instance {
	i := inCloud(id, "", age)
	i.Generation = 0
	return i
}

func TestInstanceOnRecordThatIsNotNamedYetIsMatchedByItsID(t *testing.T) {
	in := look([]cloud.Instance{unnamed("i-1", time.Hour)}, []ledger.Instance{onRecord("i-1", "n1", time.Hour)}, node("n1", "ALLOCATED", "CLOUD", "NOT_RESPONDING"))
	passes(t, in)
	in.Nodes["n1"] = node("n1", off...)
	require.Contains(t, twice(t, in).Terminate[0].Why, "its node n1 is powered down")
}

func TestUnnamedInstanceOfAnOpenCreateCallIsLeftAlone(t *testing.T) {
	in := look([]cloud.Instance{unnamed("i-1", time.Hour)}, nil)
	in.OpenTokens = map[string]bool{"t-i-1": true}
	passes(t, in)
}

func TestUnnamedInstanceHasItsGraceThenIsAnOrphan(t *testing.T) {
	in := look([]cloud.Instance{unnamed("i-1", time.Minute)}, nil)
	p := reconcile.Decide(in)
	require.True(t, p.Empty())
	require.Empty(t, p.Seen)
	in.Now = now.Add(10 * time.Minute)
	p = twice(t, in)
	require.Equal(t, "i-1", p.Terminate[0].Instance.ID)
	require.Contains(t, p.Terminate[0].Why, "never given a node's name")
	require.Empty(t, p.Odd)
}

// The ledger was lost while thousands of new instances were being named, which
// takes minutes: their nodes run jobs by now.
func TestInstanceThatCannotBeTakenOverAndWorksIsNotKilled(t *testing.T) {
	for name, i := range map[string]cloud.Instance{"unnamed": unnamed("i-1", time.Hour), "named for another": inCloud("i-1", "n3", time.Hour)} {
		t.Run(name, func(t *testing.T) {
			i.Addr = "10.0.0.7"
			n := node("n1", "ALLOCATED", "CLOUD")
			n.Addr = "10.0.0.7"
			in := look([]cloud.Instance{i}, nil, n, node("n3", off...))
			passes(t, in)
			p := reconcile.Decide(in)
			require.Len(t, p.Odd, 1)
			require.Contains(t, p.Odd[0].Why, "n1")
			n.State = slurm.ParseStates("IDLE+CLOUD+POWERED_DOWN")
			in.Nodes["n1"] = n
			require.Len(t, twice(t, in).Terminate, 1, "once its node is powered down it has no owner")
		})
	}
}

func TestNodesWithoutAnAddressProtectNobody(t *testing.T) {
	in := look([]cloud.Instance{unnamed("i-1", time.Hour)}, nil, node("n1", up...)) // neither has an address
	require.Len(t, twice(t, in).Terminate, 1)
}

func TestInstanceWithoutABelievableAgeHasItsGraceFromTheFirstSight(t *testing.T) {
	for name, created := range map[string]time.Time{"none": {}, "in the future": now.Add(100 * 24 * time.Hour)} {
		t.Run(name, func(t *testing.T) {
			i := inCloud("i-1", "n1", 0)
			i.CreatedAt = created
			in := look([]cloud.Instance{i}, nil, node("n1", off...))
			terminated := 0
			for k := range 6 {
				p := reconcile.Decide(in)
				terminated += len(p.Terminate)
				if in.Now.Sub(now) < in.Grace {
					require.Zero(t, terminated, "pass %d", k)
				}
				in.Seen, in.Now = p.Seen, in.Now.Add(time.Minute)
			}
			require.NotZero(t, terminated, "it is not billed for ever either")
		})
	}
}
