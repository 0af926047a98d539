package planner

import (
	"time"

	"github.com/midair-hpc/midair/internal/cloud"
)

// Place is where an offering stands in a plan.
type Place string

// The places of an offering.
const (
	Asked      Place = "asked"       // the next create call asks for it
	Next       Place = "next"        // it is asked for if those before it have nothing
	Waits      Place = "waits"       // the tier tries another market first
	PassedOver Place = "passed-over" // it has failed lately
	Probation  Place = "probation"   // it has failed to boot; another launch is finding out about it
)

// Verdict is what a plan makes of one offering, and why.
type Verdict struct {
	Offering cloud.Offering
	Price    cloud.MicroUSD // of an instance-hour; 0: not known
	Weighed  float64        // Price × locality × interconnect, by which equals are compared
	Place    Place
	Class    cloud.Class // PassedOver: why
	Message  string      // PassedOver: in the cloud's words
	Until    time.Time   // PassedOver and Waits: when it may be tried; zero: not by itself
}

// Explain gives every offering of the demand's pool in the order in which they
// are tried, and the refusal if none can be asked for now. Offerings on markets
// that the tier does not buy on are left out.
func Explain(in Input, d Demand) ([]Verdict, *Refusal) {
	s := newShelves(&in).of(d.Pool, d.Tier)
	if s == nil {
		r := &Refusal{Launch: d.Launch, Pool: d.Pool}
		r.Err, r.RetryAt = refuse(in.Now, &d, nil)
		return nil, r
	}
	asked, probe := s.choose(in.Now, &d, in.Probing)
	chosen := map[int]bool{}
	for _, k := range asked {
		chosen[k] = true
	}
	open, at := s.others(in.Now, &d, s.back(&d))
	var verdicts []Verdict
	for _, g := range s.groups {
		for _, k := range g.items {
			i := s.items[k]
			v := Verdict{Offering: i.offering, Price: i.price, Weighed: weighed(s.pool, s.items, k), Place: Next}
			switch m := s.passedOver(k, &d); {
			case chosen[k]:
				v.Place = Asked
			case m != nil:
				v.Place, v.Class, v.Message, v.Until = PassedOver, m.Class, m.Message, m.Until
			case g.market != s.first() && !open:
				v.Place, v.Until = Waits, at
			case i.probe && !probe:
				v.Place, v.Class = Probation, cloud.InitFailed
			}
			verdicts = append(verdicts, v)
		}
	}
	if len(asked) > 0 {
		return verdicts, nil
	}
	r := &Refusal{Launch: d.Launch, Pool: d.Pool}
	r.Err, r.RetryAt = refuse(in.Now, &d, s)
	return verdicts, r
}
