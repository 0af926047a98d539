package controller

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/config"
	"github.com/midair-hpc/midair/internal/ledger"
	"github.com/midair-hpc/midair/internal/slurm/slurmtest"
)

// Offerings that pool a sells as equals in these tests, and one on demand.
var (
	equalA = cloud.Offering{Type: "t1", Zone: "za", Market: cloud.Spot}
	equalB = cloud.Offering{Type: "t2", Zone: "zb", Market: cloud.Spot}
	dearer = cloud.Offering{Type: "t1", Zone: "za", Market: cloud.OnDemand}
)

// engineWorld has a pool with two equal spot offerings and one on demand.
func engineWorld(t *testing.T, change func(*config.Config)) *world {
	w := newWorld(t)
	p := &w.conf.Pools[0]
	p.Offerings, p.Entries = []cloud.Offering{equalA, equalB, dearer}, []int{0, 0, 0}
	if change != nil {
		change(w.conf)
	}
	w.restart()
	return w
}

func offeringsOf(m *memoryCloud) (all []cloud.Offering) {
	for _, i := range m.all() {
		all = append(all, i.Offering)
	}
	return all
}

func TestEqualOfferingsAreAskedForInOneCall(t *testing.T) {
	w := engineWorld(t, nil)
	w.east.stock[equalA] = 1
	id := w.submit(slurmtest.Job{Nodes: 2})
	w.until(time.Minute, "the job to complete", w.completed(id))
	require.Len(t, w.east.launches, 1)
	require.Equal(t, []cloud.Offering{equalA, equalB}, w.east.launches[0].Offerings)
	require.Equal(t, []cloud.Offering{equalB, equalB}, offeringsOf(w.east), "both nodes of one job from one offering")
	w.settled()
}

func TestOneNodeJobsShareACallAndAreCompletedFromTheNextMarketInTheSameRound(t *testing.T) {
	w := engineWorld(t, nil)
	w.east.stock[equalA], w.east.stock[equalB] = 1, 1
	var ids []int
	for range 3 {
		ids = append(ids, w.submit(slurmtest.Job{Nodes: 1}))
	}
	for _, id := range ids {
		w.until(time.Minute, "the job to complete", w.completed(id))
		require.Len(t, w.launchesOf(id), 1, "in its first round")
	}
	require.ElementsMatch(t, []cloud.Offering{equalA, equalB, dearer}, offeringsOf(w.east))
	w.settled()
}

func TestJobWhoseNodesMayBeApartIsCompletedFromSeveralOfferingsOrReleasedWhole(t *testing.T) {
	apart := func(c *config.Config) { c.Pools[0].Placement = config.PlaceAny }
	w := engineWorld(t, apart)
	w.east.stock[equalA], w.east.stock[equalB] = 1, 1
	id := w.submit(slurmtest.Job{Nodes: 3})
	w.until(time.Minute, "the job to complete", w.completed(id))
	require.ElementsMatch(t, []cloud.Offering{equalA, equalB, dearer}, offeringsOf(w.east))
	w.settled()

	w = engineWorld(t, apart)
	w.east.stock[equalA], w.east.stock[equalB], w.east.stock[dearer] = 1, 0, 1
	id = w.submit(slurmtest.Job{Nodes: 3})
	w.until(time.Minute, "the first round to fail", w.failed(id, 1))
	w.until(time.Minute, "what was bought to be released", func() bool {
		for _, i := range w.east.all() {
			if i.Live() {
				return false
			}
		}
		return true
	})
	require.Len(t, w.east.all(), 2)
	w.east.mend()
	w.until(10*time.Minute, "the job to complete", w.completed(id))
	w.settled()
}

func TestPausedTierIsNeverHeldAndComesBackWhenMemoryEnds(t *testing.T) {
	w := engineWorld(t, func(c *config.Config) { c.Tiers[0].WhenOutOfStock = config.Pause })
	w.east.stock[equalA], w.east.stock[equalB] = 0, 0
	id := w.submit(slurmtest.Job{Nodes: 1})
	w.until(time.Hour, "more rounds to fail than hold a job", w.failed(id, 2*w.conf.Retry.Rounds))
	require.False(t, w.held(id)())
	require.Empty(t, w.east.all(), "on-demand is not bought")
	require.Contains(t, w.job(id).Comment, "midair: out-of-stock: no spot capacity in pool a")
	w.east.mend()
	w.until(10*time.Minute, "the job to complete", w.completed(id))
	w.settled()
}

