package planner

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/ledger"
)

// randomInput makes pools of two providers that share offerings, memory of all
// ages, and demands of single nodes and of jobs over one or two pools.
func randomInput(r *rand.Rand) Input {
	in := Input{Now: noon, MaxNodesPerCall: r.IntN(6)}
	var all []cloud.Offering
	for i := range 6 {
		all = append(all, cloud.Offering{Type: fmt.Sprintf("t%d", i%3), Zone: fmt.Sprintf("z%d", i/3), Market: cloud.Markets[i%len(cloud.Markets)]})
	}
	for i := range 1 + r.IntN(5) {
		p := Pool{Name: fmt.Sprintf("p%d", i), Provider: []string{"east", "west"}[r.IntN(2)]}
		for _, k := range r.Perm(len(all))[:r.IntN(len(all))] {
			p.Offerings = append(p.Offerings, all[k])
		}
		in.Pools = append(in.Pools, p)
	}
	classes := []cloud.Class{cloud.OutOfStock, cloud.Quota, cloud.SpecMismatch}
	for range r.IntN(12) {
		in.Memory = append(in.Memory, ledger.MemoryEntry{
			Provider: []string{"east", "west"}[r.IntN(2)], Offering: all[r.IntN(len(all))],
			Class: classes[r.IntN(3)], Until: noon.Add(time.Duration(r.IntN(9)-3) * time.Minute),
		})
	}
	node := 0
	for l := range r.IntN(30) {
		launch, jobs := fmt.Sprintf("L%d", l), r.IntN(3) == 0
		parts := 1
		if jobs {
			parts += r.IntN(2)
		}
		for k := range parts {
			d := Demand{Launch: launch, JobID: l, Pool: fmt.Sprintf("p%d", (r.IntN(6)+k)%6), AllOrNothing: jobs, Tried: map[string]bool{}}
			size := r.IntN(3)
			if jobs {
				size = r.IntN(9)
			}
			for range size {
				d.Nodes = append(d.Nodes, ledger.IntentNode{Node: fmt.Sprintf("n%d", node), Generation: 1 + r.IntN(3), Launch: launch})
				node++
			}
			for _, o := range all {
				if r.IntN(4) == 0 {
					d.Tried[o.Key()] = true
				}
			}
			in.Demands = append(in.Demands, d)
		}
	}
	return in
}

func TestPlanKeepsItsPromisesForRandomDemands(t *testing.T) {
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 1))
		in := randomInput(r)
		res := Plan(in)
		checkPlan(t, seed, in, res)

		again := in
		again.Memory = nil
		for _, k := range r.Perm(len(in.Memory)) {
			again.Memory = append(again.Memory, in.Memory[k])
		}
		require.Equal(t, res, Plan(again), "seed %d: the order of memory does not matter", seed)
	}
}

