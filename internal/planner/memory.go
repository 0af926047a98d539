package planner

import (
	"time"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/ledger"
)

// Remember gives what to remember of an offering that has failed with e, in
// place of old (nil: nothing so far). It reports false where there is nothing
// to remember: no error, or one that says nothing about the offering
// (class.Remembered). After a success the caller forgets the offering.
//
// The offering is passed over for first, doubling with each further failure in
// a row, and max at most. A quota outlasts a shortage and starts at twice
// first; a spec-mismatch does not go away by itself and gets max at once.
//
// A failure while old is still in force is not a further one: it answers a call
// that was made before the offering was known to be out, and five hundred calls
// on their way must not turn one shortage into the longest pause. Of the two,
// the one that lasts longer is kept. If old ended more than max ago, the row starts anew.
func Remember(old *ledger.MemoryEntry, provider string, o cloud.Offering, e *cloud.Error, now time.Time, first, max time.Duration) (ledger.MemoryEntry, bool) {
	if e == nil || !e.Class.Remembered() {
		return ledger.MemoryEntry{}, false
	}
	m := ledger.MemoryEntry{Provider: provider, Offering: o, Class: e.Class, Message: e.Message, Failures: 1, Since: now}
	inForce := false
	if old != nil && old.Class != cloud.InitFailed && now.Sub(old.Until) <= max {
		inForce = old.Until.After(now)
		m.Since, m.Failures = old.Since, old.Failures
		if !inForce {
			m.Failures++
		}
	}
	pause := max
	switch e.Class {
	case cloud.SpecMismatch:
	case cloud.Quota:
		pause = doubled(first, m.Failures, max)
	default:
		pause = doubled(first, m.Failures-1, max)
	}
	m.Until = now.Add(pause)
	if inForce && old.Until.After(m.Until) {
		m.Class, m.Message, m.Until = old.Class, old.Message, old.Until
	}
	return m, true
}

// RememberFor is Remember for a call of so many nodes for a pool. What failed an
// all-or-nothing call of eight nodes says nothing about one node, so the entry
// holds for calls of that size; a specification that does not fit the pool says
// nothing about other pools.
func RememberFor(old *ledger.MemoryEntry, provider, pool string, o cloud.Offering, e *cloud.Error, nodes int, now time.Time, first, max time.Duration) (ledger.MemoryEntry, bool) {
	m, ok := Remember(old, provider, o, e, now, first, max)
	if !ok {
		return m, false
	}
	m.Nodes = nodes
	if old != nil && old.Until.After(now) {
		m.Nodes = min(nodes, old.Nodes)
	}
	if e.Class == cloud.SpecMismatch {
		m.Pool, m.Nodes = pool, 1
	}
	return m, true
}

// RememberInit counts an instance of the offering that did not become a node.
// From the limit-th failure in a row on, the offering is passed over: for first,
// doubling with each further one, and max at most. Then its breaker is half
// open: the entry stays until an instance of it becomes a node, and one launch
// at a time tries it. It reports false where there is nothing to count, because
// the offering is passed over already.
func RememberInit(old *ledger.MemoryEntry, provider string, o cloud.Offering, e *cloud.Error, now time.Time, first, max time.Duration, limit int) (ledger.MemoryEntry, bool) {
	if limit <= 0 {
		limit = defaultBreaker
	}
	m := ledger.MemoryEntry{Provider: provider, Offering: o, Class: cloud.InitFailed, Message: e.Message, Nodes: 1, Failures: 1, Since: now, Until: now}
	if old != nil && old.Until.After(now) {
		return m, false
	}
	if old != nil && old.Class == cloud.InitFailed {
		m.Failures, m.Since = old.Failures+1, old.Since
	}
	if m.Failures >= limit {
		m.Until = now.Add(doubled(first, m.Failures-limit, max))
	}
	return m, true
}

// defaultBreaker is how many launches in a row must fail to become nodes.
const defaultBreaker = 3

// doubled gives first doubled so many times, and limit at most.
func doubled(first time.Duration, times int, limit time.Duration) time.Duration {
	d := first
	for ; times > 0 && d > 0 && d < limit; times-- {
		if d > limit/2 {
			return limit
		}
		d *= 2
	}
	return min(d, limit)
}
