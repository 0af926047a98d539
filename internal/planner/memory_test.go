package planner

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/ledger"
)

func TestRemember(t *testing.T) {
	const first, limit = time.Minute, 20 * time.Minute
	o := offering(t, s1)
	old := func(class cloud.Class, failures int, until time.Duration) *ledger.MemoryEntry {
		return &ledger.MemoryEntry{
			Provider: "east", Offering: o, Class: class, Message: "before", Failures: failures,
			Since: noon.Add(-3 * time.Hour), Until: noon.Add(until),
		}
	}
	for _, c := range []struct {
		name     string
		old      *ledger.MemoryEntry
		class    cloud.Class
		failures int
		pause    time.Duration
		since    time.Duration // before noon
		kept     bool          // old class and message stay
	}{
		{name: "first shortage", class: cloud.OutOfStock, failures: 1, pause: time.Minute},
		{name: "second in a row doubles", old: old(cloud.OutOfStock, 1, 0), class: cloud.OutOfStock, failures: 2, pause: 2 * time.Minute, since: 3 * time.Hour},
		{name: "fifth in a row", old: old(cloud.OutOfStock, 4, -time.Minute), class: cloud.OutOfStock, failures: 5, pause: 16 * time.Minute, since: 3 * time.Hour},
		{name: "capped", old: old(cloud.OutOfStock, 5, -time.Minute), class: cloud.OutOfStock, failures: 6, pause: limit, since: 3 * time.Hour},
		{name: "thousands in a row do not overflow", old: old(cloud.OutOfStock, 5000, -time.Minute), class: cloud.OutOfStock, failures: 5001, pause: limit, since: 3 * time.Hour},
		{name: "ended just max ago still counts", old: old(cloud.OutOfStock, 1, -limit), class: cloud.OutOfStock, failures: 2, pause: 2 * time.Minute, since: 3 * time.Hour},
		{name: "ended longer than max ago is forgotten", old: old(cloud.OutOfStock, 4, -limit-time.Second), class: cloud.OutOfStock, failures: 1, pause: time.Minute},
		{name: "quota starts at twice first", class: cloud.Quota, failures: 1, pause: 2 * time.Minute},
		{name: "quota doubles", old: old(cloud.Quota, 1, 0), class: cloud.Quota, failures: 2, pause: 4 * time.Minute, since: 3 * time.Hour},
		{name: "quota after shortage counts on", old: old(cloud.OutOfStock, 1, 0), class: cloud.Quota, failures: 2, pause: 4 * time.Minute, since: 3 * time.Hour},
		{name: "spec-mismatch gets max at once", class: cloud.SpecMismatch, failures: 1, pause: limit},
		{name: "a call that was on its way does not double", old: old(cloud.OutOfStock, 2, time.Minute), class: cloud.OutOfStock, failures: 2, pause: 2 * time.Minute, since: 3 * time.Hour},
		{name: "a call that was on its way does not shorten", old: old(cloud.SpecMismatch, 1, limit), class: cloud.OutOfStock, failures: 1, pause: limit, since: 3 * time.Hour, kept: true},
		{name: "a worse class on its way lengthens", old: old(cloud.OutOfStock, 1, time.Minute), class: cloud.SpecMismatch, failures: 1, pause: limit, since: 3 * time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, ok := Remember(c.old, "east", o, &cloud.Error{Class: c.class, Message: "no more"}, noon, first, limit)
			require.True(t, ok)
			want := ledger.MemoryEntry{
				Provider: "east", Offering: o, Class: c.class, Message: "no more", Failures: c.failures,
				Since: noon.Add(-c.since), Until: noon.Add(c.pause),
			}
			if c.kept {
				want.Class, want.Message = c.old.Class, c.old.Message
			}
			require.Equal(t, want, m)
		})
	}
}

func TestRememberOnlyWhatSaysSomethingAboutTheOffering(t *testing.T) {
	old := &ledger.MemoryEntry{Class: cloud.OutOfStock, Failures: 1, Until: noon.Add(time.Hour)}
	for _, class := range cloud.Classes {
		_, ok := Remember(old, "east", offering(t, s1), &cloud.Error{Class: class}, noon, time.Minute, time.Hour)
		require.Equal(t, class == cloud.OutOfStock || class == cloud.Quota || class == cloud.SpecMismatch, ok, class)
	}
	_, ok := Remember(old, "east", offering(t, s1), nil, noon, time.Minute, time.Hour)
	require.False(t, ok, "a success is nothing to remember")
}

// One shortage that 500 calls on their way run into is one failure.
func TestRememberManyAnswersAtOnce(t *testing.T) {
	var m ledger.MemoryEntry
	var old *ledger.MemoryEntry
	for i := range 500 {
		now := noon.Add(time.Duration(i) * time.Millisecond)
		m, _ = Remember(old, "east", offering(t, s1), &cloud.Error{Class: cloud.OutOfStock}, now, time.Minute, time.Hour)
		old = &m
	}
	require.Equal(t, 1, m.Failures)
	require.Equal(t, noon.Add(time.Minute+499*time.Millisecond), m.Until)
}

func TestRememberedOfferingIsPassedOverAndComesBack(t *testing.T) {
	p := pool(t, "p", "east", s1)
	m, ok := Remember(nil, "east", p.Offerings[0], &cloud.Error{Class: cloud.OutOfStock}, noon, time.Minute, time.Hour)
	require.True(t, ok)
	in := Input{Now: m.Until.Add(-1), Pools: []Pool{p}, Memory: []ledger.MemoryEntry{m}, Demands: []Demand{single("L1", "p", "n1")}}
	res := Plan(in)
	require.Empty(t, res.Calls)
	in.Now = res.Refusals[0].RetryAt
	require.Len(t, Plan(in).Calls, 1, "at RetryAt the offering is tried again")
}
