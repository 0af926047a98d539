package controller

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/midair-hpc/midair/internal/cloud"
)

// memoryCloud is a cloud that exists in memory: tokens, stock per offering,
// and faults on demand. It buys nothing and stands for no real cloud.
type memoryCloud struct {
	now  func() time.Time
	name string // first part of its instances' ids

	mu        sync.Mutex
	instances []*cloud.Instance
	tokens    map[string]purchase
	launches  []cloud.LaunchRequest

	// Faults. Counts are of calls to come.
	stock        map[cloud.Offering]int         // absent: any number
	classes      map[cloud.Offering]cloud.Class // what Launch answers for an offering
	lose         int                            // Launch takes effect, the answer is lost
	throttle     int                            // Launch calls
	busy         int                            // Terminate calls that are throttled
	unlisted     int                            // List calls that fail
	lag          time.Duration                  // until List shows a new instance
	noAddr       bool                           // Launch cannot say the address yet
	stillborn    int                            // instances that have ended when Launch answers
	hang         bool                           // no call returns before its context ends
	neverBooting map[string]bool                // by node
	console      string
	onLaunch     func(cloud.LaunchRequest)
	trouble
}

type purchase struct {
	request cloud.LaunchRequest
	ids     []string
	short   []cloud.Shortfall
}

func newCloud(name string, now func() time.Time) *memoryCloud {
	return &memoryCloud{trouble: newTrouble(), name: name, now: now, tokens: map[string]purchase{}, stock: map[cloud.Offering]int{},
		classes: map[cloud.Offering]cloud.Class{}, neverBooting: map[string]bool{}}
}

// mend takes all faults away.
func (m *memoryCloud) mend() {
	clear(m.stock)
	clear(m.classes)
	clear(m.neverBooting)
	m.lose, m.throttle, m.busy, m.unlisted, m.lag, m.noAddr, m.stillborn, m.hang = 0, 0, 0, 0, 0, false, 0, false
	m.trouble.mend()
}

// hung blocks until ctx ends if the cloud hangs.
func (m *memoryCloud) hung(ctx context.Context) *cloud.Error {
	m.mu.Lock()
	hang, givenUp := m.hang, cut(&m.givenUp)
	m.mu.Unlock()
	if !hang {
		return givenUp
	}
	<-ctx.Done()
	return &cloud.Error{Class: cloud.Unknown, Message: "the call was interrupted", Ambiguous: true, Err: ctx.Err()}
}

func (m *memoryCloud) setHang(on bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hang = on
}

func throttled(n *int) *cloud.Error {
	if *n == 0 {
		return nil
	}
	*n--
	return &cloud.Error{Class: cloud.Throttled, Code: "RequestLimitExceeded", Message: "too many calls"}
}

