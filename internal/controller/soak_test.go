package controller

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// soaks is how many random days run; MIDAIR_SOAK sets another number, a single
// one as "seed=17" or some as "101-200". make soak runs 500.
const soaks = 25

// Whatever happens in whatever order, and wherever the controller is killed: no
// instance is without an owner for longer than the grace, no node has two, every
// second of every instance is on record, and no job is lost. Each seed is a
// simulated day of bursts of faults with calm between them, in which the
// promises are checked.
func TestRandomFaultsAndKillsLeaveNothingBehind(t *testing.T) {
	n := uint64(soaks)
	if testing.Short() {
		n = 6
	}
	first, last := seeds(t, "MIDAIR_SOAK", n)
	var seen tally
	t.Run("seeds", func(t *testing.T) {
		for seed := first; seed <= last; seed++ {
			t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
				t.Parallel()
				s := newSoak(t, seed)
				s.run()
				seen.add(s)
			})
		}
	})
	if last-first > 20 && !t.Failed() {
		for _, p := range CrashPoints {
			require.NotZero(t, seen.killedAt[p], "no controller was killed at %s", p)
		}
	}
	t.Logf("%d instances, %d jobs, %d ledgers lost, %d controllers killed, %.1f of %.1f instance-hours counted too many", seen.instances, seen.jobs, seen.ledgers, seen.kills, seen.over.Hours(), seen.lived.Hours())
}

// seeds reads which seeds are to run.
func seeds(t *testing.T, env string, n uint64) (first, last uint64) {
	text := os.Getenv(env)
	if text == "" {
		return 1, n
	}
	number := func(s string) uint64 {
		n, err := strconv.ParseUint(s, 10, 64)
		require.NoError(t, err, "%s is a number of seeds, seed=17 or 101-200", env)
		return n
	}
	if one, single := strings.CutPrefix(text, "seed="); single {
		return number(one), number(one)
	}
	if from, to, span := strings.Cut(text, "-"); span {
		return number(from), number(to)
	}
	return 1, number(text)
}

// tally is what all seeds together have seen.
type tally struct {
	mu                              sync.Mutex
	killedAt                        map[string]int
	kills, ledgers, instances, jobs int
	lived, over                     time.Duration
}

func (n *tally) add(s *soak) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.killedAt == nil {
		n.killedAt = map[string]int{}
	}
	for _, p := range s.killedAt {
		n.killedAt[p]++
	}
	n.kills += len(s.killedAt)
	n.ledgers += s.ledgers
	for _, m := range s.stands {
		n.instances += len(m.all())
	}
	n.jobs += len(s.jobs)
	n.lived += s.lived
	n.over += s.over
}

func TestASoakIsDecidedByItsSeed(t *testing.T) {
	first, second := newSoak(t, 42), newSoak(t, 42)
	first.run()
	second.run()
	require.Equal(t, first.trace.String(), second.trace.String())
}

type soak struct {
	*world
	seed     uint64
	day      time.Duration
	rough    time.Duration // how exactly the cloud says when something happened
	r        *rand.Rand
	jobs     []int
	fuse     int    // crash points to pass before the controller is killed; 0: it lives
	point    string // or the crash point at which it is
	killedAt []string
	ledgers  int // lost
	rebuilds bool
	orphaned map[string]time.Time // instance → since when it has had no owner
	lived    time.Duration        // of all instances, as the clouds have it
	over     time.Duration        // what the ledger has more
	trace    strings.Builder
}

type killed string

func newSoak(t *testing.T, seed uint64, change ...func(*soak)) *soak {
	s := &soak{world: newWorld(t), day: 24 * time.Hour, seed: seed, r: rand.New(rand.NewPCG(seed, 1)), orphaned: map[string]time.Time{}}
	s.rand = s.r.Float64
	s.slurm = &guard{Client: s.ctld, ctld: s.ctld, broken: func(what string) {
		s.note("BROKEN: %s", what)
		require.Fail(s.t, what)
	}}
	s.crash = func(point string) {
		if s.point == point {
			s.point, s.fuse = "", 1
		}
		if s.fuse > 0 {
			if s.fuse--; s.fuse == 0 {
				panic(killed(point))
			}
		}
	}
	s.kill()
	for _, c := range change {
		c(s)
	}
	s.start()
	t.Cleanup(func() {
		if t.Failed() {
			text := s.trace.String()
			if n := len(text); n > 20_000 {
				text = "…" + text[n-20_000:]
			}
			t.Logf("seed %d; run it alone with MIDAIR_SOAK=seed=%d\n%s", seed, seed, text)
		}
	})
	return s
}

