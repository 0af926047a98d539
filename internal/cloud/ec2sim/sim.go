package ec2sim

import (
	"cmp"
	"context"
	crand "crypto/rand"
	"encoding/binary"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/midair-hpc/midair/internal/cloud"
)

// Options says what cloud to make. All are optional.
type Options struct {
	// Catalogue is what is sold; nil: DefaultCatalogue. It is not changed.
	Catalogue *Catalogue
	// Credentials that are known; nil: DefaultCredential alone.
	Credentials []Credential
	// AnySignature takes requests whose signature was made with another secret
	// key. It is for tests that make requests by hand.
	AnySignature bool
	Delays       Delays
	Lag          Lag
	// Throttle turns EC2's request rate limits on.
	Throttle bool
	// Machines makes what instances run on; nil: nothing.
	Machines Machines
	// StateDir keeps the cloud over restarts; empty: it lives in memory.
	StateDir string
	Now      func() time.Time // nil: time.Now
	// Seed makes ids and spot prices repeatable; 0: by chance.
	Seed uint64
	Log  *slog.Logger // nil: slog.Default()
}

// Delays is how long instances take from state to state.
type Delays struct {
	Pending      time.Duration // to running
	ShuttingDown time.Duration // to terminated
	Stopping     time.Duration // to stopped
	Boot         time.Duration // of the machine, from running and being named
}

// Lag is EC2's eventual consistency: how long after a call its effect is seen
// by others.
type Lag struct {
	ID      time.Duration // until an instance can be found by any call
	Address time.Duration // until it is shown with its address
	Tags    time.Duration // until tags of CreateTags are shown
}

// Sim is the cloud. It is safe for concurrent use.
type Sim struct {
	cat          *Catalogue
	creds        map[string]Credential
	anySignature bool
	delays       Delays
	now          func() time.Time
	log          *slog.Logger
	mux          *http.ServeMux

	machines Machines
	dir      string
	throttle bool
	life     context.Context // until Close
	finish   context.CancelFunc
	closed   <-chan struct{}
	poke     chan struct{} // something may be due earlier
	slots    chan struct{}
	working  sync.WaitGroup

	mu           sync.Mutex
	rand         *rand.Rand
	priceSeed    uint64
	lag          Lag
	types        map[string]*Type
	subnets      map[string]*subnet
	capacity     map[string]int
	quotas       map[string]int
	instances    map[string]*instance
	order        []*instance // by creation
	seq          uint64
	due          dueQueue
	inUse        map[cloud.Offering]int // instances that hold capacity
	vcpus        map[string]int         // by quota code
	tokens       map[string]*token
	prices       map[string][]pricePoint // set by hand, by type/zone
	reservations []Reservation
	reserved     map[string]int // instances that hold a reservation's capacity
	faults       []*Fault
	lastFault    int
	denied       map[string]bool // actions
	expired      map[string]bool // access keys
	asked        map[string]bool // quotas with an open request
	buckets      map[string]*bucket
	action       string    // that is being carried out
	wakeAt       time.Time // until when run sleeps
	touched      map[string]bool
	changed      bool
	calls        map[string]int
}