func TestFallbackIsCountedFromTheFirstRequestOverRoundsAndRestarts(t *testing.T) {
	w := engineWorld(t, func(c *config.Config) {
		c.Tiers[0].WhenOutOfStock, c.Tiers[0].FallbackAfter = config.Fallback, 15*time.Minute
	})
	w.east.stock[equalA], w.east.stock[equalB] = 0, 0
	id := w.submit(slurmtest.Job{Nodes: 1})
	w.until(10*time.Minute, "two rounds to fail", w.failed(id, 2))
	w.restart()
	w.until(30*time.Minute, "the job to complete", w.completed(id))
	require.Equal(t, []cloud.Offering{dearer}, offeringsOf(w.east))
	waited := w.east.all()[0].CreatedAt.Sub(began)
	require.GreaterOrEqual(t, waited, 15*time.Minute)
	require.Less(t, waited, 17*time.Minute)
	w.settled()
}

func TestOneCallThatIsForbiddenIsOneRoundForAllItsOfferings(t *testing.T) {
	w := engineWorld(t, nil)
	w.east.classes[equalA], w.east.classes[dearer] = cloud.Unauthorized, cloud.Unauthorized
	id := w.submit(slurmtest.Job{Nodes: 2})
	w.until(time.Minute, "the job to be held", w.held(id))
	require.Len(t, w.east.launches, 2, "a call for each market")
	require.Equal(t, cloud.Unauthorized, w.launchesOf(id)[0].Class)
	require.Empty(t, w.east.all())
	w.ctld.Release(id)
	w.east.mend()
	w.until(10*time.Minute, "the job to complete", w.completed(id))
	w.settled()
}

func TestOfferingThatNeverBootsIsPassedOverAlsoAfterARestart(t *testing.T) {
	w := engineWorld(t, func(c *config.Config) {
		c.Memory.InitFailures, c.Memory.First, c.Memory.Max = 1, time.Hour, 2*time.Hour
	})
	for _, n := range w.conf.Pools[0].NodeNames {
		w.east.neverBooting[n] = true
	}
	id := w.submit(slurmtest.Job{Nodes: 1})
	w.until(10*time.Minute, "the first round to fail", w.failed(id, 1))
	clear(w.east.neverBooting)
	w.restart()
	memory, err := w.led.Memory(w.ctx)
	require.NoError(t, err)
	require.Len(t, memory, 1)
	require.Equal(t, cloud.InitFailed, memory[0].Class)
	require.Equal(t, equalA, memory[0].Offering)
	w.until(10*time.Minute, "the job to complete", w.completed(id))
	all := w.east.all()
	require.Equal(t, equalB, all[len(all)-1].Offering)
	w.settled()

	// Its memory has ended: one launch tries it, and success forgets it.
	w.tick(90 * time.Minute)
	first, second := w.submit(slurmtest.Job{Nodes: 1}), w.submit(slurmtest.Job{Nodes: 1})
	w.until(10*time.Minute, "both to complete", func() bool { return w.completed(first)() && w.completed(second)() })
	all = w.east.all()
	require.ElementsMatch(t, []cloud.Offering{equalA, equalB}, []cloud.Offering{all[len(all)-2].Offering, all[len(all)-1].Offering})
	memory, err = w.led.Memory(w.ctx)
	require.NoError(t, err)
	require.Empty(t, memory)
	w.settled()
}

func TestOfferingThatTheCloudTookAnInstanceBackFromIsNotTheNextChoice(t *testing.T) {
	w := engineWorld(t, nil)
	id := w.running(slurmtest.Job{Nodes: 1, Duration: time.Hour})
	i := w.east.find(w.east.all()[0].ID)
	w.east.vanish(i.ID)
	i.Reclaimed = true
	w.until(10*time.Minute, "another instance", func() bool { return len(w.east.all()) == 2 })
	require.Equal(t, equalB, w.east.all()[1].Offering)
	memory, err := w.led.Memory(w.ctx)
	require.NoError(t, err)
	require.Equal(t, []ledger.MemoryEntry{memory[0]}, memory)
	require.Equal(t, cloud.OutOfStock, memory[0].Class)
	require.False(t, w.completed(id)())
}
