package planner

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/cloud"
)

func TestAfterFailure(t *testing.T) {
	const first, limit, rounds = time.Second, 10 * time.Minute, 20
	at := func(d time.Duration) time.Time { return noon.Add(d) }
	for _, c := range []struct {
		name  string
		class cloud.Class
		round int
		retry time.Time
		rnd   float64
		want  time.Duration // after noon; -1: hold
	}{
		{name: "first round", want: time.Second},
		{name: "delay doubles", round: 3, want: 8 * time.Second},
		{name: "delay is capped", round: 12, want: limit},
		{name: "jitter is a tenth of the delay at most", round: 3, rnd: 0.5, want: 8400 * time.Millisecond},
		{name: "jitter goes beyond the cap, so that jobs still spread", round: 12, rnd: 0.5, want: limit + limit/20},
		{name: "a later retryAt wins", retry: at(time.Minute), want: time.Minute},
		{name: "an earlier retryAt does not", round: 3, retry: at(time.Second), want: 8 * time.Second},
		{name: "a retryAt that has passed does not", retry: at(-time.Hour), want: time.Second},
		{name: "retryAt is cut to max", retry: at(5 * time.Hour), want: limit},
		{name: "last round but one", round: rounds - 2, want: limit},
		{name: "last round", round: rounds - 1, want: -1},
		{name: "beyond the last round", round: rounds + 5, want: -1},
		{name: "spec-mismatch is held at once", class: cloud.SpecMismatch, want: -1},
		{name: "unauthorized is held at once", class: cloud.Unauthorized, retry: at(time.Minute), want: -1},
		{name: "config is held at once", class: cloud.Config, want: -1},
		{name: "quota", class: cloud.Quota, want: time.Second},
		{name: "budget", class: cloud.Budget, want: time.Second},
		{name: "init-failed", class: cloud.InitFailed, want: time.Second},
		{name: "throttled", class: cloud.Throttled, want: time.Second},
		{name: "unknown", class: cloud.Unknown, want: time.Second},
		{name: "a class nobody knows", class: "news", want: time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.class == "" {
				c.class = cloud.OutOfStock
			}
			got := AfterFailure(c.class, c.round, c.retry, noon, first, limit, rounds, c.rnd, false)
			if c.want < 0 {
				require.Equal(t, Requeue{Hold: true}, got)
				return
			}
			require.Equal(t, Requeue{StartAt: noon.Add(c.want)}, got)
		})
	}
}

func TestAfterFailureOfTheFirstRoundStartsWithinASecondOrSo(t *testing.T) {
	for _, first := range []time.Duration{0, time.Millisecond, 500 * time.Millisecond, time.Second} {
		got := AfterFailure(cloud.OutOfStock, 0, time.Time{}, noon, first, time.Hour, 3, math.Nextafter(1, 0), false)
		require.False(t, got.Hold)
		require.LessOrEqual(t, got.StartAt.Sub(noon), 1100*time.Millisecond)
		require.GreaterOrEqual(t, got.StartAt.Sub(noon), first)
	}
}

func TestAfterFailureWithoutRoundsHolds(t *testing.T) {
	require.True(t, AfterFailure(cloud.OutOfStock, 0, time.Time{}, noon, time.Second, time.Hour, 1, 0, false).Hold)
	require.True(t, AfterFailure(cloud.OutOfStock, 0, time.Time{}, noon, time.Second, time.Hour, 0, 0, false).Hold)
}

func TestAfterFailureOfManyRoundsDoesNotOverflow(t *testing.T) {
	got := AfterFailure(cloud.OutOfStock, 1<<30, time.Time{}, noon, time.Second, math.MaxInt64/4, 1<<31, 0, false)
	require.Equal(t, time.Duration(math.MaxInt64/4), got.StartAt.Sub(noon))
}