// New makes a cloud with nothing running.
func New(o Options) (*Sim, error) {
	if o.Catalogue == nil {
		o.Catalogue = DefaultCatalogue()
	}
	if err := o.Catalogue.check(); err != nil {
		return nil, fmt.Errorf("make the cloud: %w", err)
	}
	if o.Credentials == nil {
		o.Credentials = []Credential{DefaultCredential}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Seed == 0 {
		var b [8]byte
		if _, err := crand.Read(b[:]); err != nil {
			return nil, fmt.Errorf("make the cloud: %w", err)
		}
		o.Seed = binary.LittleEndian.Uint64(b[:])
	}
	s := &Sim{
		cat: o.Catalogue, creds: map[string]Credential{}, anySignature: o.AnySignature, delays: o.Delays, lag: o.Lag, now: o.Now, log: o.Log,
		rand: rand.New(rand.NewPCG(o.Seed, 1)), priceSeed: o.Seed,
		types: map[string]*Type{}, subnets: map[string]*subnet{},
		capacity: maps.Clone(o.Catalogue.Capacity), quotas: maps.Clone(o.Catalogue.Quotas),
		instances: map[string]*instance{}, inUse: map[cloud.Offering]int{}, vcpus: map[string]int{},
		tokens: map[string]*token{}, prices: map[string][]pricePoint{}, calls: map[string]int{},
		machines: o.Machines, dir: o.StateDir, throttle: o.Throttle, poke: make(chan struct{}, 1), slots: make(chan struct{}, workers),
		reserved: map[string]int{}, denied: map[string]bool{}, expired: map[string]bool{}, asked: map[string]bool{}, buckets: map[string]*bucket{}, touched: map[string]bool{},
	}
	s.life, s.finish = context.WithCancel(context.Background())
	s.closed = s.life.Done()
	if s.capacity == nil {
		s.capacity = map[string]int{}
	}
	if s.quotas == nil {
		s.quotas = map[string]int{}
	}
	for _, c := range o.Credentials {
		s.creds[c.AccessKeyID] = c
	}
	for i := range o.Catalogue.Types {
		s.types[o.Catalogue.Types[i].Name] = &o.Catalogue.Types[i]
	}
	for _, r := range o.Catalogue.Reservations {
		if r.EndIn > 0 {
			r.End = o.Now().Add(r.EndIn)
		}
		s.reservations = append(s.reservations, r)
	}
	for _, sub := range o.Catalogue.Subnets {
		s.subnets[sub.ID] = newSubnet(sub)
	}
	if s.dir != "" {
		if err := s.load(); err != nil {
			return nil, fmt.Errorf("make the cloud: %w", err)
		}
	}
	s.mux = http.NewServeMux()
	s.mux.HandleFunc("/", s.serveAPI)
	s.control(s.mux)
	if s.machines != nil {
		s.locked(s.resume)
		s.working.Add(1)
		go s.run()
	}
	return s, nil
}

// ServeHTTP answers AWS's calls.
func (s *Sim) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// Close ends what the cloud does by itself, and the calls that hang. With a
// state folder the instances and their machines live on.
func (s *Sim) Close() error {
	s.finish()
	s.working.Wait()
	return nil
}

// Region is where the cloud is.
func (s *Sim) Region() string { return s.cat.Region }

// Calls gives how many calls of each action there were, the failed ones
// included.
func (s *Sim) Calls() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.calls)
}

// SetCapacity says how many instances of an offering may run at a time. Those
// above it that run already go on.
func (s *Sim) SetCapacity(o cloud.Offering, n int) error {
	if t := s.types[o.Type]; t == nil || !t.soldIn(o.Zone) || !slices.Contains(s.cat.Zones, o.Zone) || (o.Market != cloud.OnDemand && o.Market != cloud.Spot) {
		return fmt.Errorf("set capacity: %s is not sold here", o)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.capacity[o.Key()] = n
	return s.saveAll()
}

// SetQuota sets a vCPU quota by its code, such as L-417A185B.
func (s *Sim) SetQuota(code string, vcpus int) error {
	if _, ok := quotaNamed(code); !ok {
		return fmt.Errorf("set quota: %q is no vCPU quota of EC2 that is known here", code)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.quotas[code] = vcpus
	return s.saveAll()
}

// locked runs fn with the cloud up to date.
func (s *Sim) locked(fn func(now time.Time)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now().UTC()
	s.settle(now)
	fn(now)
	if err := s.save(); err != nil {
		s.log.Error("write the cloud's state", "err", err)
	}
	if next := s.nextDue(); s.machines != nil && !next.IsZero() && next.Before(s.wakeAt) {
		s.wakeAt = next
		select {
		case s.poke <- struct{}{}:
		default:
		}
	}
}

// nextDue is when the next thing happens; zero: nothing does.
func (s *Sim) nextDue() time.Time {
	if len(s.due) == 0 {
		return time.Time{}
	}
	return s.due[0].dueAt()
}

// Settle lets everything happen that is due. Every call does it first; it is
// for those who move the clock and look without a call.
func (s *Sim) Settle() { s.locked(func(time.Time) {}) }

// newID gives an id in EC2's shape.
func (s *Sim) newID(prefix string) string {
	return fmt.Sprintf("%s-0%016x", prefix, s.rand.Uint64())
}

func sortBySeq(list []*instance) {
	slices.SortFunc(list, func(a, b *instance) int { return cmp.Compare(a.Seq, b.Seq) })
}
