package planner

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/ledger"
)

// A big array over two pools: every node gets its launch and its place in one
// call, none is dropped because another has the same key.
func TestThousandOneNodeJobsOverTwoPoolsAllGetTheirNodes(t *testing.T) {
	pools := []Pool{
		{Name: "a", Provider: "east", Offerings: []cloud.Offering{offering(t, "s/z1/spot"), offering(t, "l/z1/spot")}, Entries: []int{0, 0}},
		{Name: "b", Provider: "east", Offerings: []cloud.Offering{offering(t, "s/z1/spot"), offering(t, "l/z1/spot")}, Entries: []int{0, 0}},
	}
	var r Request
	infos := map[int]JobInfo{}
	for i := range 1000 {
		n := fmt.Sprintf("%s%03d", pools[i%2].Name, i/2)
		r.Nodes = append(r.Nodes, n)
		r.Jobs = append(r.Jobs, JobNodes{JobID: i + 1, Nodes: []string{n}})
		infos[i+1] = JobInfo{JobID: i + 1, Tier: "p2"}
	}
	launches, strangers := Launches(r, infos, func(node string) (Pool, bool) { return pools[int(node[0]-'a')], true }, nil)
	require.Empty(t, strangers)
	require.Len(t, launches, 1000)
	in := Input{Now: noon, Pools: pools, MaxNodesPerCall: 500}
	for i, l := range launches {
		in.Demands = append(in.Demands, Demand{Launch: fmt.Sprint(i), JobID: l.JobID, Tier: l.Tier, Pool: l.Nodes[0].Pool, Nodes: []ledger.IntentNode{{Node: l.Nodes[0].Node, Generation: 1, Launch: fmt.Sprint(i)}}})
	}
	res := Plan(in)
	require.Empty(t, res.Refusals)
	require.Len(t, res.Calls, 2, "a call for each pool")
	served := map[string]bool{}
	for _, c := range res.Calls {
		for _, n := range c.Nodes {
			require.Equal(t, c.Pool, n.Node[:1])
			served[n.Node] = true
		}
	}
	require.Len(t, served, 1000)
}

// The key of what is remembered has type, zone and market: each alone may be out
// while its neighbours sell.
func TestAStockoutOfOneMarketOrZoneLeavesTheOthers(t *testing.T) {
	all := []string{"s/z1/spot", "s/z1/on-demand", "s/z2/spot", "l/z1/spot"}
	for _, gone := range all {
		in := Input{Now: noon, Pools: []Pool{{Name: "a", Provider: "east"}}, Memory: []ledger.MemoryEntry{out(t, "east", gone, cloud.OutOfStock, 60e9)}}
		for _, k := range all {
			in.Pools[0].Offerings = append(in.Pools[0].Offerings, offering(t, k))
		}
		tried := map[string]bool{}
		for len(tried) < len(all)-1 {
			in.Demands = []Demand{{Launch: "l", Pool: "a", Tried: tried, Nodes: []ledger.IntentNode{{Node: "n", Generation: 1, Launch: "l"}}}}
			res := Plan(in)
			require.Len(t, res.Calls, 1, "with %s out and %v tried", gone, tried)
			key := res.Calls[0].Offerings[0].Key()
			require.NotEqual(t, gone, key)
			tried[key] = true
		}
	}
}
