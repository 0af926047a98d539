package ledger

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/cloud"
)

func TestLaunchKeepsEveryField(t *testing.T) {
	l := fresh(t)
	want := Launch{
		ID: "L1", JobID: 42, Tier: "p2", QOS: "spot", User: "ada", Account: "ml", Partition: "gpu", Round: 2,
		State: Failing, Class: cloud.OutOfStock, Message: "no p4d in us-east-1a",
		RequestedAt: noon.Add(-time.Second), RetryAt: noon.Add(time.Hour), CreatedAt: noon, EndedAt: noon.Add(time.Minute),
		Nodes: []LaunchNode{
			{Node: "n2", Generation: 7, Pool: "a", Provider: "east"},
			{Node: "n1", Generation: 1, Pool: "b", Provider: "west", InstanceID: "i-1", Addressed: true},
		},
	}
	update(t, l, func(tx *Tx) error { return tx.AddLaunches([]Launch{want}) })
	got, err := l.OpenLaunches(t.Context())
	require.NoError(t, err)
	require.Equal(t, []Launch{want}, got)
}

func TestLaunchesAreListedByAge(t *testing.T) {
	l := fresh(t)
	update(t, l, func(tx *Tx) error {
		var all []Launch
		for i, s := range []LaunchState{Launching, Ready, Failing, Failed, Released, Launching} {
			all = append(all, aLaunch(fmt.Sprint("L", i), 1+i%2, 1, noon.Add(time.Duration(-i)*time.Minute)))
			all[i].State = s
		}
		same := aLaunch("L6", 1, 0, noon) // as old as L0, recorded later
		return tx.AddLaunches(append(all, same))
	})
	ids := func(list []Launch, err error) (ids []string) {
		require.NoError(t, err)
		for _, l := range list {
			ids = append(ids, l.ID)
		}
		return ids
	}
	require.Equal(t, []string{"L5", "L2", "L0", "L6"}, ids(l.OpenLaunches(t.Context())))
	require.Equal(t, []string{"L6", "L0", "L2", "L4"}, ids(l.LaunchesOfJob(t.Context(), 1)))
	require.Empty(t, ids(l.LaunchesOfJob(t.Context(), 99)))
	require.Equal(t, []string{"L6", "L0", "L1"}, ids(l.RecentLaunches(t.Context(), 3)))
	require.Empty(t, ids(l.RecentLaunches(t.Context(), -1)))
}

func TestLaunchIDIsUsedOnce(t *testing.T) {
	l := fresh(t)
	update(t, l, func(tx *Tx) error { return tx.AddLaunches([]Launch{aLaunch("L1", 1, 2, noon)}) })
	err := l.Update(t.Context(), func(tx *Tx) error {
		return tx.AddLaunches([]Launch{aLaunch("L2", 2, 1, noon), aLaunch("L1", 1, 1, noon)})
	})
	require.ErrorIs(t, err, ErrExists)
	require.ErrorContains(t, err, "record launch L1")
	all, err := l.RecentLaunches(t.Context(), 10)
	require.NoError(t, err)
	require.Len(t, all, 1, "L2 must be rolled back")
}

func TestUnknownLaunchStateIsRefused(t *testing.T) {
	l := fresh(t)
	bad := aLaunch("L1", 1, 1, noon)
	bad.State = "flying"
	require.ErrorContains(t, l.Update(t.Context(), func(tx *Tx) error { return tx.AddLaunches([]Launch{bad}) }), "L1")
}

func TestSetLaunch(t *testing.T) {
	l := fresh(t)
	first := aLaunch("L1", 1, 1, noon)
	update(t, l, func(tx *Tx) error { return tx.AddLaunches([]Launch{first, aLaunch("L2", 1, 1, noon)}) })
	update(t, l, func(tx *Tx) error {
		return tx.SetLaunch(Launch{ID: "L1", State: Failed, Class: cloud.Quota, Message: "quota", RetryAt: noon.Add(time.Hour), EndedAt: noon.Add(time.Second)})
	})
	want := first
	want.State, want.Class, want.Message, want.RetryAt, want.EndedAt = Failed, cloud.Quota, "quota", noon.Add(time.Hour), noon.Add(time.Second)
	got, err := l.LaunchesOfJob(t.Context(), 1)
	require.NoError(t, err)
	require.Equal(t, []Launch{aLaunch("L2", 1, 1, noon), want}, got)

	err = l.Update(t.Context(), func(tx *Tx) error { return tx.SetLaunch(Launch{ID: "L9", State: Ready}) })
	require.ErrorContains(t, err, "set launch L9 to ready: it is not on record")
}

