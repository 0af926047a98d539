package cloudtest

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/hostlist"
)

// reference is the account of a cloud that exists in memory only: the smallest
// thing that keeps the contract, written to test the suite. It buys nothing,
// runs nothing, and stands for no real cloud.
//
// bug makes it break the contract in one way, for the suite to notice.
type reference struct {
	bug bug
	// later: what differs from node to node is seen only after Name.
	later bool

	mu        sync.Mutex
	instances []*machine
	tokens    map[string]*purchase
	left      map[cloud.Offering]int // absent: any number
	limit     int                    // of live instances; 0: none
	lose      bool
	lag, slow time.Duration
	throttle  int
}

// machine is one instance; its state follows from the times.
type machine struct {
	cloud.Instance
	cluster string
	lag     time.Duration
	named   bool
	asked   time.Time // to end; zero: not
	gone    time.Time
}

// purchase is what a token has bought.
type purchase struct {
	request    cloud.LaunchRequest
	ids        []string
	shortfalls []cloud.Shortfall
}

// How long an instance boots, and an answer to Launch takes.
const (
	bootTime = 20 * time.Millisecond
	callTime = time.Millisecond
)

var sizes = map[string]int{"small": 2, "medium": 4, "large": 8} // CPUs

// handle is one provider on the account. own holds what a provider must not
// keep to itself.
type handle struct {
	*reference
	own map[string]*purchase
}

func (a *reference) open() *handle { return &handle{a, map[string]*purchase{}} }

func newReference(b bug) Harness { return referenceHarness(b, false) }

// newLaterReference is an account whose create call cannot tell its instances
// apart.
func newLaterReference(b bug) Harness { return referenceHarness(b, true) }

func referenceHarness(b bug, later bool) Harness {
	return Harness{
		NamedLater: later,
		New: func(testing.TB) Account {
			a := &reference{bug: b, later: later, tokens: map[string]*purchase{}, left: map[cloud.Offering]int{}}
			return Account{
				Provider: a.open(), Breaks: a.breaks(),
				Reopen: func(testing.TB) cloud.Provider { return a.open() },
			}
		},
		Offerings: []cloud.Offering{
			{Type: "small", Zone: "za", Market: cloud.Spot}, {Type: "medium", Zone: "zb", Market: cloud.Spot}, {Type: "large", Zone: "za", Market: cloud.OnDemand},
		},
		CPUs: 2, MemoryMiB: 1024,
		Delay: 200 * time.Millisecond,
	}
}

func (a *reference) breaks() Breaks {
	set := func(change func()) {
		a.mu.Lock()
		defer a.mu.Unlock()
		change()
	}
	return Breaks{
		OutOfStock: func(_ testing.TB, o cloud.Offering, left int) { set(func() { a.left[o] = left }) },
		Quota:      func(_ testing.TB, limit int) { set(func() { a.limit = limit }) },
		LoseAnswer: func(testing.TB) { set(func() { a.lose = true }) },
		LagList:    func(_ testing.TB, d time.Duration) { set(func() { a.lag = d }) },
		Throttle:   func(_ testing.TB, n int) { set(func() { a.throttle = n }) },
		SlowDelete: func(_ testing.TB, d time.Duration) { set(func() { a.slow = d }) },
		NoRegister: func(testing.TB) {}, // nothing here ever registers
		Vanish: func(_ testing.TB, id string) {
			set(func() {
				m := a.find(id)
				m.asked, m.gone, m.StateCause = time.Now(), time.Now(), "taken back by the cloud"
				if a.bug == vanishesSilently {
					m.StateCause = ""
				}
				if a.bug == vanishesFromList {
					a.instances = slices.DeleteFunc(a.instances, func(o *machine) bool { return o == m })
				}
			})
		},
		Clear: func(testing.TB) {
			set(func() {
				clear(a.left)
				a.limit, a.lose, a.lag, a.slow, a.throttle = 0, false, 0, 0, 0
				for _, m := range a.instances {
					m.lag = 0
				}
			})
		},
	}
}

func (a *reference) find(id string) *machine {
	for _, m := range a.instances {
		if m.ID == id {
			return m
		}
	}
	return nil
}

// show gives an instance as it is now.
func (a *reference) show(m *machine) cloud.Instance {
	i, now := m.Instance, time.Now()
	if a.bug != sharesTags {
		i.Tags = maps.Clone(m.Tags)
	}
	switch {
	case m.asked.IsZero():
		i.State = cloud.Pending
		if now.Sub(m.CreatedAt) >= bootTime && a.bug != neverRuns {
			i.State = cloud.Running
		}
	case now.Before(m.gone):
		i.State = cloud.ShuttingDown
		if a.bug == hidesShuttingDown {
			i.State = cloud.Running
		}
	default:
		i.State = cloud.Terminated
		i.EndedAt = m.asked
		if a.bug == forgetsEndedAt {
			i.EndedAt = time.Time{}
		}
	}
	return i
}

func (a *reference) live() int {
	n := 0
	for _, m := range a.instances {
		if m.asked.IsZero() {
			n++
		}
	}
	return n
}

func (a *reference) refuse() error {
	if a.throttle == 0 {
		return nil
	}
	a.throttle--
	class := cloud.Throttled
	if a.bug == callsThrottlingUnknown {
		class = cloud.Unknown
	}
	return &cloud.Error{Class: class, Code: "RequestLimitExceeded", Message: "too many calls"}
}

