package reconcile_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/ledger"
	"github.com/midair-hpc/midair/internal/reconcile"
	"github.com/midair-hpc/midair/internal/slurm"
)

// choices reads a world from bytes, so that a fuzzer can steer it. When they
// are used up it chooses the first of everything.
type choices struct{ data []byte }

func (c *choices) n(n int) int {
	if len(c.data) == 0 {
		return 0
	}
	b := int(c.data[0])
	c.data = c.data[1:]
	return b % n
}

func one[T any](c *choices, of ...T) T { return of[c.n(len(of))] }

func (c *choices) time() time.Time {
	return one(c, now.Add(-time.Hour), now.Add(-time.Minute), now, now.Add(time.Second), now.Add(1e6*time.Hour), time.Time{}, time.Unix(-1<<40, 0), now.Add(-2*time.Minute))
}

func (c *choices) instance() cloud.Instance {
	return cloud.Instance{
		ID: one(c, "i-1", "i-2", "i-3", "i-4", "i-5", "i-6", "i-7", "i-8", "", "i-\x00é"), Node: one(c, "n1", "n2", "n3", "n4", "", "n5", "n9", "n[1-3]"),
		Generation: one(c, 1, 2, 0, -1, 1<<40), Token: one(c, "t", "open", ""), Launch: one(c, "l", ""), Addr: one(c, "", "10.0.0.1", "10.0.0.2", "n1"),
		State:     one(c, cloud.Running, cloud.Pending, cloud.Stopping, cloud.Stopped, cloud.ShuttingDown, cloud.Terminated, "", "rebooting"),
		CreatedAt: c.time(), EndedAt: c.time(), Reclaimed: c.n(3) == 1, Tags: one(c, nil, map[string]string{}, map[string]string{"": ""}),
	}
}

func (c *choices) input() reconcile.Input {
	in := reconcile.Input{
		Now: now, ListedAt: now, Grace: 2 * time.Minute, MaxTerminations: one(c, 10, 1, 0, 1000), OnceIsEnough: c.n(2) == 1,
		Listed: map[string][]cloud.Instance{}, Nodes: map[string]slurm.Node{},
		Pools:     map[string]string{"n1": "east", "n2": "east", "n3": "west", "n4": "west", "n5": "nowhere"},
		Launching: map[string]bool{}, OpenTokens: map[string]bool{"open": true}, Seen: map[string]time.Time{},
	}
	for _, p := range []string{"east", "west"} {
		if c.n(5) == 4 {
			continue // it did not answer
		}
		in.Listed[p] = nil
		for range c.n(6) {
			in.Listed[p] = append(in.Listed[p], c.instance())
		}
		for range c.n(4) {
			i := c.instance()
			in.Instances = append(in.Instances, ledger.Instance{Provider: p, ID: i.ID, Node: i.Node, Generation: i.Generation, CreatedAt: i.CreatedAt,
				State: one(c, ledger.Live, ledger.Terminating)})
		}
	}
	for n := range 6 {
		name := fmt.Sprintf("n%d", n+1)
		if c.n(6) == 5 {
			continue // hidden
		}
		node := slurm.Node{Name: name, State: slurm.StateSet{"CLOUD": true}, Addr: one(c, name, "", "10.0.0.1"), Reason: one(c, "", "midair: quota: full", "bad cable", "Not responding")}
		node.State[one(c, "IDLE", "ALLOCATED", "DOWN", "MIXED", "UNKNOWN", "")] = true
		for _, f := range []string{"POWERED_DOWN", "POWERING_UP", "POWERING_DOWN", "POWER_DOWN", "DRAIN", "NOT_RESPONDING", "RESERVED", "MAINTENANCE"} {
			if c.n(4) == 1 {
				node.State[f] = true
			}
		}
		in.Nodes[name] = node
		if c.n(4) == 1 {
			in.Launching[name] = true
		}
	}
	return in
}

