// Package cloudtest is the conformance suite that every provider of midair
// passes. A provider's test describes its cloud with a Harness and calls Run:
//
//	func TestConformance(t *testing.T) {
//		cloudtest.Run(t, cloudtest.Harness{Offerings: …, CPUs: 2, New: openEmptyAccount})
//	}
//
// The checks follow the contract of cloud.Provider sentence by sentence and
// use nothing else. A check that needs a fault which the harness cannot
// provoke is skipped and says so.
package cloudtest

import (
	"testing"
	"time"

	"github.com/midair-hpc/midair/internal/cloud"
)

// Harness is what a provider's test tells the suite about its cloud.
type Harness struct {
	// New opens the provider on an account without instances. Every check gets
	// an account of its own, and ends what it has launched.
	New func(t testing.TB) Account

	// Offerings that the cloud sells, three at least and all different. An
	// instance of any of them has room for what CPUs, MemoryMiB and GPUs say.
	Offerings []cloud.Offering

	// CPUs, MemoryMiB and GPUs that requests ask for.
	CPUs, MemoryMiB, GPUs int

	// Cluster the requests are for; empty: "ct".
	Cluster string

	// Large is how many nodes the largest launch has; 0: 200.
	Large int

	// Patience is how long the suite waits for what the cloud does in its own
	// time, and Poll how often it looks; 0: 30 s and 10 ms. A call that takes
	// ten times as long as Patience is given up.
	Patience, Poll time.Duration

	// NamedLater: one create call makes several instances with the same tags, so
	// that what differs from node to node is seen only after Name. The suite then
	// calls it where the contract says that the caller does. Without it, the
	// create call itself says everything.
	NamedLater bool

	// Settle is how far List lags behind the other calls without any fault; the
	// suite waits so long before it concludes that nothing was created.
	Settle time.Duration

	// Delay is how long the suite makes lists lag and deletes take (LagList,
	// SlowDelete); 0: 500 ms. It must be longer than a call takes.
	Delay time.Duration
}

// Account is an account of a cloud that one check has for itself.
type Account struct {
	Provider cloud.Provider
	// Reopen opens the same account once more, as a restarted controller does:
	// with nothing in memory. The first provider may go on being used.
	Reopen func(t testing.TB) cloud.Provider
	Breaks Breaks
}

// Breaks make an account misbehave, for calls made afterwards. A nil one is a
// fault that the harness cannot provoke; the checks that need it are skipped.
type Breaks struct {
	// OutOfStock: only left more instances of the offering can be had.
	OutOfStock func(t testing.TB, o cloud.Offering, left int)
	// Quota: the account may have limit live instances.
	Quota func(t testing.TB, limit int)
	// LoseAnswer: the next Launch takes effect, but its answer is lost.
	LoseAnswer func(t testing.TB)
	// LagList: List does not show an instance before it is d old.
	LagList func(t testing.TB, d time.Duration)
	// Throttle: the next n calls, of whatever kind, are refused as too many.
	Throttle func(t testing.TB, n int)
	// Vanish: the cloud takes a live instance away.
	Vanish func(t testing.TB, id string)
	// SlowDelete: an instance is gone only d after it was terminated.
	SlowDelete func(t testing.TB, d time.Duration)
	// NoRegister: new instances run, but never become Slurm nodes.
	NoRegister func(t testing.TB)
	// Clear ends all faults above. Required where any of them is set.
	Clear func(t testing.TB)
}

func (h Harness) withDefaults() Harness {
	if h.Cluster == "" {
		h.Cluster = "ct"
	}
	if h.Large == 0 {
		h.Large = 200
	}
	if h.Patience == 0 {
		h.Patience = 30 * time.Second
	}
	if h.Poll == 0 {
		h.Poll = 10 * time.Millisecond
	}
	if h.Delay == 0 {
		h.Delay = 500 * time.Millisecond
	}
	return h
}

// flaw says what is wrong with the harness itself; empty: nothing.
func (h Harness) flaw() string {
	seen := map[cloud.Offering]bool{}
	for _, o := range h.Offerings {
		seen[o] = true
	}
	switch {
	case h.New == nil:
		return "Harness.New is nil"
	case len(h.Offerings) < 3 || len(seen) != len(h.Offerings):
		return "Harness.Offerings must be three different offerings at least"
	case h.CPUs < 1:
		return "Harness.CPUs must be 1 at least"
	}
	return ""
}
