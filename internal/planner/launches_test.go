package planner

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/ledger"
)

// poolByPrefix puts a1 into pool a of provider east, b1 into b of west; x1 is
// in no pool.
func poolByPrefix(node string) (Pool, bool) {
	switch {
	case strings.HasPrefix(node, "a"):
		return Pool{Name: "a", Provider: "east"}, true
	case strings.HasPrefix(node, "b"):
		return Pool{Name: "b", Provider: "west"}, true
	}
	return Pool{}, false
}

func nodesOf(names ...string) []ledger.LaunchNode {
	var list []ledger.LaunchNode
	for _, n := range names {
		p, _ := poolByPrefix(n)
		list = append(list, ledger.LaunchNode{Node: n, Pool: p.Name, Provider: p.Provider})
	}
	return list
}

func TestLaunches(t *testing.T) {
	job := func(id int, names ...string) ledger.Launch {
		return ledger.Launch{JobID: id, State: ledger.Launching, Nodes: nodesOf(names...)}
	}
	loose := func(name string) ledger.Launch { return job(0, name) }
	set := func(names ...string) map[string]bool {
		m := map[string]bool{}
		for _, n := range names {
			m[n] = true
		}
		return m
	}
	for _, c := range []struct {
		name      string
		nodes     string
		jobs      []JobNodes
		live      map[string]bool
		want      []ledger.Launch
		strangers []string
	}{
		{name: "an empty request launches nothing"},
		{
			name: "one launch per job with all its nodes", nodes: "a1 a2 a3",
			jobs: []JobNodes{{7, []string{"a1", "a2"}}, {8, []string{"a3"}}},
			want: []ledger.Launch{job(7, "a1", "a2"), job(8, "a3")},
		},
		{
			name: "a job over two pools is one launch", nodes: "a1 b1",
			jobs: []JobNodes{{7, []string{"b1", "a1"}}},
			want: []ledger.Launch{job(7, "b1", "a1")},
		},
		{
			name: "a manual power_up has no jobs: one launch per node", nodes: "a2 a1",
			want: []ledger.Launch{loose("a2"), loose("a1")},
		},
		{
			name: "nodes of no job beside a job come after it", nodes: "a1 a2 a3",
			jobs: []JobNodes{{7, []string{"a2"}}},
			want: []ledger.Launch{job(7, "a2"), loose("a1"), loose("a3")},
		},
		{
			name: "a node named by two jobs goes to the first", nodes: "a1 a2",
			jobs: []JobNodes{{7, []string{"a1"}}, {8, []string{"a1", "a2"}}},
			want: []ledger.Launch{job(7, "a1"), job(8, "a2")},
		},
		{
			name: "a job whose nodes all went to others gets no launch", nodes: "a1",
			jobs: []JobNodes{{7, []string{"a1"}}, {8, []string{"a1"}}},
			want: []ledger.Launch{job(7, "a1")},
		},
		{
			name: "a job named twice is one launch", nodes: "a1 a2 a3",
			jobs: []JobNodes{{7, []string{"a1"}}, {8, []string{"a2"}}, {7, []string{"a3"}}},
			want: []ledger.Launch{job(7, "a1", "a3"), job(8, "a2")},
		},
		{
			name: "a node named twice is launched once", nodes: "a1 a1 a2 a2",
			jobs: []JobNodes{{7, []string{"a1", "a1"}}},
			want: []ledger.Launch{job(7, "a1"), loose("a2")},
		},
		{
			name: "the same request again launches nothing", nodes: "a1 a2 a3", live: set("a1", "a2", "a3"),
			jobs: []JobNodes{{7, []string{"a1", "a2"}}},
		},
		{
			name: "a job with some nodes live gets a launch of the others", nodes: "a1 a2 a3", live: set("a2"),
			jobs: []JobNodes{{7, []string{"a1", "a2", "a3"}}},
			want: []ledger.Launch{job(7, "a1", "a3")},
		},
		{
			name: "nodes that a job has beside those to be powered up are not launched", nodes: "a2",
			jobs: []JobNodes{{7, []string{"a1", "a2"}}},
			want: []ledger.Launch{job(7, "a2")},
		},
		{
			name: "nodes in no pool are strangers, as given", nodes: "x2 a1 x1 x2",
			jobs: []JobNodes{{7, []string{"a1", "x1"}}},
			want: []ledger.Launch{job(7, "a1")}, strangers: []string{"x2", "x1"},
		},
		{
			name: "a stranger that is up already is left in peace", nodes: "x1 x2", live: set("x1"),
			strangers: []string{"x2"},
		},
		{
			name: "an entry without a job id is no job", nodes: "a1 a2",
			jobs: []JobNodes{{0, []string{"a1", "a2"}}},
			want: []ledger.Launch{loose("a1"), loose("a2")},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := Request{Nodes: strings.Fields(c.nodes), Jobs: c.jobs}
			launches, strangers := Launches(r, nil, poolByPrefix, c.live)
			require.Equal(t, c.want, launches)
			require.Equal(t, c.strangers, strangers)
		})
	}
}

func TestLaunchesCarryTheirJob(t *testing.T) {
	infos := map[int]JobInfo{7: {JobID: 7, QOS: "p2", Tier: "spot", User: "ada", Account: "ml", Partition: "gpu", Round: 3}}
	r := Request{Nodes: []string{"a1", "a2", "a3"}, Jobs: []JobNodes{{7, []string{"a1"}}, {8, []string{"a2"}}}}
	launches, _ := Launches(r, infos, poolByPrefix, nil)
	require.Equal(t, []ledger.Launch{
		{JobID: 7, QOS: "p2", Tier: "spot", User: "ada", Account: "ml", Partition: "gpu", Round: 3, State: ledger.Launching, Nodes: nodesOf("a1")},
		{JobID: 8, State: ledger.Launching, Nodes: nodesOf("a2")}, // gone from the queue meanwhile
		{State: ledger.Launching, Nodes: nodesOf("a3")},
	}, launches)
}

func TestLaunchesDoNotTouchTheRequest(t *testing.T) {
	r := Request{Nodes: []string{"a2", "x1", "a1"}, Jobs: []JobNodes{{7, []string{"a2", "a1"}}}}
	was := Request{Nodes: slices.Clone(r.Nodes), Jobs: []JobNodes{{7, slices.Clone(r.Jobs[0].Nodes)}}}
	one, s1 := Launches(r, nil, poolByPrefix, nil)
	two, s2 := Launches(r, nil, poolByPrefix, nil)
	require.Equal(t, was, r)
	require.Equal(t, one, two)
	require.Equal(t, s1, s2)
}