func notSold(o cloud.Offering) *cloud.Error {
	return &cloud.Error{Class: cloud.Config, Message: o.Key() + " is not for sale"}
}

func (h *handle) List(ctx context.Context, cluster string) ([]cloud.Instance, error) {
	a := h.reference
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.refuse(); err != nil {
		return nil, err
	}
	var list []cloud.Instance
	if a.bug == failsWhenEmpty && len(a.instances) == 0 {
		return nil, &cloud.Error{Class: cloud.Unknown, Message: "there is no registry"}
	}
	for _, m := range a.instances {
		switch {
		case m.cluster != cluster && a.bug != listsAllClusters:
		case time.Since(m.CreatedAt) < m.lag:
		case !m.asked.IsZero() && a.bug == hidesEnded:
		default:
			i := a.show(m)
			if a.later && !m.named {
				a.unname(&i)
			}
			if a.bug == listsWithoutToken {
				i.Token, i.Pool = "", ""
			}
			list = append(list, i)
		}
	}
	if a.bug == listsTwice && len(list) > 0 {
		list = append(list, list[0])
	}
	return list, nil
}

func (h *handle) Terminate(ctx context.Context, ids []string) error {
	a := h.reference
	if a.bug == waitsForDelete {
		a.mu.Lock()
		slow := a.slow
		a.mu.Unlock()
		defer time.Sleep(slow)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.refuse(); err != nil {
		return err
	}
	for _, id := range ids {
		m := a.find(id)
		switch {
		case m == nil && a.bug == demandsKnownIDs:
			return &cloud.Error{Class: cloud.Config, Message: "no instance " + id}
		case m != nil && !m.asked.IsZero() && a.bug == demandsLiveIDs:
			return &cloud.Error{Class: cloud.Config, Message: id + " has ended"}
		case m == nil, !m.asked.IsZero() && a.bug != movesEnd:
			continue
		case a.bug == sparesBooting && time.Since(m.CreatedAt) < bootTime:
			continue
		case a.bug == endsOnlyListed && time.Since(m.CreatedAt) < m.lag:
			continue
		}
		a.end(m)
		if a.bug == endsByNode {
			for _, o := range a.instances {
				if o.Node == m.Node {
					a.end(o)
				}
			}
		}
	}
	return nil
}

func (a *reference) end(m *machine) {
	m.asked, m.StateCause = time.Now(), "terminated by request"
	m.gone = m.asked.Add(a.slow)
}

func (h *handle) Quotes(ctx context.Context, offerings []cloud.Offering) ([]cloud.Quote, error) {
	var quotes []cloud.Quote
	for _, o := range offerings {
		if sizes[o.Type] == 0 && h.bug != sellsAnything {
			return nil, notSold(o)
		}
		q := cloud.Quote{Offering: o, Price: 1000 * cloud.MicroUSD(sizes[o.Type]), CPUs: sizes[o.Type], MemoryMiB: 1024 * sizes[o.Type]}
		if h.bug == quotesForFree {
			q.Price = 0
		}
		quotes = append(quotes, q)
	}
	if h.bug == sortsQuotes {
		slices.SortFunc(quotes, func(x, y cloud.Quote) int { return int(x.Price - y.Price) })
	}
	return quotes, nil
}

// unname takes away what only Name says.
func (a *reference) unname(i *cloud.Instance) {
	shared := map[string]string{
		cloud.TagCluster: i.Tags[cloud.TagCluster], cloud.TagPool: i.Pool, cloud.TagToken: i.Token, cloud.TagNodes: a.nodesOf(i.Token),
	}
	i.Node, i.Launch, i.Tags = "", "", shared
	if a.bug != namesHalf {
		i.Generation = 0
	}
	if a.bug == losesUnnamed {
		delete(i.Tags, cloud.TagNodes)
	}
}

func (a *reference) nodesOf(token string) string {
	var names []string
	for _, n := range a.tokens[token].request.Nodes {
		names = append(names, n.Name)
	}
	return hostlist.FoldSorted(names)
}

// Name has nothing to do where the create call says everything.
func (h *handle) Name(ctx context.Context, list []cloud.Instance) error {
	a := h.reference
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, i := range list {
		m := a.find(i.ID)
		switch {
		case a.bug == namesOnce && m.named:
			return &cloud.Error{Class: cloud.Config, Message: i.ID + " has a name"}
		case a.bug == namesLiveOnly && !m.asked.IsZero():
			return &cloud.Error{Class: cloud.Config, Message: i.ID + " has ended"}
		}
		m.named = a.bug != neverNames
	}
	return ctx.Err()
}

func (h *handle) Console(ctx context.Context, id string) (string, error) {
	a := h.reference
	a.mu.Lock()
	defer a.mu.Unlock()
	m := a.find(id)
	if m == nil {
		return "", &cloud.Error{Class: cloud.Config, Message: "no instance " + id}
	}
	if a.bug == consoleOfLiveOnly && !m.asked.IsZero() || a.bug == consoleAfterBootOnly && time.Since(m.CreatedAt) < bootTime {
		return "", &cloud.Error{Class: cloud.Unknown, Message: "no console for " + id}
	}
	return "booted\n", nil
}
