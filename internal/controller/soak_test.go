package controller

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/slurm/slurmtest"
)

// soaks is how many random sequences run; MIDAIR_SOAK sets another number, or
// a single one as "seed=17".
const soaks = 100

// Whatever happens in whatever order, and wherever the controller is killed:
// once the faults are gone nothing is billed that nobody uses, no node has two
// instances, everything that was bought is on record, nothing is left open, and
// every job has run or is held with a reason.
func TestRandomFaultsAndKillsLeaveNothingBehind(t *testing.T) {
	first, last := uint64(1), uint64(soaks)
	if s := os.Getenv("MIDAIR_SOAK"); s != "" {
		one, single := strings.CutPrefix(s, "seed=")
		n, err := strconv.ParseUint(one, 10, 64)
		require.NoError(t, err)
		if last = n; single {
			first = n
		}
	}
	for seed := first; seed <= last; seed++ {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			t.Parallel()
			newSoak(t, seed).run()
		})
	}
}

func TestASoakIsDecidedByItsSeed(t *testing.T) {
	first, second := newSoak(t, 42), newSoak(t, 42)
	first.run()
	second.run()
	require.Equal(t, first.trace.String(), second.trace.String())
}

type soak struct {
	*world
	seed  uint64
	r     *rand.Rand
	jobs  []int
	fuse  int // crash points to pass before the controller is killed; 0: it lives
	trace strings.Builder
}

type killed string

func newSoak(t *testing.T, seed uint64) *soak {
	s := &soak{world: newWorld(t), seed: seed, r: rand.New(rand.NewPCG(seed, 1))}
	s.rand = s.r.Float64
	s.crash = func(point string) {
		if s.fuse > 0 {
			if s.fuse--; s.fuse == 0 {
				panic(killed(point))
			}
		}
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d; run it alone with MIDAIR_SOAK=seed=%d\n%s", seed, seed, s.trace.String())
		}
	})
	return s
}

func (s *soak) note(format string, args ...any) {
	fmt.Fprintf(&s.trace, s.now.Format("15:04:05 ")+format+"\n", args...)
}

func (s *soak) run() {
	for range 20 + s.r.IntN(40) {
		s.event()
		for range s.r.IntN(12) {
			s.now = s.now.Add(time.Duration(200+s.r.IntN(4000)) * time.Millisecond)
			s.ctld.Tick()
			s.slurmds()
			s.alive(s.stepSome)
		}
	}
	s.east.mend()
	s.west.mend()
	s.ctld.Mend()
	s.fuse = 0
	s.note("mended")
	s.until(3*time.Hour, "every job to run or be held with a reason", s.jobsDone)
	s.settled()
	launches, err := s.led.RecentLaunches(s.ctx, 1000)
	require.NoError(s.t, err)
	for _, l := range launches {
		s.note("launch %s job %d %s %s", l.ID, l.JobID, l.State, l.Message)
	}
	s.note("instances %d", len(s.east.all())+len(s.west.all()))
}

func (s *soak) jobsDone() bool {
	for _, id := range s.jobs {
		j := s.job(id)
		if !j.Ended() && !(s.held(id)() && strings.Contains(j.Comment+j.AdminComment, "midair: ")) {
			return false
		}
	}
	return true
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
		calls := s.calls
		s.kill()
		for _, call := range calls {
			if s.r.IntN(2) == 0 {
				call() // it has left the machine
			}
		}
		s.calls = nil
		s.pass0(time.Duration(s.r.IntN(90)) * time.Second)
		s.start()
	}()
	part()
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

func (s *soak) someNode() string {
	all := append(append(names("a", 6), names("b", 3)...), "x1")
	return all[s.r.IntN(len(all))]
}

func (s *soak) event() {
	m, offering := s.east, []cloud.Offering{aSmall, aLarge}[s.r.IntN(2)]
	if s.r.IntN(3) == 0 {
		m, offering = s.west, bOnly
	}
	switch k := s.r.IntN(24); k {
	case 0, 1, 2, 3, 4:
		s.submitSome()
	case 5:
		if len(s.jobs) > 0 {
			id := s.jobs[s.r.IntN(len(s.jobs))]
			s.note("cancel %d", id)
			s.ctld.Cancel(id)
		}
	case 6, 7:
		n := s.someNode()
		s.note("power up %s", n)
		_ = s.ctld.UpdateNodes(s.ctx, []string{n}, powerUp)
	case 8, 9:
		n := s.someNode()
		s.note("power down %s", n)
		_ = s.ctld.UpdateNodes(s.ctx, []string{n}, powerDownNow)
	case 10:
		s.note("slurmctld crashes")
		s.ctld.AskAgain()
	case 11, 12:
		op, n, applied := slurmtest.Ops[s.r.IntN(len(slurmtest.Ops))], 1+s.r.IntN(8), s.r.IntN(2) == 0
		s.note("%s fails %d times, applied %v", op, n, applied)
		s.ctld.Break(op, n, applied)
	case 13:
		m.stock[offering] = s.r.IntN(3)
		s.note("%s has %d left", offering, m.stock[offering])
	case 14:
		c := []cloud.Class{cloud.Unauthorized, cloud.Unknown, cloud.Quota, cloud.SpecMismatch, cloud.Config}[s.r.IntN(5)]
		s.note("%s answers %s", offering, c)
		m.classes[offering] = c
	case 15:
		m.lose = 1 + s.r.IntN(6)
	case 16:
		m.throttle, m.busy, m.unlisted = s.r.IntN(4), s.r.IntN(4), s.r.IntN(4)
	case 17:
		m.lag, m.noAddr = time.Duration(s.r.IntN(120))*time.Second, s.r.IntN(2) == 0
	case 18:
		m.stillborn = 1
	case 19:
		if live := m.live(); len(live) > 0 {
			i := live[s.r.IntN(len(live))]
			s.note("%s of %s vanishes", i.ID, i.Node)
			m.vanish(i.ID)
		}
	case 20:
		n := s.someNode()
		s.note("%s does not boot", n)
		m.neverBooting[n] = true
	case 21:
		s.note("mended for now")
		m.mend()
	default:
		if s.fuse == 0 {
			s.fuse = 1 + s.r.IntN(8)
		}
	}
}

func (s *soak) submitSome() {
	j := slurmtest.Job{Nodes: 1 + s.r.IntN(3), Duration: time.Duration(5+s.r.IntN(200)) * time.Second, NoBatch: s.r.IntN(8) == 0}
	if s.r.IntN(4) == 0 {
		j.Comment = "the user's own"
	}
	switch s.r.IntN(6) {
	case 0:
		j.On = names("b", 3)
	case 1:
		j.On, j.Nodes = []string{"b1", "a2", "b3", "a4"}, 4
	case 2:
		if s.r.IntN(3) == 0 {
			j.On, j.Nodes = []string{"a1", "x1"}, 2
		}
	}
	id := s.submit(j)
	s.jobs = append(s.jobs, id)
	s.note("job %d wants %d of %v", id, j.Nodes, j.On)
}
