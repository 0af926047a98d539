package controller

import (
	"time"

	"github.com/midair-hpc/midair/internal/cloud"
)

// What a soak does to a cloud in memory.

func (m *memoryCloud) market(s *soak) {
	o := bOnly
	if m == s.east {
		o = []cloud.Offering{aSmall, aLarge}[s.r.IntN(2)]
	}

	switch s.r.IntN(3) {
	case 0:
		m.stock[o] = s.r.IntN(3)
		s.note("%s has %d left", o, m.stock[o])
	case 1:
		c := []cloud.Class{cloud.Unauthorized, cloud.Unknown, cloud.Quota, cloud.SpecMismatch, cloud.Config}[s.r.IntN(5)]
		s.note("%s answers %s", o, c)
		m.classes[o] = c
	case 2:
		s.note("%s is mended for now", m.name)
		m.mend()
	}
}

// calling is trouble with the clouds' interface.
func (m *memoryCloud) calling(s *soak) {
	switch s.r.IntN(8) {
	case 0:
		m.lose = 1 + s.r.IntN(6)
	case 1:
		m.cutBefore, m.loseEnd = s.r.IntN(4), s.r.IntN(4)
	case 2:
		m.throttle, m.busy, m.unlisted = s.r.IntN(4), s.r.IntN(4), s.r.IntN(4)
	case 3:
		m.lag, m.noAddr = time.Duration(s.r.IntN(120))*time.Second, s.r.IntN(2) == 0
	case 4:
		m.givenUp = 1 + s.r.IntN(5)
	case 5:
		m.lateNames, m.badNames = true, s.r.IntN(6)
	case 6:
		m.slow = time.Duration(s.r.IntN(300)) * time.Second
	case 7:
		if i := s.someInstance(m); i != nil {
			s.note("%s is protected", i.ID)
			m.protected[i.ID] = true
		}
	}
	s.note("%s is hard to talk to", m.name)
}

// befalls is what happens to instances.
func (m *memoryCloud) befalls(s *soak) {
	i := s.someInstance(m)
	if k := s.r.IntN(8); i == nil || k == 0 {
		n := s.someNode()
		s.note("%s does not boot", n)
		m.neverBooting[n] = true
	} else {
		s.note("%s of %s: %s", i.ID, i.Node, []string{"", "stillborn", "vanishes", "reclaimed", "reclaimed", "stopped", "stopped by the cloud", "forgotten"}[k])
		switch k {
		case 1:
			m.stillborn = 1
		case 2:
			m.vanish(i.ID)
		case 3, 4:
			m.reclaim(i.ID)
		case 5, 6:
			m.stop(i.ID, k == 6)
		case 7:
			m.hide(i.ID)
		}
	}
}
