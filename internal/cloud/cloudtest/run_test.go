package cloudtest

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/cloud"
)

func TestReferencePasses(t *testing.T) {
	Run(t, newReference(""))
}

func TestReferencePassesWithoutDelays(t *testing.T) {
	for _, c := range checks {
		for _, h := range []Harness{newReference(""), newLaterReference("")} {
			synctest.Test(t, func(t *testing.T) {
				r := record(t, c, h)
				require.False(t, r.failed, "%s: %s", c.name, r.text())
				require.False(t, r.skipped, "%s: %s", c.name, r.text())
			})
		}
	}
}

func TestChecksSkipWhatTheHarnessCannotProvoke(t *testing.T) {
	h := newReference("")
	withBreaks := h.New
	h.New = func(tb testing.TB) Account {
		a := withBreaks(tb)
		a.Breaks = Breaks{}
		return a
	}
	h.Offerings = []cloud.Offering{
		{Type: "small", Zone: "za", Market: cloud.Spot}, {Type: "small", Zone: "zb", Market: cloud.Spot}, {Type: "small", Zone: "za", Market: cloud.OnDemand},
	}
	skipped := 0
	for _, c := range checks {
		synctest.Test(t, func(t *testing.T) {
			r := record(t, c, h)
			require.False(t, r.failed, "%s: %s", c.name, r.text())
			if r.skipped {
				require.NotEmpty(t, r.text(), "%s is skipped without a reason", c.name)
				skipped++
			}
		})
	}
	require.Positive(t, skipped)
	require.Less(t, skipped, len(checks))
}

func TestCheckNamesAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range checks {
		require.False(t, seen[c.name], c.name)
		seen[c.name] = true
	}
}

func TestHarnessIsCheckedFirst(t *testing.T) {
	good := newReference("")
	require.Empty(t, good.flaw())
	for name, spoil := range map[string]func(*Harness){
		"no account":      func(h *Harness) { h.New = nil },
		"two offerings":   func(h *Harness) { h.Offerings = h.Offerings[:2] },
		"the same thrice": func(h *Harness) { o := h.Offerings[0]; h.Offerings = []cloud.Offering{o, o, o} },
		"no CPUs":         func(h *Harness) { h.CPUs = 0 },
	} {
		h := good
		spoil(&h)
		require.NotEmpty(t, h.flaw(), name)
	}
}
