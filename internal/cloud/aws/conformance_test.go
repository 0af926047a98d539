package aws

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/cloud/cloudtest"
	"github.com/midair-hpc/midair/internal/cloud/ec2sim"
)

func TestConformance(t *testing.T) {
	g5 := offering("g5.xlarge", zoneA, cloud.OnDemand)
	offerings := []cloud.Offering{g5, offering("g5.2xlarge", zoneB, cloud.OnDemand), offering("g4dn.xlarge", zoneA, cloud.OnDemand)}
	cloudtest.Run(t, cloudtest.Harness{
		Offerings: offerings, CPUs: 4, MemoryMiB: 16000, GPUs: 1, NamedLater: true,
		New: func(tb testing.TB) cloudtest.Account {
			l := newLab(tb, func(o *ec2sim.Options) { o.Delays.Pending = 20 * time.Millisecond })
			open := func(testing.TB) cloud.Provider {
				// A fault that is to be met by so many calls must not be waited out.
				return l.open(func(o *Options) { o.Attempts = 1 })
			}
			const bucket = "L-DB2E81BA"
			return cloudtest.Account{
				Provider: open(tb), Reopen: open,
				Breaks: cloudtest.Breaks{
					OutOfStock: func(tb testing.TB, o cloud.Offering, left int) {
						used := 0
						for _, i := range l.Instances() {
							if i.Offering == o && i.State != cloud.Terminated {
								used++
							}
						}
						require.NoError(tb, l.SetCapacity(o, used+left))
					},
					Quota: func(tb testing.TB, limit int) { require.NoError(tb, l.SetQuota(bucket, 4*limit)) },
					LoseAnswer: func(testing.TB) {
						l.fault(ec2sim.Fault{Action: "RunInstances", Times: 1, After: true, Cut: true})
						l.fault(ec2sim.Fault{Action: "CreateFleet", Times: 1, After: true, Cut: true})
					},
					LagList:    func(tb testing.TB, d time.Duration) { require.NoError(tb, l.SetLag(ec2sim.Lag{ID: d})) },
					Throttle:   func(_ testing.TB, n int) { l.fault(ec2sim.Fault{Error: "RequestLimitExceeded", Times: n}) },
					Vanish:     func(tb testing.TB, id string) { require.NoError(tb, l.Vanish(id)) },
					SlowDelete: func(_ testing.TB, d time.Duration) { l.fault(ec2sim.Fault{SlowTerminate: ec2sim.Duration(d)}) },
					NoRegister: func(testing.TB) { l.fault(ec2sim.Fault{NoBoot: true}) },
					Clear: func(tb testing.TB) {
						require.NoError(tb, l.ClearFaults())
						require.NoError(tb, l.SetLag(ec2sim.Lag{}))
						require.NoError(tb, l.SetQuota(bucket, 1e6))
						for _, o := range offerings {
							require.NoError(tb, l.SetCapacity(o, 10000))
						}
					},
				},
			}
		},
	})
}

// BenchmarkLaunch5000 buys 5000 nodes in ten calls.
func BenchmarkLaunch5000(b *testing.B) {
	for b.Loop() {
		l := newLab(b)
		p := l.open(func(o *Options) { o.Attempts = 2 })
		for k := range 10 {
			require.Len(b, launch(b, p, ask(string(rune('a'+k)), 500, false, p5odA)).Instances, 500)
		}
	}
}
