package controller

import (
	"os"
	"path/filepath"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/slurm/slurmtest"
)

func (s *soak) someNode() string {
	all := append(append(names("a", 6), names("b", 3)...), "x1")
	return all[s.r.IntN(len(all))]
}

// someInstance gives one that is there, if any.
func (s *soak) someInstance(m stand) *cloud.Instance {
	if list := there(m); len(list) > 0 {
		return &list[s.r.IntN(len(list))]
	}
	return nil
}

// event is one thing that people, Slurm, the clouds or the machine do.
func (s *soak) event() {
	m := s.stands[s.r.IntN(3)/2] // east twice as often
	switch k := s.r.IntN(20); {
	case k < 6:
		s.people()
	case k < 9:
		s.admin()
	case k < 12:
		s.slurmTrouble()
	case k < 15:
		m.market(s)
	case k < 17:
		m.calling(s)
	case k < 19:
		m.befalls(s)
	default:
		s.machine()
	}
}

func (s *soak) people() {
	if len(s.jobs) == 0 || s.r.IntN(6) > 0 {
		s.submitSome()
		return
	}
	id := s.jobs[s.r.IntN(len(s.jobs))]
	if s.held(id)() {
		s.note("release %d", id)
		s.ctld.Release(id)
		return
	}
	s.note("cancel %d", id)
	s.ctld.Cancel(id)
}

func (s *soak) submitSome() {
	j := slurmtest.Job{Nodes: 1 + s.r.IntN(3), Duration: time.Duration(5+s.r.IntN(200)) * time.Second, NoBatch: s.r.IntN(8) == 0}
	if s.r.IntN(4) == 0 {
		j.Duration = time.Duration(s.r.IntN(120)) * time.Minute
	}
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
	s.note("job %d wants %d of %v for %s", id, j.Nodes, j.On, j.Duration)
}

func (s *soak) admin() {
	n := s.someNode()
	switch s.r.IntN(6) {
	case 0:
		s.note("power up %s", n)
		_ = s.ctld.UpdateNodes(s.ctx, []string{n}, powerUp)
	case 1:
		s.note("power down %s", n)
		_ = s.ctld.UpdateNodes(s.ctx, []string{n}, powerDownNow)
	case 2:
		s.note("drain %s", n)
		_ = s.ctld.UpdateNodes(s.ctx, []string{n}, slurmUpdate{State: "drain", Reason: "new disk"})
	case 3:
		s.note("set %s down", n)
		_ = s.ctld.UpdateNodes(s.ctx, []string{n}, slurmUpdate{State: "down", Reason: "bad cable"})
	case 4:
		s.note("maintain %s", n)
		s.ctld.Maintain(n, true)
	case 5:
		s.adminLetsGo()
	}
}

// adminLetsGo gives back all nodes that the admin has.
func (s *soak) adminLetsGo() {
	s.note("the admin lets go")
	for _, n := range s.ctld.PeekNodes() {
		s.ctld.Maintain(n.Name, false)
		// A node in no pool is nobody's but the admin's.
		if n.State.Drained() || n.State.Down() && (n.Reason == "bad cable" || n.Name == "x1") {
			_ = s.ctld.UpdateNodes(s.ctx, []string{n.Name}, slurmUpdate{State: "resume"})
		}
	}
}

func (s *soak) slurmTrouble() {
	op, n, applied := slurmtest.Ops[s.r.IntN(len(slurmtest.Ops))], 1+s.r.IntN(8), s.r.IntN(2) == 0
	switch s.r.IntN(6) {
	case 0:
		s.note("slurmctld crashes")
		s.ctld.AskAgain()
	case 1:
		s.note("slurmctld is away")
		for _, op := range slurmtest.Ops {
			s.ctld.Break(op, 10+s.r.IntN(40), false)
		}
	case 2:
		s.dropRecords = !s.dropRecords
		s.note("hooks fail: %v", s.dropRecords)
	case 3:
		s.twiceRecords = !s.twiceRecords
		s.note("hooks run twice: %v", s.twiceRecords)
	default:
		s.note("%s fails %d times, applied %v", op, n, applied)
		s.ctld.Break(op, n, applied)
	}
}

// machine is trouble of the controller's host.
func (s *soak) machine() {
	switch {
	case s.r.IntN(8) == 0:
		s.loseLedger()
	case s.r.IntN(2) == 0:
		s.point = CrashPoints[s.r.IntN(len(CrashPoints))]
	case s.fuse == 0:
		s.fuse = 1 + s.r.IntN(8)
	}
}

// loseLedger ends the controller and removes its ledger, or damages it.
func (s *soak) loseLedger() {
	s.die()
	file := filepath.Join(s.dir, "ledger.db")
	for _, suffix := range []string{"", "-wal", "-shm"} {
		require.NoError(s.t, os.RemoveAll(file+suffix))
	}
	if s.r.IntN(2) == 0 {
		require.NoError(s.t, os.WriteFile(file, make([]byte, 8192), 0o640))
	}
	s.note("the ledger is lost")
	s.ledgers++
	s.pass0(time.Duration(s.r.IntN(90)) * time.Second)
	s.start()
	s.rebuilds = s.c.adopting
	s.rebuilt = s.now
}
