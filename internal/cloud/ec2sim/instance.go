package ec2sim

import (
	"container/heap"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/midair-hpc/midair/internal/cloud"
)

// State is an instance's state, in EC2's words.
type State = cloud.InstanceState

var stateCodes = map[State]int{
	cloud.Pending: 0, cloud.Running: 16, cloud.ShuttingDown: 32, cloud.Terminated: 48, cloud.Stopping: 64, cloud.Stopped: 80,
}

// EC2 shows terminated instances for about an hour, and knows their client
// tokens for a day.
const (
	shownFor = time.Hour
	keptFor  = 24 * time.Hour
)

// spotNotice is how long before its end a spot instance is told.
const spotNotice = 2 * time.Minute

// instance is one machine. Times are UTC.
type instance struct {
	ID          string
	Seq         uint64
	Reservation string // r-…
	Offering    cloud.Offering
	Subnet      string
	Addr        netip.Addr
	Token       string // client token
	Index       int    // in its launch
	CreatedAt   time.Time
	LaunchedAt  time.Time // CreatedAt, or when it was started last
	Template    string    // lt-…
	Version     int
	Data        TemplateVersion
	CapacityID  string // cr-…, with market reserved
	Block       bool
	SpotRequest string // sir-…
	Tags        map[string]string
	Pending     []tagWrite

	State      State
	ReasonCode string // StateReason
	Reason     string
	Transition string    // StateTransitionReason
	EndedAt    time.Time // when shutting-down began
	GoneAt     time.Time // when it was terminated
	Next       State     // at NextAt, if that is not zero
	NextAt     time.Time
	// InterruptAt is when the cloud takes a spot instance back, or that of a
	// capacity block.
	InterruptAt time.Time
	NoBoot      bool // the fault: it runs without becoming a node

	machine
	place int // in the queue; -1: not in it
}

// tagWrite is a tag that is not shown before At.
type tagWrite struct {
	At    time.Time
	Key   string
	Value string
}

// holdsCapacity reports whether nobody else can have the machine.
func (i *instance) holdsCapacity() bool {
	return i.State != cloud.Terminated && i.State != cloud.Stopped
}

// counts reports whether its vCPUs count against the quota.
func (i *instance) counts() bool { return i.State == cloud.Pending || i.State == cloud.Running }

