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
	if old != nil && now.Sub(old.Until) <= max {
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
