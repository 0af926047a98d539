package ec2sim

import (
	"cmp"
	"slices"
	"time"

	"github.com/midair-hpc/midair/internal/cloud"
)

// bought is what an allocation takes from a pool.
type bought struct {
	pool *fleetPool
	wish wish
	n    int
}

// failed is why an allocation could not take (all) from a pool.
type failed struct {
	pool *fleetPool
	err  *Error
}

// allocate chooses among a fleet's pools as EC2 does: in the order of the
// strategy, one pool after the other until the target is met; from one type or
// zone alone where the request says so; and nothing at all below the minimum.
func (s *Sim) allocate(pools []*fleetPool, m cloud.Market, n int, o fleetOptions, now time.Time) ([]bought, []failed) {
	var bad []failed
	var good []*candidate
	for _, p := range pools {
		if p.err != nil {
			bad = append(bad, failed{p, p.err})
			continue
		}
		w := p.wish
		w.offering.Market = m
		c := &candidate{pool: p, wish: w}
		c.room, c.short = s.room(w, n, now)
		c.price = s.priceOf(w.offering, now)
		good = append(good, c)
	}
	order(good, n, o)
	var best []bought
	for _, group := range groups(good, o) {
		got := s.fill(group, n, o)
		if total(got) > total(best) {
			best = got
		}
		if total(best) == n || (o.min > 0 && total(best) >= o.min) || (o.min == 0 && total(best) > 0 && (o.oneType || o.oneZone)) {
			break
		}
	}
	if total(best) < o.min {
		best = nil
	}
	if total(best) < n {
		for _, c := range good {
			if c.short != nil {
				bad = append(bad, failed{c.pool, c.short})
			}
		}
		if len(bad) == 0 {
			for _, c := range good {
				bad = append(bad, failed{c.pool, fail("UnfulfillableCapacity", "Unable to fulfill capacity due to your request configuration. Please adjust your request and try again.")})
			}
		}
	}
	return best, bad
}

// candidate is a pool of the market in question.
type candidate struct {
	pool  *fleetPool
	wish  wish
	room  int
	short *Error // why room is less than the target
	price float64
}

func order(list []*candidate, n int, o fleetOptions) {
	byPrice := func(a, b *candidate) int { return cmp.Compare(a.price, b.price) }
	// Pools with enough for the whole target are equally good.
	byRoom := func(a, b *candidate) int { return cmp.Compare(min(b.room, n), min(a.room, n)) }
	byPriority := func(a, b *candidate) int {
		if a.pool.override.ranked != b.pool.override.ranked {
			// One without a priority comes last.
			return -sign(a.pool.override.ranked)
		}
		return cmp.Compare(a.pool.override.priority, b.pool.override.priority)
	}
	slices.SortStableFunc(list, func(a, b *candidate) int {
		switch o.strategy {
		case "prioritized":
			return byPriority(a, b)
		case "capacity-optimized":
			return byRoom(a, b)
		case "capacity-optimized-prioritized":
			return cmp.Or(byRoom(a, b), byPriority(a, b))
		case "price-capacity-optimized":
			return cmp.Or(byRoom(a, b), byPrice(a, b))
		}
		return byPrice(a, b)
	})
}

// groups gives the pools that may be mixed, in order of their first.
func groups(list []*candidate, o fleetOptions) [][]*candidate {
	var (
		all [][]*candidate
		at  = map[[2]string]int{}
	)
	for _, c := range list {
		var key [2]string
		if o.oneType {
			key[0] = c.wish.offering.Type
		}
		if o.oneZone {
			key[1] = c.wish.offering.Zone
		}
		k, ok := at[key]
		if !ok {
			k = len(all)
			at[key] = k
			all = append(all, nil)
		}
		all[k] = append(all[k], c)
	}
	return all
}

// fill takes n instances from pools in order, or round about with diversified.
func (s *Sim) fill(list []*candidate, n int, o fleetOptions) []bought {
	taken := map[cloud.Offering]int{} // two subnets of a zone share its capacity
	vcpus := map[string]int{}
	got := make([]int, len(list))
	room := func(k int) int {
		c := list[k]
		q := quotaOf(c.wish.offering.Type, c.wish.offering.Market == cloud.Spot).Code
		free := min(c.room-got[k], s.capacityOf(c.wish.offering)-s.inUse[c.wish.offering]-taken[c.wish.offering])
		return min(free, (s.quota(q)-s.vcpus[q]-vcpus[q])/s.types[c.wish.offering.Type].VCPUs)
	}
	take := func(k, want int) {
		c := list[k]
		m := max(0, min(want, room(k)))
		got[k] += m
		n -= m
		taken[c.wish.offering] += m
		vcpus[quotaOf(c.wish.offering.Type, c.wish.offering.Market == cloud.Spot).Code] += m * s.types[c.wish.offering.Type].VCPUs
	}
	spread := 1
	switch o.strategy {
	case "diversified":
		spread = len(list)
	case "lowest-price":
		spread = min(len(list), max(1, o.pools))
	}
	for k := range spread {
		take(k, (n+spread-k-1)/(spread-k))
	}
	for k := range list {
		take(k, n)
	}
	var out []bought
	for k, m := range got {
		if m > 0 {
			out = append(out, bought{list[k].pool, list[k].wish, m})
		}
	}
	return out
}

func total(list []bought) int {
	n := 0
	for _, b := range list {
		n += b.n
	}
	return n
}
