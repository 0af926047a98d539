package planner

import (
	"time"

	"github.com/midair-hpc/midair/internal/cloud"
)

// AfterFailure says what becomes of the job of a failed launch. round counts
// the launches of the job that failed in a row before this one, from 0; rounds
// is how many may fail before the job is held.
//
// The job is held if nothing changes by itself (class.Retryable) or this was
// the last round. Otherwise it may start at the later of retryAt and now +
// first×2^round, capped at max and lengthened by up to a tenth so that jobs
// that failed together do not all come back in the same instant; rnd, in
// [0,1), says by how much. retryAt is when an offering may be tried again, zero
// if unknown; the job waits for it, but not longer than max.
//
// A patient job waits for as long as it takes until its market has something:
// it is not held, and starts when an offering may be tried again, however late.
func AfterFailure(class cloud.Class, round int, retryAt, now time.Time, first, max time.Duration, rounds int, rnd float64, patient bool) Requeue {
	if patient && class == cloud.OutOfStock {
		delay := doubled(first, min(round, rounds), max)
		if retryAt.After(now.Add(delay)) {
			delay = retryAt.Sub(now)
		}
		return Requeue{StartAt: now.Add(delay + time.Duration(rnd*float64(first)))}
	}
	if !class.Retryable() || round+1 >= rounds {
		return Requeue{Hold: true}
	}
	delay := doubled(first, round, max)
	start := now.Add(delay + time.Duration(rnd*float64(delay)/10))
	if limit := now.Add(max); retryAt.After(limit) {
		retryAt = limit
	}
	if retryAt.After(start) {
		start = retryAt
	}
	return Requeue{StartAt: start}
}

// Patient reports whether a job of the tier waits for its first market, so that
// another failure there says nothing against it.
func (p Policy) Patient(since, latest, now time.Time) bool {
	switch p.WhenOut {
	case Pause:
		return true
	case Deadline:
		return latest.IsZero() || now.Before(latest)
	case Fallback:
		return p.After > 0 && now.Before(since.Add(p.After))
	}
	return false
}