func TestSetAddressed(t *testing.T) {
	l := fresh(t)
	update(t, l, func(tx *Tx) error {
		return tx.AddLaunches([]Launch{aLaunch("L1", 1, 3, noon), aLaunch("L2", 2, 1, noon)})
	})
	update(t, l, func(tx *Tx) error { return tx.SetAddressed("L1", []string{"L1-0", "L1-2", "L2-0", "nobody"}) })
	open, err := l.OpenLaunches(t.Context())
	require.NoError(t, err)
	require.Equal(t, []bool{true, false, true, false}, []bool{
		open[0].Nodes[0].Addressed, open[0].Nodes[1].Addressed, open[0].Nodes[2].Addressed, open[1].Nodes[0].Addressed})
}

func TestFailedRoundsCountsSinceLastReady(t *testing.T) {
	l := fresh(t)
	n := 0
	const held = LaunchState("held") // failed, and not to be tried again by itself
	add := func(job int, s LaunchState, at time.Time) {
		n++
		la := aLaunch(fmt.Sprint("L", n), job, 0, at)
		la.State, la.RetryAt = s, at
		if s == held {
			la.State, la.RetryAt = Failed, time.Time{}
		}
		update(t, l, func(tx *Tx) error { return tx.AddLaunches([]Launch{la}) })
	}
	for _, step := range []struct {
		job   int
		state LaunchState
		want  int // rounds of job 1 afterwards
	}{
		{2, Failed, 0}, {1, Failed, 1}, {1, Failed, 2}, {1, Released, 2}, {1, Failing, 2}, {1, Launching, 2},
		{2, Ready, 2}, {1, Ready, 0}, {1, Failed, 1}, {0, Ready, 1}, {1, Failed, 2}, {2, held, 2}, {1, held, 0}, {1, Failed, 1},
	} {
		add(step.job, step.state, noon.Add(time.Duration(-n)*time.Hour)) // also when the clock runs backwards
		got, err := l.FailedRounds(t.Context(), 1)
		require.NoError(t, err)
		require.Equal(t, step.want, got, "after launch %d, %s of job %d", n, step.state, step.job)
	}
}

func TestGenerationsOnlyRise(t *testing.T) {
	l := fresh(t)
	launch := func(id, node string, generation int) Launch {
		la := aLaunch(id, 1, 0, noon)
		la.Nodes = []LaunchNode{{Node: node, Generation: generation}}
		return la
	}
	update(t, l, func(tx *Tx) error {
		return tx.AddLaunches([]Launch{launch("L1", "n1", 3), launch("L2", "n1", 2), launch("L3", "n2", 1)})
	})
	// A rebuilt ledger learns generations from instances too.
	update(t, l, func(tx *Tx) error {
		return tx.AddInstances([]Instance{{Provider: "east", ID: "i-1", Node: "n3", Generation: 9, State: Live}, {Provider: "east", ID: "i-2", Node: "n1", Generation: 1, State: Ended}})
	})
	got, err := l.Generations(t.Context(), []string{"n1", "n2", "n3", "n4"})
	require.NoError(t, err)
	require.Equal(t, map[string]int{"n1": 3, "n2": 1, "n3": 9, "n4": 0}, got)
}

// OpenLaunches of a burst must not cost a query per launch, nor walk through
// years of launches that ended.
func TestQueriesUseTheirIndexes(t *testing.T) {
	l := fresh(t)
	for query, index := range map[string]string{
		selectLaunches + `WHERE state IN ('launching', 'failing') ORDER BY created_at, seq`: "launches_open",
		selectLaunches + `ORDER BY created_at DESC, seq DESC LIMIT 5`:                       "launches_by_age",
		selectLaunches + `WHERE job_id = 5 ORDER BY created_at DESC, seq DESC`:              "launches_of_job",
		selectInstances + `WHERE state <> 'ended' ORDER BY created_at, seq`:                 "instances_live",
		selectInstances + `WHERE state = 'ended' AND ended_at >= 5`:                         "instances_ended",
		selectInstances + `WHERE launch = 'x'`:                                              "instances_of_launch",
		selectInstances + `WHERE node = 'x'`:                                                "instances_of_node",
		selectFailures + `WHERE job_id = 5 ORDER BY at DESC, seq DESC LIMIT 5`:              "failures_of_job",
		selectFailures + `ORDER BY at DESC, seq DESC LIMIT 5`:                               "failures_by_age",
		`SELECT token FROM intents WHERE open = 1 ORDER BY created_at, seq`:                 "intents_open",
	} {
		type step struct {
			id, parent, unused int
			detail             string
		}
		steps, err := collect(t.Context(), l.reader, func(s *step) []any { return []any{&s.id, &s.parent, &s.unused, &s.detail} }, "EXPLAIN QUERY PLAN "+query)
		require.NoError(t, err)
		require.Contains(t, steps[0].detail, "INDEX "+index, query)
	}
}