func checkPlan(t *testing.T, seed uint64, in Input, res Result) {
	t.Helper()
	pools := map[string]Pool{}
	for _, p := range in.Pools {
		pools[p.Name] = p
	}
	remembered := func(provider string, o cloud.Offering) bool {
		for _, m := range in.Memory {
			if m.Provider == provider && m.Offering == o && m.Until.After(in.Now) {
				return true
			}
		}
		return false
	}
	// usable finds the offering that a demand must get, by the words of Plan's
	// docstring and without its shortcuts.
	usable := func(d Demand) (cloud.Offering, bool) {
		p := pools[d.Pool]
		for _, o := range p.Offerings {
			if !remembered(p.Provider, o) && !d.Tried[o.Key()] {
				return o, true
			}
		}
		return cloud.Offering{}, false
	}

	demandOf := map[string]int{} // node → demand
	for i, d := range in.Demands {
		for _, n := range d.Nodes {
			demandOf[n.Node] = i
		}
	}
	calls := map[int][]int{} // demand → calls, one entry per node
	for k, c := range res.Calls {
		require.NotEmpty(t, c.Nodes, "seed %d: call %d asks for nothing", seed, k)
		if !c.AllOrNothing && in.MaxNodesPerCall > 0 {
			require.LessOrEqual(t, len(c.Nodes), in.MaxNodesPerCall, "seed %d", seed)
		}
		require.Equal(t, pools[c.Pool].Provider, c.Provider, "seed %d", seed)
		for _, n := range c.Nodes {
			i := demandOf[n.Node]
			d := in.Demands[i]
			require.Equal(t, d.Pool, c.Pool, "seed %d: a call mixes pools", seed)
			require.Equal(t, d.AllOrNothing, c.AllOrNothing, "seed %d: a call mixes jobs and single nodes", seed)
			require.Contains(t, d.Nodes, n, "seed %d: a node changed on its way", seed)
			want, ok := usable(d)
			require.True(t, ok, "seed %d: a call with an offering that is out", seed)
			require.Equal(t, []cloud.Offering{want}, c.Offerings, "seed %d: not the preferred offering", seed)
			calls[i] = append(calls[i], k)
		}
	}
	refused := map[string]Refusal{}
	for _, r := range res.Refusals {
		k := r.Launch + " " + r.Pool
		refused[k] = r
		require.NotNil(t, r.Err, "seed %d", seed)
		require.LessOrEqual(t, len(r.Err.Message), maxMessage, "seed %d", seed)
		require.True(t, r.RetryAt.IsZero() || r.RetryAt.After(in.Now), "seed %d: RetryAt has passed", seed)
	}
	stuck := map[string]bool{} // launches with a part that no offering serves
	for _, d := range in.Demands {
		if _, ok := usable(d); !ok && len(d.Nodes) > 0 && d.AllOrNothing {
			stuck[d.Launch] = true
		}
	}
	wantRefusals, last := 0, -1
	for i, d := range in.Demands {
		if len(d.Nodes) == 0 {
			require.Empty(t, calls[i], "seed %d", seed)
			continue
		}
		_, ok := usable(d)
		if !ok || stuck[d.Launch] {
			wantRefusals++
			require.Contains(t, refused, d.Launch+" "+d.Pool, "seed %d: neither bought nor refused", seed)
			require.Empty(t, calls[i], "seed %d: bought and refused", seed)
			continue
		}
		require.Len(t, calls[i], len(d.Nodes), "seed %d: every node is in exactly one call", seed)
		if d.AllOrNothing {
			k := calls[i][0]
			require.Len(t, res.Calls[k].Nodes, len(d.Nodes), "seed %d: a job is merged", seed)
			require.Equal(t, d.Nodes, res.Calls[k].Nodes, "seed %d: a job is split", seed)
			require.Greater(t, k, last, "seed %d: jobs are out of order", seed)
			last = k
		}
	}
	require.Len(t, res.Refusals, wantRefusals, "seed %d", seed)
}

func TestLaunchesKeepTheirPromisesForRandomRequests(t *testing.T) {
	for seed := range uint64(1000) {
		r := rand.New(rand.NewPCG(seed, 2))
		name := func() string { return fmt.Sprintf("%c%d", "abx"[r.IntN(3)], r.IntN(20)) }
		var req Request
		for range r.IntN(40) {
			req.Nodes = append(req.Nodes, name())
		}
		for range r.IntN(8) {
			j := JobNodes{JobID: r.IntN(6)}
			for range r.IntN(8) {
				j.Nodes = append(j.Nodes, name())
			}
			req.Jobs = append(req.Jobs, j)
		}
		live := map[string]bool{}
		for range r.IntN(10) {
			live[name()] = true
		}
		launches, strangers := Launches(req, nil, poolByPrefix, live)

		got, jobs := map[string]int{}, map[int]bool{}
		for _, l := range launches {
			require.NotEmpty(t, l.Nodes, "seed %d", seed)
			require.False(t, l.JobID != 0 && jobs[l.JobID], "seed %d: job %d has two launches", seed, l.JobID)
			jobs[l.JobID] = true
			if l.JobID == 0 {
				require.Len(t, l.Nodes, 1, "seed %d", seed)
			}
			for _, n := range l.Nodes {
				got[n.Node]++
			}
		}
		for _, s := range strangers {
			got[s]++
		}
		for _, n := range req.Nodes {
			want := 1
			if live[n] {
				want = 0
			}
			require.Equal(t, want, got[n], "seed %d: %s", seed, n)
			delete(got, n)
			live[n] = true // a repetition in the request
			got[n] = 0
		}
		for n, k := range got {
			require.Zero(t, k, "seed %d: %s was not asked for", seed, n)
		}
	}
}
