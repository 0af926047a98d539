package planner

import (
	"time"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/ledger"
)

// Plan chooses an offering for each demand: the first of its pool, in order of
// preference, that is neither remembered as failed for the pool's provider
// (Until after Now) nor tried by this launch in this round.
//
// An all-or-nothing demand is a call of its own, never split and never merged.
// The other demands are merged per pool and offering, at most MaxNodesPerCall
// nodes to a call. A demand for which no offering is left is refused. If one
// all-or-nothing part of a launch is refused, so are its parts in other pools,
// with the same error: bought, they would only be given back.
//
// Calls and refusals follow the order of the demands, a merged call standing
// where its first demand stood; the order of memory does not matter. Demands
// without nodes give nothing.
func Plan(in Input) Result {
	shelves := shelvesOf(in)
	choices := make([]choice, len(in.Demands))
	doomed := map[string]*Refusal{} // by launch
	for i := range in.Demands {
		d := &in.Demands[i]
		if len(d.Nodes) == 0 {
			continue
		}
		c := &choices[i]
		s, ok := shelves[d.Pool]
		if ok {
			c.shelf = s
			c.offering, ok = s.first(d.Tried)
		}
		if ok {
			continue
		}
		c.refusal = &Refusal{Launch: d.Launch, Pool: d.Pool}
		c.refusal.Err, c.refusal.RetryAt = refuse(in.Now, d, s)
		if d.AllOrNothing && doomed[d.Launch] == nil {
			doomed[d.Launch] = c.refusal
		}
	}

	var res Result
	open := map[callKey]int{} // index of the call that still has room
	for i := range in.Demands {
		d, c := &in.Demands[i], &choices[i]
		if len(d.Nodes) == 0 {
			continue
		}
		if c.refusal == nil && d.AllOrNothing {
			if r := doomed[d.Launch]; r != nil {
				c.refusal = &Refusal{Launch: d.Launch, Pool: d.Pool, Err: r.Err, RetryAt: r.RetryAt}
			}
		}
		switch {
		case c.refusal != nil:
			res.Refusals = append(res.Refusals, *c.refusal)
		case d.AllOrNothing:
			call := c.call()
			call.AllOrNothing = true
			call.Nodes = append(call.Nodes, d.Nodes...)
			res.Calls = append(res.Calls, call)
		default:
			k := callKey{c.shelf, c.offering}
			for _, n := range d.Nodes {
				at, ok := open[k]
				if !ok || in.MaxNodesPerCall > 0 && len(res.Calls[at].Nodes) >= in.MaxNodesPerCall {
					at = len(res.Calls)
					open[k] = at
					res.Calls = append(res.Calls, c.call())
				}
				res.Calls[at].Nodes = append(res.Calls[at].Nodes, n)
			}
		}
	}
	return res
}

// choice is what becomes of one demand: an offering of a shelf, or a refusal.
type choice struct {
	shelf    *shelf
	offering int
	refusal  *Refusal
}

func (c *choice) call() Call {
	p := c.shelf.pool
	return Call{Provider: p.Provider, Pool: p.Name, Offering: p.Offerings[c.offering]}
}

type callKey struct {
	shelf    *shelf
	offering int
}

// shelf is a pool with what is remembered of its offerings.
type shelf struct {
	pool *Pool
	keys []string              // of its offerings, in their order
	out  []*ledger.MemoryEntry // nil where the offering is not passed over
	free []int                 // indices of those that are not
}

func shelvesOf(in Input) map[string]*shelf {
	type key struct {
		provider string
		offering cloud.Offering
	}
	memory := make(map[key]*ledger.MemoryEntry, len(in.Memory))
	for i := range in.Memory {
		m := &in.Memory[i]
		k := key{m.Provider, m.Offering}
		if m.Until.After(in.Now) && (memory[k] == nil || later(m, memory[k])) {
			memory[k] = m
		}
	}
	shelves := make(map[string]*shelf, len(in.Pools))
	for i := range in.Pools {
		p := &in.Pools[i]
		if shelves[p.Name] != nil {
			continue
		}
		s := &shelf{pool: p}
		for k, o := range p.Offerings {
			m := memory[key{p.Provider, o}]
			s.keys, s.out = append(s.keys, o.Key()), append(s.out, m)
			if m == nil {
				s.free = append(s.free, k)
			}
		}
		shelves[p.Name] = s
	}
	return shelves
}

// later orders two entries of one offering, whatever order they came in.
func later(a, b *ledger.MemoryEntry) bool {
	if !a.Until.Equal(b.Until) {
		return a.Until.After(b.Until)
	}
	return a.Class < b.Class
}

// first gives the best offering that is not passed over and not tried.
func (s *shelf) first(tried map[string]bool) (int, bool) {
	for _, k := range s.free {
		if !tried[s.keys[k]] {
			return k, true
		}
	}
	return 0, false
}

// passedOver is why one offering does not serve a demand.
type passedOver struct {
	key   string
	class cloud.Class
	until time.Time // zero: not remembered, tried in this round only
}

func (s *shelf) reasons() []passedOver {
	rs := make([]passedOver, 0, len(s.keys))
	for k, key := range s.keys {
		r := passedOver{key: key, class: cloud.Unknown}
		if m := s.out[k]; m != nil {
			r.class, r.until = m.Class, m.Until
		}
		rs = append(rs, r)
	}
	return rs
}
