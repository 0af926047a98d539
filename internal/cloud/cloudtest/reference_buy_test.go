package cloudtest

import (
	"fmt"
	"maps"
	"time"

	"github.com/midair-hpc/midair/internal/cloud"
)

// buy places the nodes of a request, offering by offering.
func (a *reference) buy(r cloud.LaunchRequest) *purchase {
	p := &purchase{request: r}
	nodes := r.Nodes
	if a.bug == capsCalls && len(nodes) > 100 {
		nodes = nodes[:100]
	}
	offerings := r.Offerings
	if a.bug == prefersLast {
		offerings = []cloud.Offering{offerings[len(offerings)-1]}
	}
	if a.bug == triesFirstOnly {
		offerings = offerings[:1]
	}
	for _, o := range offerings {
		if len(nodes) == 0 {
			break
		}
		n, e := a.room(o, r, len(nodes))
		if r.AllOrNothing && n < len(nodes) && a.bug != splitsJobs && a.bug != mixesOfferings {
			if a.bug == reservesForNothing {
				a.take(o, n)
			}
			if a.bug == endsWhatDidNotFit {
				for _, node := range nodes[:n] {
					a.end(a.start(o, r, node))
				}
			}
			n = 0
		}
		if !r.AllOrNothing && n < len(nodes) && a.bug == givesAllOrNothing {
			n = 0
		}
		if missing := len(nodes) - n; missing > 0 {
			s := cloud.Shortfall{Offering: o, Nodes: missing, Err: e}
			if a.bug == countsAllAsMissing {
				s.Nodes = len(r.Nodes)
			}
			if a.bug != hidesShortfalls {
				p.shortfalls = append(p.shortfalls, s)
			}
		}
		a.take(o, n)
		for _, node := range nodes[:n] {
			p.ids = append(p.ids, a.start(o, r, node).ID)
		}
		nodes = nodes[n:]
	}
	return p
}

func (a *reference) take(o cloud.Offering, n int) {
	if left, ok := a.left[o]; ok {
		if a.bug == oversells {
			a.mu.Unlock()
			time.Sleep(time.Millisecond)
			a.mu.Lock()
		}
		a.left[o] = left - n
	}
}

// room is how many of want instances of an offering can be had, and why not
// more.
func (a *reference) room(o cloud.Offering, r cloud.LaunchRequest, want int) (int, *cloud.Error) {
	size := sizes[o.Type]
	if (r.CPUs > size || r.MemoryMiB > 1024*size || r.GPUs > 0) && a.bug != ignoresSize && !(a.bug == ignoresMemory && r.CPUs <= size && r.GPUs == 0) {
		e := &cloud.Error{Class: cloud.SpecMismatch, Message: o.Type + " is smaller than the pool promises"}
		if a.bug == callsMismatchConfig {
			e.Class = cloud.Config
		}
		return 0, e
	}
	n, e := want, (*cloud.Error)(nil)
	if left, ok := a.left[o]; ok && left < n {
		n, e = left, &cloud.Error{Class: cloud.OutOfStock, Code: "InsufficientInstanceCapacity", Message: "no more " + o.Key()}
		switch a.bug {
		case callsShortageUnknown:
			e.Class = cloud.Unknown
		case makesShortageAmbiguous:
			e.Ambiguous = true
		}
	}
	if a.bug == sharesStock {
		for _, left := range a.left {
			if left < n {
				n, e = left, &cloud.Error{Class: cloud.OutOfStock, Message: "no more of anything"}
			}
		}
	}
	if a.limit > 0 && a.limit-a.live() < n {
		n, e = max(0, a.limit-a.live()), &cloud.Error{Class: cloud.Quota, Message: fmt.Sprintf("the account may have %d instances", a.limit)}
		if a.bug == callsQuotaOutOfStock {
			e.Class = cloud.OutOfStock
		}
	}
	return n, e
}

func (a *reference) start(o cloud.Offering, r cloud.LaunchRequest, n cloud.NodeRequest) *machine {
	k := len(a.instances) + 1
	m := &machine{cluster: r.Cluster, lag: a.lag, Instance: cloud.Instance{
		ID: fmt.Sprintf("i-%017x", 0x1000+k), Node: n.Name, Generation: n.Generation, Launch: n.Launch, Token: r.Token, Pool: r.Pool,
		Offering: o, Addr: fmt.Sprintf("10.0.%d.%d", k/250, k%250), CreatedAt: time.Now(),
		Tags: map[string]string{
			cloud.TagCluster: r.Cluster, cloud.TagNode: n.Name, cloud.TagGeneration: fmt.Sprint(n.Generation),
			cloud.TagLaunch: n.Launch, cloud.TagToken: r.Token, cloud.TagPool: r.Pool,
		},
	}}
	maps.Copy(m.Tags, n.Tags)
	switch a.bug {
	case forgetsTags:
		for k := range n.Tags {
			delete(m.Tags, k)
		}
	case forgetsGenerationTag:
		delete(m.Tags, cloud.TagGeneration)
	case givesOneAddress:
		m.Addr = "10.0.0.1"
	case givesNoAddress:
		m.Addr = ""
	case swapsNodes:
		m.Node = r.Nodes[0].Name
	case neverCatchesUp:
		m.lag *= 1000
	case reusesIDs:
		m.ID = fmt.Sprintf("i-%017x", k%2)
	case forgetsCreatedAt:
		m.CreatedAt = time.Time{}
	case refusesUnregistered:
		m.asked = m.CreatedAt
	}
	a.instances = append(a.instances, m)
	return m
}
