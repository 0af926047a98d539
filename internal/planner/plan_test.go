package planner

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/ledger"
)

var noon = time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)

func offering(t testing.TB, key string) cloud.Offering {
	t.Helper()
	o, err := cloud.ParseOffering(key)
	require.NoError(t, err)
	return o
}

func pool(t testing.TB, name, provider string, keys ...string) Pool {
	p := Pool{Name: name, Provider: provider}
	for _, k := range keys {
		p.Offerings = append(p.Offerings, offering(t, k))
	}
	return p
}

func out(t testing.TB, provider, key string, class cloud.Class, d time.Duration) ledger.MemoryEntry {
	return ledger.MemoryEntry{Provider: provider, Offering: offering(t, key), Class: class, Until: noon.Add(d)}
}

// single and job are demands for nodes such as "n1 n2" of the launch.
func single(launch, pool, nodes string) Demand {
	d := Demand{Launch: launch, Pool: pool}
	for _, n := range strings.Fields(nodes) {
		d.Nodes = append(d.Nodes, ledger.IntentNode{Node: n, Generation: 1, Launch: launch})
	}
	return d
}

func job(launch, pool, nodes string) Demand {
	d := single(launch, pool, nodes)
	d.AllOrNothing = true
	return d
}

func (d Demand) afterTrying(keys ...string) Demand {
	d.Tried = map[string]bool{}
	for _, k := range keys {
		d.Tried[k] = true
	}
	return d
}

// show writes a result in short, "pool offering launch/node …", an
// all-or-nothing call with "all" in front.
func show(r Result) (calls, refusals []string) {
	for _, c := range r.Calls {
		s := fmt.Sprintf("%s:%s %s", c.Provider, c.Pool, keysOf(c.Offerings))
		if c.AllOrNothing {
			s = "all " + s
		}
		for _, n := range c.Nodes {
			s += " " + n.Launch + "/" + n.Node
		}
		calls = append(calls, s)
	}
	for _, f := range r.Refusals {
		refusals = append(refusals, f.Launch+" "+f.Pool+" "+string(f.Err.Class))
	}
	return calls, refusals
}

const (
	s1 = "s/za/spot"
	s2 = "s/zb/spot"
	s3 = "s/za/on-demand"
)

