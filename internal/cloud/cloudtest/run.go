package cloudtest

import (
	"slices"
	"testing"
)

// check is one named demand on every provider.
type check struct {
	name string
	run  func(f *fixture)
}

// checks lists every check, in the order in which a new provider wants to pass
// them.
var checks = slices.Concat(launchChecks, tokenChecks, shortageChecks, refusalChecks, faultChecks, listChecks, terminateChecks, quoteChecks, contextChecks)

// Run checks a provider against the contract of cloud.Provider, each check as
// a sub-test of its own.
func Run(t *testing.T, h Harness) {
	t.Helper()
	if s := h.flaw(); s != "" {
		t.Fatal(s)
	}
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) { c.perform(t, h) })
	}
}

func (c check) perform(tb testing.TB, h Harness) {
	c.run(newFixture(tb, h))
}