// holds checks what must be so of every plan.
func holds(t *testing.T, in reconcile.Input, p reconcile.Plan) {
	require.LessOrEqual(t, len(p.Terminate), in.MaxTerminations)
	record := map[string]ledger.Instance{}
	for _, r := range in.Instances {
		record[r.Provider+" "+r.ID] = r
	}
	done := map[string]bool{}
	for _, o := range p.Terminate {
		k := o.Provider + " " + o.Instance.ID
		require.False(t, done[k], "%s twice", k)
		done[k] = true
		require.NotEmpty(t, o.Instance.ID)
		require.NotEqual(t, "open", o.Instance.Token, "its create call is open")
		require.True(t, slices.ContainsFunc(in.Listed[o.Provider], func(i cloud.Instance) bool { return i.ID == o.Instance.ID }))
		r, known := record[k]
		s := in.Nodes[r.Node].State
		if known && o.Instance.Live() && r.Node != "" {
			require.False(t, s.Allocated() || s.Registered() || s.PoweringUp(), "%+v works: %+v", o, in.Nodes[r.Node])
		}
	}
	for _, a := range p.Adopt {
		k := a.Provider + " " + a.Instance.ID
		require.False(t, done[k], "%s twice", k)
		done[k] = true
		_, known := record[k]
		require.False(t, known, "adopted though on record")
		require.Equal(t, a.Provider, in.Pools[a.Instance.Node])
		require.False(t, in.Launching[a.Instance.Node])
	}
	for _, b := range p.Bare {
		require.False(t, reconcile.Theirs(in.Nodes[b.Node]), "%+v", in.Nodes[b.Node])
		require.False(t, in.Launching[b.Node])
		require.Contains(t, in.Pools, b.Node)
		require.Contains(t, in.Listed, in.Pools[b.Node])
	}
	for _, n := range p.Resume {
		require.True(t, reconcile.Ours(in.Nodes[n].Reason))
		require.False(t, in.Nodes[n].State.Drained())
	}
	for _, l := range p.Lost {
		require.Contains(t, in.Listed, l.Instance.Provider)
		require.Equal(t, l.Off, l.EndedAt.IsZero())
		require.False(t, l.EndedAt.After(in.Now), "%+v", l)
	}
}

// without leaves out what a plan says of one instance.
func without(p reconcile.Plan, id string) reconcile.Plan {
	p.Terminate = slices.DeleteFunc(slices.Clone(p.Terminate), func(o reconcile.Orphan) bool { return o.Instance.ID == id })
	p.Odd = slices.DeleteFunc(slices.Clone(p.Odd), func(o reconcile.Odd) bool { return o.Instance.ID == id })
	p.Adopt = slices.DeleteFunc(slices.Clone(p.Adopt), func(a reconcile.Adoptee) bool { return a.Instance.ID == id })
	return p
}

func try(t *testing.T, data []byte) {
	c := &choices{data}
	in := c.input()
	p := reconcile.Decide(in)
	holds(t, in, p)
	again := in
	again.Seen, again.Now, again.ListedAt = p.Seen, now.Add(5*time.Minute), now.Add(5*time.Minute)
	holds(t, again, reconcile.Decide(again))

	// One more item, however odd, changes nothing for the others.
	in.MaxTerminations = 1000
	p = reconcile.Decide(in)
	odd := c.instance()
	odd.ID, odd.Node = one(c, "i-odd", ""), one(c, "nowhere", "")
	in.Listed["east"] = slices.Insert(in.Listed["east"], c.n(len(in.Listed["east"])+1), odd)
	if _, answered := in.Listed["east"]; !answered || len(in.Listed["east"]) == 1 {
		return // it had not answered before
	}
	q := reconcile.Decide(in)
	p, q = without(p, odd.ID), without(q, odd.ID)
	p.Seen, q.Seen = nil, nil
	for _, plan := range []*reconcile.Plan{&p, &q} {
		slices.SortFunc(plan.Odd, func(a, b reconcile.Odd) int { return cmpString(fmt.Sprint(a), fmt.Sprint(b)) })
	}
	require.Equal(t, fmt.Sprintf("%+v", p), fmt.Sprintf("%+v", q))
}

func cmpString(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func TestWhateverTheListingHoldsNothingThatWorksIsTouchedAndOneOddItemChangesNothing(t *testing.T) {
	for seed := range uint64(4000) {
		r := rand.New(rand.NewPCG(seed, 7))
		data := make([]byte, r.IntN(300))
		for k := range data {
			data[k] = byte(r.UintN(256))
		}
		if !t.Run("", func(t *testing.T) { try(t, data) }) {
			t.Fatalf("seed %d", seed)
		}
	}
}

func FuzzDecide(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("a listing with three instances and a lost ledger"))
	f.Fuzz(try)
}
