package local

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/cloud/cloudtest"
)

// harness describes the local cloud to the conformance suite; open gives it
// its cells.
func harness(many int, open func(tb testing.TB, root string) *Provider) cloudtest.Harness {
	return cloudtest.Harness{
		Offerings: []cloud.Offering{spot, onDemand, large},
		CPUs:      4, MemoryMiB: 8000, GPUs: 1,
		Large: many,
		New: func(tb testing.TB) cloudtest.Account {
			root := tb.TempDir()
			update := func(change func(*Faults)) {
				require.NoError(tb, UpdateFaults(root, change))
			}
			return cloudtest.Account{
				Provider: open(tb, root),
				Reopen:   func(tb testing.TB) cloud.Provider { return open(tb, root) },
				Breaks: cloudtest.Breaks{
					OutOfStock: func(_ testing.TB, o cloud.Offering, left int) {
						update(func(f *Faults) {
							if f.Stock == nil {
								f.Stock = map[string]int{}
							}
							f.Stock[o.Key()] = left
						})
					},
					Quota:      func(_ testing.TB, limit int) { update(func(f *Faults) { f.MaxInstances = limit }) },
					LoseAnswer: func(testing.TB) { update(func(f *Faults) { f.LoseAnswer = 1 }) },
					LagList:    func(_ testing.TB, d time.Duration) { update(func(f *Faults) { f.ListLag = Duration(d) }) },
					Throttle:   func(_ testing.TB, n int) { update(func(f *Faults) { f.Throttle = n }) },
					Vanish:     func(_ testing.TB, id string) { update(func(f *Faults) { f.Vanish = map[string]Duration{id: 0} }) },
					SlowDelete: func(_ testing.TB, d time.Duration) { update(func(f *Faults) { f.SlowDelete = Duration(d) }) },
					NoRegister: func(testing.TB) {
						update(func(f *Faults) { f.NoRegister = []string{spot.Key(), onDemand.Key(), large.Key()} })
					},
					Clear: func(testing.TB) { require.NoError(tb, WriteFaults(root, Faults{})) },
				},
			}
		},
	}
}

func TestConformance(t *testing.T) {
	clouds := map[string]*fakeCells{}
	cloudtest.Run(t, harness(200, func(tb testing.TB, root string) *Provider {
		if clouds[root] == nil {
			clouds[root] = newFakeCells()
		}
		o := testOptions(root)
		o.Local.Network, o.Local.BootDelay = "10.213.0.0/22", 20*time.Millisecond
		p, err := Open(o)
		require.NoError(tb, err)
		tb.Cleanup(func() { require.NoError(tb, p.Close()) })
		p.cells = clouds[root]
		return p
	}))
}

func TestConformanceOfRealCells(t *testing.T) {
	cloudtest.Run(t, harness(60, func(tb testing.TB, root string) *Provider {
		o := realOptions(tb, root)
		o.Local.BootDelay = 20 * time.Millisecond
		p, err := Open(o)
		require.NoError(tb, err)
		tb.Cleanup(func() {
			_, err := p.Destroy(context.Background())
			require.NoError(tb, err)
			require.NoError(tb, p.Close())
		})
		return p
	}))
}
