package planner

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/ledger"
)

// shelf is a pool with what is remembered of its offerings, for one tier.
type shelf struct {
	pool   *Pool
	policy Policy
	items  []item
	groups []group // in the order in which they are tried
}

// item is one offering of a shelf.
type item struct {
	offering cloud.Offering
	key      string
	price    cloud.MicroUSD // 0: not known
	// out is why it is passed over: for demands of at least out.Nodes nodes.
	// nil: it is not.
	out *ledger.MemoryEntry
	// probe: its breaker is half open, so one launch at a time may try it.
	probe bool
}

// group is the offerings of one entry and one market, best first.
type group struct {
	market cloud.Market
	items  []int
}

// first is the market that the tier tries before any other here.
func (s *shelf) first() cloud.Market {
	if len(s.groups) == 0 {
		return ""
	}
	return s.groups[0].market
}

// others reports whether the demand may be bought on other markets than the
// first, and if not, when it may (zero: never by itself).
func (s *shelf) others(now time.Time, d *Demand, back time.Time) (open bool, at time.Time) {
	switch s.policy.WhenOut {
	case Pause:
		return false, time.Time{}
	case Deadline:
		// To wait for the first market once more must leave time to start.
		if d.Latest.IsZero() {
			return false, time.Time{}
		}
		if back.IsZero() {
			back = now
		}
		return !now.Before(d.Latest) || back.After(d.Latest), d.Latest
	case Fallback, "":
		if s.policy.After <= 0 || d.Since.IsZero() {
			return true, now
		}
		at = d.Since.Add(s.policy.After)
		return !now.Before(at), at
	}
	return true, now
}

// back is when the first of the first market's offerings may be tried again;
// zero if none is remembered.
func (s *shelf) back(d *Demand) time.Time {
	var first time.Time
	for _, g := range s.groups {
		if g.market != s.first() {
			continue
		}
		for _, k := range g.items {
			if m := s.passedOver(k, d); m != nil && (first.IsZero() || m.Until.Before(first)) {
				first = m.Until
			}
		}
	}
	return first
}

// passedOver is why an offering is not for a demand of this size; nil: it is.
func (s *shelf) passedOver(k int, d *Demand) *ledger.MemoryEntry {
	m := s.items[k].out
	if m == nil {
		return nil
	}
	size := 1
	if d.AllOrNothing {
		size = len(d.Nodes)
	}
	if size < m.Nodes {
		return nil
	}
	return m
}

// choose gives the offerings to ask for the demand, all of one entry and
// market. probing tells what is being tried after its breaker was open.
func (s *shelf) choose(now time.Time, d *Demand, probing map[Key]bool) (offerings []int, probe bool) {
	open := true
	if s.policy.WhenOut != "" {
		open, _ = s.others(now, d, s.back(d))
	}
	for _, g := range s.groups {
		if g.market != s.first() && !open {
			continue
		}
		var free []int
		for n, k := range g.items {
			i := s.items[k]
			if d.Tried[i.key] || s.passedOver(k, d) != nil || d.Zone != "" && d.Zone != i.offering.Zone {
				continue
			}
			if i.probe {
				if n == 0 && len(free) == 0 && !probing[Key{s.pool.Provider, i.offering}] {
					return []int{k}, true
				}
				continue // somebody else finds out, or something better is there
			}
			free = append(free, k)
		}
		if len(free) > 0 {
			return free, false
		}
		// Nothing but offerings on probation: better one of them than nothing.
		for _, k := range g.items {
			i := s.items[k]
			if i.probe && !d.Tried[i.key] && !probing[Key{s.pool.Provider, i.offering}] && s.passedOver(k, d) == nil && (d.Zone == "" || d.Zone == i.offering.Zone) {
				return []int{k}, true
			}
		}
	}
	return nil, false
}

type shelfKey struct{ pool, tier string }

// shelves makes each pool's shelf for each tier that asks for it, once.
type shelves struct {
	in     *Input
	pools  map[string]*Pool
	memory map[Key]*ledger.MemoryEntry            // that hold for all pools
	byPool map[string]map[Key]*ledger.MemoryEntry // that hold for one
	quotas map[string]*ledger.MemoryEntry         // by provider and bucket
	made   map[shelfKey]*shelf
}

func newShelves(in *Input) *shelves {
	s := &shelves{in: in, pools: map[string]*Pool{}, memory: map[Key]*ledger.MemoryEntry{}, byPool: map[string]map[Key]*ledger.MemoryEntry{},
		quotas: map[string]*ledger.MemoryEntry{}, made: map[shelfKey]*shelf{}}
	for i := range in.Pools {
		if s.pools[in.Pools[i].Name] == nil {
			s.pools[in.Pools[i].Name] = &in.Pools[i]
		}
	}
	for i := range in.Memory {
		m := &in.Memory[i]
		k := Key{m.Provider, m.Offering}
		if !m.Until.After(in.Now) && m.Class != cloud.InitFailed {
			continue
		}
		held := s.memory
		if m.Pool != "" {
			if s.byPool[m.Pool] == nil {
				s.byPool[m.Pool] = map[Key]*ledger.MemoryEntry{}
			}
			held = s.byPool[m.Pool]
		}
		if held[k] == nil || later(m, held[k]) {
			held[k] = m
		}
		if b := s.bucket(k); b != "" && m.Class == cloud.Quota && m.Until.After(in.Now) {
			if q := s.quotas[b]; q == nil || later(m, q) {
				s.quotas[b] = m
			}
		}
	}
	return s
}

