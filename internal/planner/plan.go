package planner

import (
	"github.com/midair-hpc/midair/internal/cloud"
)

// Plan chooses offerings for each demand: those of the first entry of its pool
// and the first market of its tier that are neither remembered as failed (for
// so many nodes, until after Now) nor tried by this launch in this round,
// cheapest first. Markets after the first wait for the tier's policy.
//
// An all-or-nothing demand is a call of its own, never split and never merged;
// so is one that stands alone, but its call may be served in part. The other
// demands are merged per pool and offerings, at most MaxNodesPerCall nodes to a
// call. A demand for which no offering is left is refused. If one part of a
// launch that fails as a whole is refused, so are its parts in other pools,
// with the same error: bought, they would only be given back.
//
// An offering whose breaker is half open is tried by one demand at a time.
//
// Calls and refusals follow the order of the demands, a merged call standing
// where its first demand stood; the order of memory does not matter. Demands
// without nodes give nothing.
func Plan(in Input) Result {
	stock := newShelves(&in)
	probing := map[Key]bool{}
	for k, v := range in.Probing {
		probing[k] = v
	}
	choices := make([]choice, len(in.Demands))
	doomed := map[string]*Refusal{} // by launch
	for i := range in.Demands {
		d := &in.Demands[i]
		if len(d.Nodes) == 0 {
			continue
		}
		c := &choices[i]
		if c.shelf = stock.of(d.Pool, d.Tier); c.shelf != nil {
			c.offerings, c.probe = c.shelf.choose(in.Now, d, probing)
		}
		if len(c.offerings) > 0 {
			if c.probe {
				probing[Key{c.shelf.pool.Provider, c.shelf.items[c.offerings[0]].offering}] = true
			}
			continue
		}
		c.refusal = &Refusal{Launch: d.Launch, Pool: d.Pool}
		c.refusal.Err, c.refusal.RetryAt = refuse(in.Now, d, c.shelf)
		if d.whole() && doomed[d.Launch] == nil {
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
		if c.refusal == nil && d.whole() {
			if r := doomed[d.Launch]; r != nil {
				c.refusal = &Refusal{Launch: d.Launch, Pool: d.Pool, Err: r.Err, RetryAt: r.RetryAt}
			}
		}
		switch {
		case c.refusal != nil:
			res.Refusals = append(res.Refusals, *c.refusal)
		case d.whole() || c.probe:
			call := c.call()
			call.AllOrNothing = d.AllOrNothing
			call.Nodes = append(call.Nodes, d.Nodes...)
			res.Calls = append(res.Calls, call)
		default:
			k := callKey{d.Pool, c.shelf.listKey(c.offerings)}
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

// whole: the demand's launch fails if any part of it cannot be served.
func (d *Demand) whole() bool { return d.AllOrNothing || d.Alone }

// choice is what becomes of one demand: offerings of a shelf, or a refusal.
type choice struct {
	shelf     *shelf
	offerings []int
	probe     bool
	refusal   *Refusal
}

func (c *choice) call() Call {
	call := Call{Provider: c.shelf.pool.Provider, Pool: c.shelf.pool.Name, Offerings: make([]cloud.Offering, len(c.offerings))}
	for n, k := range c.offerings {
		call.Offerings[n] = c.shelf.items[k].offering
	}
	return call
}

type callKey struct{ pool, offerings string }
