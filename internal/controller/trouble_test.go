package controller

import (
	"context"
	"time"

	"github.com/midair-hpc/midair/internal/cloud"
)

// trouble is what a memoryCloud does to instances that are there.
type trouble struct {
	slow      time.Duration   // from a Terminate call to the end; not billed
	protected map[string]bool // by id: a Terminate call that names one fails as a whole
	cutBefore int             // Launch calls that never arrive and look as if they might have
	loseEnd   int             // Terminate calls that take effect, the answer is lost
	givenUp   int             // calls of any kind that hang until they are given up
	hidden    map[string]bool // by id: not listed any more
	// lateNames: List knows a new instance's token only, until it is named.
	lateNames bool
	unnamed   map[string]bool // by id
	badNames  int             // Name calls that fail
	names     int             // instances named
}

func newTrouble() trouble {
	return trouble{protected: map[string]bool{}, hidden: map[string]bool{}, unnamed: map[string]bool{}}
}

// mend takes the faults away. What is hidden stays so, and what is unnamed.
func (t *trouble) mend() {
	clear(t.protected)
	t.slow, t.cutBefore, t.loseEnd, t.givenUp, t.badNames, t.lateNames = 0, 0, 0, 0, 0, false
}

func ended(i cloud.Instance) bool {
	return i.State == cloud.ShuttingDown || i.State == cloud.Terminated
}

func cut(n *int) *cloud.Error {
	if *n == 0 {
		return nil
	}
	*n--
	return &cloud.Error{Class: cloud.Unknown, Message: "the connection was cut", Ambiguous: true}
}

func (m *memoryCloud) refuses(ids []string) *cloud.Error {
	for _, id := range ids {
		if i := m.find(id); m.protected[id] && i != nil && !ended(*i) {
			return &cloud.Error{Class: cloud.Unknown, Code: "OperationNotPermitted", Message: "the instance " + id + " may not be terminated"}
		}
	}
	return nil
}

// end ends an instance by request. Its time is over at once, as on EC2.
func (m *memoryCloud) end(i *cloud.Instance) {
	i.State, i.EndedAt, i.StateCause = cloud.Terminated, m.now(), "terminated by request"
	if m.slow > 0 {
		i.State = cloud.ShuttingDown
	}
}

// reclaim is a spot interruption that the node does not tell of.
func (m *memoryCloud) reclaim(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if i := m.find(id); i != nil && !ended(*i) {
		i.State, i.EndedAt, i.StateCause, i.Reclaimed = cloud.ShuttingDown, m.now(), "Server.SpotInstanceTermination", true
	}
}

// stop stops an instance by hand, or by a spot interruption that stops.
func (m *memoryCloud) stop(id string, reclaimed bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if i := m.find(id); i != nil && !ended(*i) {
		i.State, i.StateCause, i.Reclaimed = cloud.Stopped, "Client.UserInitiatedShutdown", reclaimed
	}
}

// hide ends an instance and forgets it at once.
func (m *memoryCloud) hide(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if i := m.find(id); i != nil && !ended(*i) {
		m.end(i)
		m.hidden[id] = true
	}
}

// tagged is an instance as its tags describe it.
func (m *memoryCloud) tagged(i *cloud.Instance) cloud.Instance {
	t := *i
	if m.unnamed[i.ID] {
		t.Node, t.Generation, t.Launch, t.Tags = "", 0, "", nil
	}
	return t
}

func (m *memoryCloud) Name(ctx context.Context, list []cloud.Instance) error {
	if e := m.hung(ctx); e != nil {
		return e
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, i := range list {
		if m.badNames > 0 {
			m.badNames--
			return &cloud.Error{Class: cloud.Throttled, Message: "too many calls"}
		}
		m.names++
		delete(m.unnamed, i.ID)
	}
	return nil
}

func (m *memoryCloud) id() string              { return m.name }
func (m *memoryCloud) boots(node string) bool  { return !m.neverBooting[node] }
func (m *memoryCloud) forgot(id string) bool   { return m.hidden[id] }
func (m *memoryCloud) there() []cloud.Instance { return there(m) }