func (m *memoryCloud) Launch(ctx context.Context, r cloud.LaunchRequest) (cloud.LaunchResult, error) {
	if m.onLaunch != nil {
		m.onLaunch(r)
	}
	if e := m.hung(ctx); e != nil {
		return cloud.LaunchResult{}, e
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.launches = append(m.launches, r)
	if e := cut(&m.cutBefore); e != nil {
		return cloud.LaunchResult{}, e
	}
	if e := throttled(&m.throttle); e != nil {
		return cloud.LaunchResult{}, e
	}
	p, known := m.tokens[r.Token]
	if known && !sameCall(p.request, r) {
		return cloud.LaunchResult{}, &cloud.Error{Class: cloud.Config, Code: "IdempotentParameterMismatch", Message: "the token was used for another request"}
	}
	if !known {
		switch c := m.classes[r.Offerings[0]]; c {
		case "", cloud.Quota, cloud.SpecMismatch:
		default:
			return cloud.LaunchResult{}, &cloud.Error{Class: c, Message: "the cloud says " + string(c)}
		}
		p = m.buy(r)
		m.tokens[r.Token] = p
	}
	if m.lose > 0 {
		m.lose--
		return cloud.LaunchResult{}, &cloud.Error{Class: cloud.Unknown, Message: "the connection was lost before the answer came", Ambiguous: true}
	}
	res := cloud.LaunchResult{Shortfalls: p.short}
	for _, id := range p.ids {
		i := *m.find(id)
		if m.noAddr {
			i.Addr = ""
		}
		res.Instances = append(res.Instances, i)
	}
	return res, nil
}

// sameCall compares as EC2 does: everything that was sent, tags too.
func sameCall(a, b cloud.LaunchRequest) bool { return fmt.Sprint(a) == fmt.Sprint(b) }

// buy takes what each offering has, in their order; all from one of them or
// nothing, if it is all or nothing.
func (m *memoryCloud) buy(r cloud.LaunchRequest) purchase {
	p := purchase{request: r}
	nodes := r.Nodes
	for _, o := range r.Offerings {
		if len(nodes) == 0 {
			break
		}
		n, class := len(nodes), cloud.OutOfStock
		left, limited := m.stock[o]
		if limited {
			n = min(n, left)
		}
		if c := m.classes[o]; c != "" {
			n, class = 0, c
		}
		if r.AllOrNothing && n < len(nodes) {
			n = 0
		}
		if missing := len(nodes) - n; missing > 0 {
			p.short = append(p.short, cloud.Shortfall{Offering: o, Nodes: missing, Err: &cloud.Error{Class: class, Code: "NoCapacity", Message: "no more " + o.Key()}})
		}
		if limited {
			m.stock[o] = left - n
		}
		for _, node := range nodes[:n] {
			p.ids = append(p.ids, m.create(r, node, o))
		}
		nodes = nodes[n:]
	}
	return p
}

func (m *memoryCloud) create(r cloud.LaunchRequest, node cloud.NodeRequest, o cloud.Offering) string {
	k := len(m.instances) + 1
	i := &cloud.Instance{ID: fmt.Sprintf("%s-%04d", m.name, k), Node: node.Name, Generation: node.Generation, Launch: node.Launch, Token: r.Token,
		Pool: r.Pool, Offering: o, Addr: fmt.Sprintf("%s.%d", m.name, k), HostName: node.Name, State: cloud.Running, CreatedAt: m.now(), Tags: node.Tags}
	if m.stillborn > 0 {
		m.stillborn--
		i.State, i.EndedAt, i.StateCause = cloud.Terminated, m.now(), "the host failed"
	}
	m.unnamed[i.ID] = m.lateNames
	m.instances = append(m.instances, i)
	return i.ID
}

func (m *memoryCloud) find(id string) *cloud.Instance {
	k := slices.IndexFunc(m.instances, func(i *cloud.Instance) bool { return i.ID == id })
	if k < 0 {
		return nil
	}
	return m.instances[k]
}

// vanish ends an instance as a cloud does that takes it back.
func (m *memoryCloud) vanish(id string) {
	if i := m.find(id); i.Live() {
		i.State, i.EndedAt, i.StateCause = cloud.Terminated, m.now(), "taken back"
	}
}

func (m *memoryCloud) List(ctx context.Context, _ string) ([]cloud.Instance, error) {
	if e := m.hung(ctx); e != nil {
		return nil, e
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := throttled(&m.unlisted); e != nil {
		return nil, e
	}
	var list []cloud.Instance
	for _, i := range m.instances {
		if m.now().Sub(i.CreatedAt) >= m.lag && (!ended(*i) || m.now().Sub(i.EndedAt) < time.Hour) && !m.hidden[i.ID] {
			list = append(list, m.tagged(i))
		}
	}
	return list, nil
}

func (m *memoryCloud) Terminate(ctx context.Context, ids []string) error {
	if e := m.hung(ctx); e != nil {
		return e
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := throttled(&m.busy); e != nil {
		return e
	}
	if e := m.refuses(ids); e != nil {
		return e
	}
	for _, id := range ids {
		if i := m.find(id); i != nil && !ended(*i) {
			m.end(i)
		}
	}
	if e := cut(&m.loseEnd); e != nil {
		return e
	}
	return nil
}

func (m *memoryCloud) Quotes(_ context.Context, offerings []cloud.Offering) ([]cloud.Quote, error) {
	var quotes []cloud.Quote
	for _, o := range offerings {
		quotes = append(quotes, cloud.Quote{Offering: o, Price: 1_000_000})
	}
	return quotes, nil
}

func (m *memoryCloud) Console(ctx context.Context, _ string) (string, error) {
	if e := m.hung(ctx); e != nil {
		return "", e
	}
	return m.console, nil
}

// all gives every instance that was ever made.
func (m *memoryCloud) all() []cloud.Instance {
	m.mu.Lock()
	defer m.mu.Unlock()
	list := make([]cloud.Instance, len(m.instances))
	for k, i := range m.instances {
		list[k] = *i
	}
	return list
}

// live gives the instances that run.
func (m *memoryCloud) live() []cloud.Instance {
	return slices.DeleteFunc(m.all(), func(i cloud.Instance) bool { return !i.Live() })
}
