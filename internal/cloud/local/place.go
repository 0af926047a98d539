package local

import (
	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/config"
)

// usage is what the cloud's capacity is spent on.
type usage struct {
	perOffering map[string]int // instances, by the offering's key
	instances   int
	cpus        int
	freeAddrs   int
}

func (v *view) usage(free int) usage {
	u := usage{perOffering: map[string]int{}, freeAddrs: free}
	for _, r := range v.records {
		if !r.Gone {
			u.add(r.Offering, r.CPUs, 1)
		}
	}
	return u
}

func (u *usage) add(o cloud.Offering, cpus, n int) {
	u.perOffering[o.Key()] += n
	u.instances += n
	u.cpus += cpus * n
}

// placement is n nodes on an offering.
type placement struct {
	offering cloud.Offering
	kind     config.LocalType
	n        int
}

// place spreads a request over its offerings, which are all sold, in their
// order, as far as there is room: all nodes on one offering or none if it is
// all or nothing.
func (p *Provider) place(r cloud.LaunchRequest, f Faults, u usage) ([]placement, []shortfall) {
	var (
		placed []placement
		shorts []shortfall
	)
	left := len(r.Nodes)
	for _, o := range r.Offerings {
		if left == 0 {
			break
		}
		t := p.types[o.Type]
		n, why := p.room(t, o, r, f, u, left)
		if n < left {
			if r.AllOrNothing {
				n = 0
			}
			shorts = append(shorts, short(o, left-n, why))
		}
		if n > 0 {
			placed = append(placed, placement{o, t, n})
			u.add(o, t.CPUs, n)
			u.freeAddrs -= n
			left -= n
		}
	}
	return placed, shorts
}

// room gives how many of want nodes an offering can take, and why not all.
func (p *Provider) room(t config.LocalType, o cloud.Offering, r cloud.LaunchRequest, f Faults, u usage, want int) (int, *cloud.Error) {
	if err := tooSmall(t, r); err != nil {
		return 0, err
	}
	for _, key := range f.SpecMismatch {
		if key == o.Key() {
			return 0, notAsSpecified(o)
		}
	}
	n := want
	var why *cloud.Error
	bound := func(limit int, err *cloud.Error) {
		if limit = max(0, limit); limit < n {
			n, why = limit, err
		}
	}
	if stock, ok := f.Stock[o.Key()]; ok {
		bound(stock-u.perOffering[o.Key()], outOfStock(o))
	}
	if f.MaxInstances > 0 {
		bound(f.MaxInstances-u.instances, instanceQuota(f.MaxInstances))
	}
	if f.MaxCPUs > 0 && t.CPUs > 0 {
		bound((f.MaxCPUs-u.cpus)/t.CPUs, cpuQuota(f.MaxCPUs, o))
	}
	bound(u.freeAddrs, noAddress(p.network))
	return n, why
}