func (s *soak) note(format string, args ...any) {
	fmt.Fprintf(&s.trace, s.now.Format("15:04:05 ")+format+"\n", args...)
}

func (s *soak) run() {
	for end := s.now.Add(s.day); s.now.Before(end); {
		s.burst()
		s.calm()
	}
	s.mend()
	s.adminLetsGo()
	for limit := s.now.Add(48 * time.Hour); !s.jobsDone(); s.advance(5 * time.Minute) {
		require.True(s.t, s.now.Before(limit), "not every job runs or is held with a reason\n%s", s.describe())
	}
	s.settled()
	s.counted(false)
	require.Less(s.t, s.over, s.lived/10+time.Hour, "of what the ledger counts")
	launches, err := s.led.RecentLaunches(s.ctx, 1000)
	require.NoError(s.t, err)
	for _, l := range launches {
		s.note("launch %s job %d %s %s", l.ID, l.JobID, l.State, l.Message)
	}
	for _, m := range s.stands {
		s.note("%s made %d instances", m.id(), len(m.all()))
	}
}

// burst is trouble, close together.
func (s *soak) burst() {
	for range 5 + s.r.IntN(25) {
		s.event()
		for range s.r.IntN(12) {
			s.tick(time.Duration(200+s.r.IntN(4000)) * time.Millisecond)
			s.world0()
			s.alive(s.stepSome)
			s.look()
		}
		if s.r.IntN(6) == 0 {
			s.advance(time.Duration(s.r.IntN(600)) * time.Second)
		}
	}
}

// calm takes most trouble away and sees that all is well by and by.
func (s *soak) calm() {
	if s.r.IntN(3) == 0 {
		s.note("the trouble lasts")
		s.advance(time.Duration(s.r.IntN(90)) * time.Minute)
	}
	s.mend()
	s.note("calm")
	s.orphaned = map[string]time.Time{}
	s.advance(time.Duration(15+s.r.IntN(60)) * time.Minute)
	s.owned()
	s.counted(true)
	s.noJobLost()
}

func (s *soak) mend() {
	for _, m := range s.stands {
		m.mend()
	}
	s.ctld.Mend()
	s.fuse, s.point, s.dropRecords, s.twiceRecords = 0, "", false, false
}

// advance lets time go by: quickly while nothing is on its way.
func (s *soak) advance(d time.Duration) {
	for end := s.now.Add(d); s.now.Before(end); {
		step := 25 * time.Second
		if s.busy() {
			step = 2 * time.Second
		}
		s.tick(step)
		s.world0()
		s.alive(func() {
			s.step()
			s.answer()
			s.step()
			s.answer()
		})
		s.look()
	}
}

func (s *soak) world0() {
	s.ctld.ForgetCalls()
	s.ctld.Tick()
	s.slurmds()
	s.ctld.Tick()
}

func (s *soak) busy() bool {
	if len(s.calls) > 0 || len(s.c.launches) > 0 || len(s.c.intents) > 0 || s.c.adopting {
		return true
	}
	list := s.ctld.PeekNodes()
	return slices.ContainsFunc(list, func(n slurmNode) bool { return n.State.PoweringUp() || n.State.Has("POWERING_DOWN") })
}

// alive runs a part of the controller; if that is killed, another one is
// started after a while.
func (s *soak) alive(part func()) {
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		point, ok := r.(killed)
		if !ok {
			panic(r)
		}
		s.note("killed at %s", point)
		s.killedAt = append(s.killedAt, string(point))
		s.die()
		s.pass0(time.Duration(s.r.IntN(90)) * time.Second)
		s.start()
	}()
	part()
	if s.rebuilds && !s.c.adopting {
		s.rebuilds, s.rebuilt = false, s.now
		s.note("the ledger is rebuilt")
	}
}

// die is kill -9. Calls that have left the machine take effect.
func (s *soak) die() {
	calls := s.calls
	s.kill()
	for _, call := range calls {
		if s.r.IntN(2) == 0 {
			call()
		}
	}
	s.calls = nil
}

// stepSome steps and lets some of the clouds' answers come, in any order.
func (s *soak) stepSome() {
	s.step()
	for len(s.calls) > 0 && s.r.IntN(4) > 0 {
		k := s.r.IntN(len(s.calls))
		call := s.calls[k]
		s.calls = append(s.calls[:k], s.calls[k+1:]...)
		call()
		if s.r.IntN(2) == 0 {
			s.step()
		}
	}
}