// bucket names a quota of a provider; empty: not known.
func (s *shelves) bucket(k Key) string {
	if s.in.Bucket == nil {
		return ""
	}
	if b := s.in.Bucket(k); b != "" {
		return k.Provider + " " + b
	}
	return ""
}

// later orders two entries of one offering, whatever order they came in.
func later(a, b *ledger.MemoryEntry) bool {
	if !a.Until.Equal(b.Until) {
		return a.Until.After(b.Until)
	}
	return a.Class < b.Class
}

// of gives a pool's shelf for a tier; nil if there is no such pool.
func (s *shelves) of(pool, tier string) *shelf {
	k := shelfKey{pool, tier}
	sh, ok := s.made[k]
	if !ok {
		if p := s.pools[pool]; p != nil {
			sh = s.stock(p, s.in.Policies[tier])
		}
		s.made[k] = sh
	}
	return sh
}

func (s *shelves) stock(p *Pool, policy Policy) *shelf {
	sh := &shelf{pool: p, policy: policy}
	for _, o := range p.Offerings {
		k := Key{p.Provider, o}
		it := item{offering: o, key: o.Key(), price: s.in.Prices[k]}
		it.out, it.probe = s.held(k, p.Name)
		sh.items = append(sh.items, it)
	}
	sh.groups = groupsOf(p, policy, sh.items)
	return sh
}

// held gives why an offering is passed over, and whether its breaker is half
// open.
func (s *shelves) held(k Key, pool string) (out *ledger.MemoryEntry, probe bool) {
	limit := s.in.Breaker
	if limit <= 0 {
		limit = defaultBreaker
	}
	for _, m := range []*ledger.MemoryEntry{s.memory[k], s.byPool[pool][k], s.quotas[s.bucket(k)]} {
		switch {
		case m == nil:
		case m.Class == cloud.InitFailed && m.Failures < limit: // still counting
		case m.Until.After(s.in.Now):
			if out == nil || later(m, out) {
				out = m
			}
		case m.Class == cloud.InitFailed:
			probe = true
		}
	}
	return out, probe
}

// groupsOf orders a pool's offerings: by market, if the tier orders them, then
// by entry; within an entry by its markets; within those by weighed price,
// with unknown prices last and equals as they are listed.
func groupsOf(p *Pool, policy Policy, items []item) []group {
	type place struct {
		entry  int
		market cloud.Market
	}
	index := map[place]int{}
	var groups []group
	var rank [][2]int // market, entry
	seen := map[cloud.Market]int{}
	for k, o := range p.Offerings {
		market := slices.Index(policy.Markets, o.Market)
		if policy.Markets == nil {
			market = 0
		}
		if market < 0 {
			continue
		}
		entry := k
		if k < len(p.Entries) {
			entry = p.Entries[k]
		}
		pl := place{entry, o.Market}
		g, ok := index[pl]
		if !ok {
			g = len(groups)
			index[pl] = g
			groups = append(groups, group{market: o.Market})
			rank = append(rank, [2]int{market, entry})
			seen[o.Market]++
		}
		groups[g].items = append(groups[g].items, k)
	}
	order := make([]int, len(groups))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(rank[a][0], rank[b][0]), cmp.Compare(rank[a][1], rank[b][1]))
	})
	sorted := make([]group, 0, len(groups))
	for _, i := range order {
		slices.SortStableFunc(groups[i].items, func(a, b int) int { return comparePrice(p, items, a, b) })
		sorted = append(sorted, groups[i])
	}
	return sorted
}

func comparePrice(p *Pool, items []item, a, b int) int {
	known := func(k int) int {
		if items[k].price == 0 {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(known(a), known(b)), cmp.Compare(weighed(p, items, a), weighed(p, items, b)))
}

// weighed is the price that offerings are compared by.
func weighed(p *Pool, items []item, k int) float64 {
	f := 1.0
	if k < len(p.Factors) && p.Factors[k] > 0 {
		f = p.Factors[k]
	}
	return f * float64(items[k].price)
}

// listKey names a list of offerings, to merge calls by.
func (s *shelf) listKey(offerings []int) string {
	if len(offerings) == 1 {
		return s.items[offerings[0]].key
	}
	keys := make([]string, len(offerings))
	for n, k := range offerings {
		keys[n] = s.items[k].key
	}
	return strings.Join(keys, ",")
}
