package ec2sim

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/midair-hpc/midair/internal/cloud"
)

// wish is what instances of one pool are to be like.
type wish struct {
	offering cloud.Offering
	subnet   string
	template string
	version  int
	data     TemplateVersion
	tags     map[string]string
	token    string
	maxPrice string // of spot, in USD per hour; empty: the on-demand price
	// reservation is the capacity that market reserved buys from.
	reservation *Reservation
}

// room says how many instances of a pool can be had of n, and the error for
// those that cannot. Checks are in EC2's order: the offer, the quota, the
// network, the capacity.
func (s *Sim) room(w wish, n int, now time.Time) (int, *Error) {
	o := w.offering
	t := s.types[o.Type]
	if t == nil {
		return 0, fail("InvalidParameterValue", "Invalid value '%s' for InstanceType.", o.Type)
	}
	if !t.soldIn(o.Zone) {
		return 0, fail("Unsupported", "Your requested instance type (%s) is not supported in your requested Availability Zone (%s). Please retry your request by not specifying an Availability Zone or choosing %s.",
			o.Type, o.Zone, strings.Join(t.Zones, ", "))
	}
	if o.Market == cloud.Spot && t.Spot == 0 {
		return 0, fail("Unsupported", "The requested configuration is currently not supported. Please check the documentation for supported configurations.")
	}
	if e := s.tooDear(w, now); e != nil {
		return 0, e
	}
	got, short := n, (*Error)(nil)
	most := n
	if f := s.offerFault(s.action, o); f != nil {
		if f.Error != "" {
			return 0, f.failure()
		}
		most = *f.AtMost
	}
	limit := func(free int, e func() *Error) {
		if free < got {
			got, short = max(0, free), e()
		}
	}
	if w.reservation == nil || !w.reservation.Block {
		q := quotaOf(o.Type, o.Market == cloud.Spot)
		quota := s.quota(q.Code)
		limit((quota-s.vcpus[q.Code])/t.VCPUs, func() *Error { return overQuota(q, quota) })
	}
	if sub := s.subnets[w.subnet]; sub != nil {
		limit(sub.free(), func() *Error {
			return fail("InsufficientFreeAddressesInSubnet", "There are not enough free addresses in subnet '%s' to satisfy the requested number of instances.", sub.ID)
		})
	}
	if r := w.reservation; r != nil {
		limit(s.reservationFree(r), func() *Error {
			return fail("ReservationCapacityExceeded", "The requested reservation does not have sufficient compatible and available capacity for this request.")
		})
	} else {
		limit(s.capacityOf(o)-s.inUse[o], func() *Error { return outOfStock(o, s.cat.Zones) })
	}
	limit(most, func() *Error { return outOfStock(o, s.cat.Zones) })
	return got, short
}

// tooDear is the error for a spot price above what the caller would pay.
func (s *Sim) tooDear(w wish, now time.Time) *Error {
	if w.offering.Market != cloud.Spot || w.maxPrice == "" {
		return nil
	}
	limit, err := strconv.ParseFloat(w.maxPrice, 64)
	if err != nil || limit <= 0 {
		return fail("InvalidParameterValue", "Value (%s) for parameter maxPrice is invalid. It is no price", w.maxPrice)
	}
	if price := s.priceOf(w.offering, now); price > limit {
		return fail("SpotMaxPriceTooLow", "Your Spot request price of %g is lower than the minimum required Spot request fulfillment price of %g.", limit, price)
	}
	return nil
}

func overQuota(q Quota, limit int) *Error {
	if q.Spot {
		return fail("MaxSpotInstanceCountExceeded", "Max spot instance count exceeded")
	}
	return fail("VcpuLimitExceeded", "You have requested more vCPU capacity than your current vCPU limit of %d allows for the instance bucket that the specified instance type belongs to. Please visit http://aws.amazon.com/contact-us/ec2-request to request an adjustment to this limit.", limit)
}

func outOfStock(o cloud.Offering, zones []string) *Error {
	if o.Market == cloud.Spot {
		return fail("InsufficientInstanceCapacity", "There is no Spot capacity available that matches your request.")
	}
	others := slices.DeleteFunc(slices.Clone(zones), func(z string) bool { return z == o.Zone })
	return fail("InsufficientInstanceCapacity", "We currently do not have sufficient %s capacity in the Availability Zone you requested (%s). Our system will be working on provisioning additional capacity. You can currently get %s capacity by not specifying an Availability Zone in your request or choosing %s.",
		o.Type, o.Zone, o.Type, strings.Join(others, ", "))
}

func (s *Sim) quota(code string) int {
	if n, ok := s.quotas[code]; ok {
		return n
	}
	return s.cat.DefaultQuota
}

// capacityOf is how many instances of an offering there may be.
func (s *Sim) capacityOf(o cloud.Offering) int {
	for _, key := range []string{o.Key(), o.Type + "/" + o.Zone, o.Type} {
		if n, ok := s.capacity[key]; ok {
			return n
		}
	}
	return s.cat.DefaultCapacity
}

// create makes n instances for which there is room.
func (s *Sim) create(w wish, n, index int, now time.Time) []*instance {
	reservation := s.newID("r")
	made := make([]*instance, 0, n)
	for k := range n {
		s.seq++
		i := &instance{
			ID: s.newID("i"), Seq: s.seq, Reservation: reservation, Offering: w.offering, Subnet: w.subnet,
			Addr: s.subnets[w.subnet].take(), Token: w.token, Index: index + k, CreatedAt: now, LaunchedAt: now,
			Template: w.template, Version: w.version, Data: w.data, Tags: maps.Clone(w.tags), State: cloud.Stopped, place: -1,
		}
		if w.reservation != nil {
			i.CapacityID, i.Block = w.reservation.ID, w.reservation.Block
		}
		if w.offering.Market == cloud.Spot {
			i.SpotRequest = fmt.Sprintf("sir-%08x", uint32(s.rand.Uint64()))
		}
		i.NoBoot = s.instanceFault(i.Offering, func(f *Fault) bool { return f.NoBoot }) != nil
		if i.Block && !w.reservation.End.IsZero() {
			i.InterruptAt = w.reservation.End.Add(-blockEnding)
		}
		s.instances[i.ID] = i
		s.order = append(s.order, i)
		s.move(i, cloud.Pending, now)
		made = append(made, i)
	}
	return made
}

// token is what a client token has bought.
type token struct {
	Params  string // of the call
	IDs     []string
	Reply   *createFleetReply // of CreateFleet
	Created time.Time
}

// Client tokens of different actions do not meet.
func runToken(t string) string   { return "run " + t }
func fleetToken(t string) string { return "fleet " + t }

// repeated finds what a client token has bought already.
func (s *Sim) repeated(key string, c *call) (*token, *Error) {
	t := s.tokens[key]
	if t == nil {
		return nil, nil
	}
	if t.Params != c.params {
		return nil, fail("IdempotentParameterMismatch", "Arguments on this idempotent request are inconsistent with arguments used in previous request(s).")
	}
	return t, nil
}

func (s *Sim) remember(key string, t *token) {
	s.tokens[key] = t
	s.changed = true
}
