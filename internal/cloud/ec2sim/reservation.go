package ec2sim

import (
	"slices"
	"time"
)

func (s *Sim) reservation(id string) *Reservation {
	if id == "" {
		return nil
	}
	for i := range s.reservations {
		if s.reservations[i].ID == id {
			return &s.reservations[i]
		}
	}
	return nil
}

func (s *Sim) reservationFree(r *Reservation) int { return r.Count - s.reserved[r.ID] }

// reservationState is the state in EC2's words.
func reservationState(r *Reservation, now time.Time) string {
	switch {
	case now.Before(r.Start):
		return "scheduled"
	case !r.End.IsZero() && !now.Before(r.End):
		return "expired"
	}
	return "active"
}

// blockEnding is how long before its end EC2 takes the instances of a capacity
// block away.
const blockEnding = 30 * time.Minute

type capacityReservationXML struct {
	ID        string `xml:"capacityReservationId"`
	Owner     string `xml:"ownerId"`
	ARN       string `xml:"capacityReservationArn"`
	ZoneID    string `xml:"availabilityZoneId"`
	Type      string `xml:"instanceType"`
	Platform  string `xml:"instancePlatform"`
	Zone      string `xml:"availabilityZone"`
	Tenancy   string `xml:"tenancy"`
	Total     int    `xml:"totalInstanceCount"`
	Available int    `xml:"availableInstanceCount"`
	State     string `xml:"state"`
	Start     string `xml:"startDate,omitempty"`
	End       string `xml:"endDate,omitempty"`
	EndType   string `xml:"endDateType"`
	Match     string `xml:"instanceMatchCriteria"`
	Created   string `xml:"createDate"`
	Kind      string `xml:"reservationType"`
}

type describeReservationsReply struct {
	NextToken    string                   `xml:"nextToken,omitempty"`
	Reservations []capacityReservationXML `xml:"capacityReservationSet>item"`
}

func (s *Sim) describeCapacityReservations(c *call) op {
	ids := c.strs("CapacityReservationId")
	f := readFilters(c.form, "instance-type", "availability-zone", "state", "owner-id", "tenancy", "instance-match-criteria", "end-date-type")
	page := readPage(c.form, 1, 1000)
	return func(now time.Time) (any, *Error) {
		for _, id := range ids {
			if s.reservation(id) == nil {
				return nil, noReservation(id)
			}
		}
		var all []capacityReservationXML
		for i := range s.reservations {
			x := s.reservationXML(&s.reservations[i], now)
			if (len(ids) == 0 || slices.Contains(ids, x.ID)) && f.match("instance-type", x.Type) && f.match("availability-zone", x.Zone) && f.match("state", x.State) &&
				f.match("owner-id", x.Owner) && f.match("tenancy", x.Tenancy) && f.match("instance-match-criteria", x.Match) && f.match("end-date-type", x.EndType) {
				all = append(all, x)
			}
		}
		items, next, e := cut(page, all)
		return &describeReservationsReply{next, items}, e
	}
}

func noReservation(id string) *Error {
	return fail("InvalidCapacityReservationId.NotFound", "The capacity reservation ID '%s' does not exist", id)
}

func (s *Sim) reservationXML(r *Reservation, now time.Time) capacityReservationXML {
	x := capacityReservationXML{
		ID: r.ID, Owner: s.cat.Account, ARN: "arn:aws:ec2:" + s.cat.Region + ":" + s.cat.Account + ":capacity-reservation/" + r.ID,
		ZoneID: s.zoneID(r.Zone), Type: r.Type, Platform: "Linux/UNIX", Zone: r.Zone, Tenancy: "default", Total: r.Count, Available: max(0, s.reservationFree(r)),
		State: reservationState(r, now), Match: "targeted", EndType: "unlimited", Created: stamp(longAgo), Kind: "default",
	}
	if !r.Start.IsZero() {
		x.Start = stamp(r.Start)
	}
	if !r.End.IsZero() {
		x.End, x.EndType = stamp(r.End), "limited"
	}
	if r.Block {
		x.Kind = "capacity-block"
	}
	return x
}