func TestPlan(t *testing.T) {
	p := pool(t, "p", "east", s1, s2, s3)
	for _, c := range []struct {
		name     string
		pools    []Pool
		memory   []ledger.MemoryEntry
		demands  []Demand
		max      int
		calls    []string
		refusals []string
	}{
		{name: "no demands, no calls"},
		{
			name:    "the first offering in order of preference is chosen",
			demands: []Demand{job("L1", "p", "n1 n2")},
			calls:   []string{"all east:p s/za/spot L1/n1 L1/n2"},
		},
		{
			name:    "an offering that is remembered is passed over",
			memory:  []ledger.MemoryEntry{out(t, "east", s1, cloud.OutOfStock, time.Minute)},
			demands: []Demand{single("L1", "p", "n1")},
			calls:   []string{"east:p s/zb/spot L1/n1"},
		},
		{
			name:    "memory ends at Until sharp",
			memory:  []ledger.MemoryEntry{out(t, "east", s1, cloud.OutOfStock, 0), out(t, "east", s2, cloud.Quota, -time.Hour)},
			demands: []Demand{single("L1", "p", "n1")},
			calls:   []string{"east:p s/za/spot L1/n1"},
		},
		{
			name:    "memory of another provider does not count",
			memory:  []ledger.MemoryEntry{out(t, "west", s1, cloud.OutOfStock, time.Minute)},
			demands: []Demand{single("L1", "p", "n1")},
			calls:   []string{"east:p s/za/spot L1/n1"},
		},
		{
			name:    "memory of one provider counts for all its pools",
			pools:   []Pool{p, pool(t, "q", "east", s1, s3)},
			memory:  []ledger.MemoryEntry{out(t, "east", s1, cloud.OutOfStock, time.Minute)},
			demands: []Demand{single("L1", "p", "n1"), single("L2", "q", "n2")},
			calls:   []string{"east:p s/zb/spot L1/n1", "east:q s/za/on-demand L2/n2"},
		},
		{
			name:    "an offering that the launch has tried is passed over, for this launch only",
			demands: []Demand{single("L1", "p", "n1").afterTrying(s1), single("L2", "p", "n2")},
			calls:   []string{"east:p s/zb/spot L1/n1", "east:p s/za/spot L2/n2"},
		},
		{
			name:    "one bad offering does not stop the others",
			memory:  []ledger.MemoryEntry{out(t, "east", s2, cloud.SpecMismatch, time.Hour)},
			demands: []Demand{single("L1", "p", "n1").afterTrying(s1)},
			calls:   []string{"east:p s/za/on-demand L1/n1"},
		},
		{
			name:    "single nodes of one pool and offering are merged into one call",
			demands: []Demand{single("L1", "p", "n1"), single("L2", "p", "n2"), single("L3", "p", "n3")},
			calls:   []string{"east:p s/za/spot L1/n1 L2/n2 L3/n3"},
		},
		{
			name:    "single nodes of two pools are not merged, even for the same offering",
			pools:   []Pool{p, pool(t, "q", "east", s1)},
			demands: []Demand{single("L1", "p", "n1"), single("L2", "q", "n2"), single("L3", "p", "n3")},
			calls:   []string{"east:p s/za/spot L1/n1 L3/n3", "east:q s/za/spot L2/n2"},
		},
		{
			name:    "the same offering of two providers is two calls",
			pools:   []Pool{p, pool(t, "q", "west", s1)},
			demands: []Demand{single("L1", "p", "n1"), single("L2", "q", "n2")},
			calls:   []string{"east:p s/za/spot L1/n1", "west:q s/za/spot L2/n2"},
		},
		{
			name:    "all-or-nothing demands are not merged, neither with each other nor with single nodes",
			demands: []Demand{job("L1", "p", "n1 n2"), single("L2", "p", "n3"), job("L3", "p", "n4 n5"), single("L4", "p", "n6")},
			calls: []string{
				"all east:p s/za/spot L1/n1 L1/n2", "east:p s/za/spot L2/n3 L4/n6", "all east:p s/za/spot L3/n4 L3/n5",
			},
		},
		{
			name: "an all-or-nothing part of one node stays all-or-nothing",
			// What is left of a job of several nodes, or its part in one pool.
			demands: []Demand{job("L1", "p", "n1"), single("L2", "p", "n2")},
			calls:   []string{"all east:p s/za/spot L1/n1", "east:p s/za/spot L2/n2"},
		},
		{
			name: "MaxNodesPerCall splits single nodes, never a job", max: 2,
			demands: []Demand{single("L1", "p", "n1"), job("L2", "p", "n2 n3 n4"), single("L3", "p", "n5"), single("L4", "p", "n6"), single("L5", "p", "n7 n8")},
			calls: []string{
				"east:p s/za/spot L1/n1 L3/n5", "all east:p s/za/spot L2/n2 L2/n3 L2/n4",
				"east:p s/za/spot L4/n6 L5/n7", "east:p s/za/spot L5/n8",
			},
		},
		{
			name:    "calls follow the order of the demands",
			pools:   []Pool{p, pool(t, "q", "west", s2)},
			demands: []Demand{single("L1", "q", "n1"), single("L2", "p", "n2").afterTrying(s1), single("L3", "p", "n3"), single("L4", "q", "n4")},
			calls:   []string{"west:q s/zb/spot L1/n1 L4/n4", "east:p s/zb/spot L2/n2", "east:p s/za/spot L3/n3"},
		},
		{
			name:    "a job over two pools is one call per pool",
			pools:   []Pool{p, pool(t, "q", "west", s2)},
			demands: []Demand{job("L1", "p", "n1"), job("L1", "q", "n2")},
			calls:   []string{"all east:p s/za/spot L1/n1", "all west:q s/zb/spot L1/n2"},
		},
		{
			name:     "a job over two pools of which one is refused is refused in both",
			pools:    []Pool{p, pool(t, "q", "west", s2)},
			memory:   []ledger.MemoryEntry{out(t, "west", s2, cloud.Quota, time.Minute)},
			demands:  []Demand{job("L1", "p", "n1"), job("L1", "q", "n2"), job("L2", "p", "n3")},
			calls:    []string{"all east:p s/za/spot L2/n3"},
			refusals: []string{"L1 p quota", "L1 q quota"},
		},
		{
			name:     "no offering left is a refusal of that demand only",
			pools:    []Pool{p, pool(t, "q", "west", s2)},
			memory:   []ledger.MemoryEntry{out(t, "west", s2, cloud.OutOfStock, time.Minute)},
			demands:  []Demand{single("L1", "q", "n1"), single("L2", "p", "n2"), job("L3", "q", "n3 n4")},
			calls:    []string{"east:p s/za/spot L2/n2"},
			refusals: []string{"L1 q out-of-stock", "L3 q out-of-stock"},
		},
		{
			name:     "a pool that is not configured is refused",
			demands:  []Demand{single("L1", "gone", "n1")},
			refusals: []string{"L1 gone config"},
		},
		{
			name:     "a pool that sells nothing is refused",
			pools:    []Pool{{Name: "bare", Provider: "east"}},
			demands:  []Demand{single("L1", "bare", "n1")},
			refusals: []string{"L1 bare config"},
		},
		{
			name:    "a demand without nodes asks for nothing",
			demands: []Demand{single("L1", "p", ""), job("L2", "gone", "")},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.pools == nil {
				c.pools = []Pool{p}
			}
			calls, refusals := show(Plan(Input{Now: noon, Pools: c.pools, Memory: c.memory, Demands: c.demands, MaxNodesPerCall: c.max}))
			require.Equal(t, c.calls, calls)
			require.Equal(t, c.refusals, refusals)
		})
	}
}

func TestPlanDoesNotShareNodesWithItsInput(t *testing.T) {
	in := Input{Now: noon, Pools: []Pool{pool(t, "p", "east", s1)}, Demands: []Demand{job("L1", "p", "n1 n2"), single("L2", "p", "n3")}}
	res := Plan(in)
	for i := range res.Calls {
		res.Calls[i].Nodes[0].Node = "changed"
	}
	require.Equal(t, "n1", in.Demands[0].Nodes[0].Node)
	require.Equal(t, "n3", in.Demands[1].Nodes[0].Node)
}

func keysOf(offerings []cloud.Offering) string {
	keys := make([]string, len(offerings))
	for i, o := range offerings {
		keys[i] = o.Key()
	}
	return strings.Join(keys, "+")
}