// dueAt is when the next thing happens to it by itself; zero: never.
func (i *instance) dueAt() time.Time {
	var at time.Time
	for _, t := range []time.Time{i.NextAt, i.InterruptAt, i.BootAt} {
		if !t.IsZero() && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	if i.State == cloud.Terminated {
		at = i.GoneAt.Add(keptFor)
	}
	return at
}

// move puts an instance into another state, with the books kept.
func (s *Sim) move(i *instance, to State, now time.Time) {
	held, counted := i.holdsCapacity(), i.counts()
	i.State, i.Next, i.NextAt = to, "", time.Time{}
	if held != i.holdsCapacity() {
		s.inUse[i.Offering] += sign(i.holdsCapacity())
		if i.CapacityID != "" {
			s.reserved[i.CapacityID] += sign(i.holdsCapacity())
		}
	}
	if counted != i.counts() {
		s.count(i, sign(i.counts()))
	}
	then := func(next State, after time.Duration) { i.Next, i.NextAt = next, now.Add(after) }
	switch to {
	case cloud.Pending:
		then(cloud.Running, s.delays.Pending)
	case cloud.ShuttingDown:
		i.EndedAt, i.InterruptAt, i.BootAt = now, time.Time{}, time.Time{}
		after := s.delays.ShuttingDown
		if f := s.instanceFault(i.Offering, func(f *Fault) bool { return f.SlowTerminate != 0 }); f != nil {
			after += time.Duration(f.SlowTerminate)
		}
		then(cloud.Terminated, after)
	case cloud.Running:
		s.planBoot(i, now)
	case cloud.Stopping:
		i.BootAt = time.Time{}
		then(cloud.Stopped, s.delays.Stopping)
	case cloud.Terminated:
		i.GoneAt = now
		s.subnets[i.Subnet].give(i.Addr)
	}
	s.schedule(i)
	s.touch(i)
}

func sign(up bool) int {
	if up {
		return 1
	}
	return -1
}

// count keeps the vCPUs in use. Reserved capacity counts as on-demand, except a
// capacity block.
func (s *Sim) count(i *instance, by int) {
	if i.Block {
		return
	}
	q := quotaOf(i.Offering.Type, i.Offering.Market == cloud.Spot)
	s.vcpus[q.Code] += by * s.types[i.Offering.Type].VCPUs
}

// end begins an instance's end.
func (s *Sim) end(i *instance, now time.Time, code, reason string) {
	i.ReasonCode, i.Reason = code, code+": "+reason
	if code == userShutdown {
		i.Transition = fmt.Sprintf("User initiated (%s)", now.Format("2006-01-02 15:04:05 GMT"))
	} else {
		i.Transition = i.Reason
	}
	s.move(i, cloud.ShuttingDown, now)
}

// Codes of StateReason.
const (
	userShutdown   = "Client.UserInitiatedShutdown"
	spotTerminated = "Server.SpotInstanceTermination"
	hostFailed     = "Server.InternalError"
	ownShutdown    = "Client.InstanceInitiatedShutdown"
	// What EC2 says at the end of a capacity block is not documented.
	blockEnded = "Server.CapacityBlockExpiration"
)

// settle lets everything happen that is due, in order of time.
func (s *Sim) settle(now time.Time) {
	for len(s.due) > 0 {
		i := s.due[0]
		at := i.dueAt()
		if at.IsZero() || at.After(now) {
			return
		}
		s.step(i, at)
	}
}

func (s *Sim) step(i *instance, at time.Time) {
	switch {
	case i.State == cloud.Terminated:
		s.forget(i)
	case !i.InterruptAt.IsZero() && !i.InterruptAt.After(at):
		if i.Block {
			s.end(i, at, blockEnded, "The capacity block has ended")
			return
		}
		s.end(i, at, spotTerminated, "Spot instance termination")
	case !i.BootAt.IsZero() && !i.BootAt.After(at):
		i.BootAt = time.Time{}
		s.power(i, true)
		s.schedule(i)
		s.touch(i)
	case (i.Next == cloud.Terminated || i.Next == cloud.Stopped) && s.powered(i):
		// It comes to that when its machine is gone.
		i.NextAt = time.Time{}
		s.power(i, false)
		s.schedule(i)
	default:
		s.move(i, i.Next, at)
	}
}

func (s *Sim) forget(i *instance) {
	delete(s.instances, i.ID)
	if at, ok := slices.BinarySearchFunc(s.order, i.Seq, func(o *instance, seq uint64) int { return int(int64(o.Seq - seq)) }); ok {
		s.order = slices.Delete(s.order, at, at+1)
	}
	if i.place >= 0 {
		heap.Remove(&s.due, i.place)
	}
	for _, key := range []string{runToken(i.Token), fleetToken(i.Token)} {
		if t := s.tokens[key]; t != nil && slices.Contains(t.IDs, i.ID) {
			delete(s.tokens, key)
			s.changed = true
		}
	}
	s.touch(i)
}

// schedule puts an instance into the queue at its place.
func (s *Sim) schedule(i *instance) {
	never := i.dueAt().IsZero()
	switch {
	case i.place < 0 && !never:
		heap.Push(&s.due, i)
	case i.place >= 0 && never:
		heap.Remove(&s.due, i.place)
	case i.place >= 0:
		heap.Fix(&s.due, i.place)
	}
}

// dueQueue has the instance to which something happens next in front.
type dueQueue []*instance

func (q dueQueue) Len() int { return len(q) }
func (q dueQueue) Less(a, b int) bool {
	if c := q[a].dueAt().Compare(q[b].dueAt()); c != 0 {
		return c < 0
	}
	return q[a].Seq < q[b].Seq
}
func (q dueQueue) Swap(a, b int) {
	q[a], q[b] = q[b], q[a]
	q[a].place, q[b].place = a, b
}

// Push implements heap.Interface.
func (q *dueQueue) Push(x any) {
	i := x.(*instance)
	i.place = len(*q)
	*q = append(*q, i)
}

// Pop implements heap.Interface.
func (q *dueQueue) Pop() any {
	old := *q
	i := old[len(old)-1]
	old[len(old)-1] = nil
	*q = old[:len(old)-1]
	i.place = -1
	return i
}

// visible finds an instance that calls can see by now.
func (s *Sim) visible(id string, now time.Time) (*instance, bool) {
	i, ok := s.instances[id]
	return i, ok && s.shown(i, now)
}

func (s *Sim) shown(i *instance, now time.Time) bool {
	if now.Before(i.CreatedAt.Add(s.lag.ID)) {
		return false
	}
	return i.State != cloud.Terminated || now.Sub(i.GoneAt) < shownFor
}

// tags gives an instance's tags as they are shown by now.
func (i *instance) tags(now time.Time) map[string]string {
	n := 0
	for _, w := range i.Pending {
		if w.At.After(now) {
			break
		}
		if i.Tags == nil {
			i.Tags = map[string]string{}
		}
		i.Tags[w.Key] = w.Value
		n++
	}
	if n > 0 {
		i.Pending = slices.Delete(i.Pending, 0, n)
		if len(i.Pending) == 0 {
			i.Pending = nil
		}
	}
	return i.Tags
}
