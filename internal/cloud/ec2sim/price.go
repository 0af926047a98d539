package ec2sim

import (
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/midair-hpc/midair/internal/cloud"
)

// pricePoint is a spot price from a time on.
type pricePoint struct {
	At    time.Time
	Price float64
}

// SetSpotPrice changes the spot price of a type in a zone from now on, in USD
// per hour.
func (s *Sim) SetSpotPrice(typ, zone string, price float64) (err error) {
	if t := s.types[typ]; t == nil || !slices.Contains(s.cat.Zones, zone) || !t.soldIn(zone) || t.Spot == 0 || price <= 0 {
		return fmt.Errorf("set spot price: %s is not sold as spot in zone %q, or %g is no price", typ, zone, price)
	}
	s.locked(func(now time.Time) {
		key := typ + "/" + zone
		s.prices[key] = append(s.prices[key], pricePoint{now, price})
		err = s.saveAll()
	})
	return err
}

// priceOf is the price of an offering in USD per hour.
func (s *Sim) priceOf(o cloud.Offering, now time.Time) float64 {
	if o.Market == cloud.Spot {
		return s.spotPrice(o.Type, o.Zone, now)
	}
	if t := s.types[o.Type]; t != nil {
		return t.OnDemand
	}
	return 0
}

// spotPrice is the price at a time: the last one set by hand before it, or the
// series that the catalogue gives.
func (s *Sim) spotPrice(typ, zone string, at time.Time) float64 {
	points := s.prices[typ+"/"+zone]
	for k := len(points) - 1; k >= 0; k-- {
		if !points[k].At.After(at) {
			return points[k].Price
		}
	}
	t := s.types[typ]
	if t == nil {
		return 0
	}
	// A hash in place of a stored series: any time can be asked for, and the
	// answer is the same each time.
	h := fnv.New64a()
	fmt.Fprint(h, s.priceSeed, typ, zone, at.UnixNano()/int64(s.cat.SpotStep))
	swing := float64(h.Sum64()%2001)/1000 - 1
	return math.Round(t.Spot*(1+s.cat.SpotSwing*swing)*1e4) / 1e4
}

// spotHistory gives the changes of a price between two times, the newest first,
// and the one in force at the beginning.
func (s *Sim) spotHistory(typ, zone string, from, to time.Time) []pricePoint {
	at := []time.Time{from}
	step := s.cat.SpotStep
	for t := from.Truncate(step).Add(step); !t.After(to); t = t.Add(step) {
		at = append(at, t)
	}
	for _, p := range s.prices[typ+"/"+zone] {
		if p.At.After(from) && !p.At.After(to) {
			at = append(at, p.At)
		}
	}
	slices.SortFunc(at, time.Time.Compare)
	var points []pricePoint
	for _, t := range at {
		price := s.spotPrice(typ, zone, t)
		if n := len(points); n == 0 || points[n-1].Price != price {
			points = append(points, pricePoint{t, price})
		}
	}
	slices.Reverse(points)
	return points
}

type spotPriceXML struct {
	Zone    string `xml:"availabilityZone"`
	Type    string `xml:"instanceType"`
	Product string `xml:"productDescription"`
	Price   string `xml:"spotPrice"`
	At      string `xml:"timestamp"`
}

type describeSpotPriceHistoryReply struct {
	NextToken string         `xml:"nextToken"`
	Prices    []spotPriceXML `xml:"spotPriceHistorySet>item"`
}

// Longer ago than this EC2 remembers no spot prices.
const priceHistory = 90 * 24 * time.Hour

func (s *Sim) describeSpotPriceHistory(c *call) op {
	types, products, zone := c.strs("InstanceType"), c.strs("ProductDescription"), c.str("AvailabilityZone")
	c.ignore("AvailabilityZoneId")
	from, to := c.time("StartTime"), c.time("EndTime")
	f := readFilters(c.form, "availability-zone", "instance-type", "product-description", "spot-price", "timestamp")
	page := readPage(c.form, 1, 1000)
	return func(now time.Time) (any, *Error) {
		if to.IsZero() || to.After(now) {
			to = now
		}
		if from.IsZero() || from.Before(now.Add(-priceHistory)) {
			from = now.Add(-priceHistory)
		}
		const product = "Linux/UNIX"
		var all []spotPriceXML
		if (len(products) == 0 || slices.ContainsFunc(products, func(p string) bool { return strings.HasPrefix(p, product) })) && f.match("product-description", product) {
			for _, t := range s.cat.Types {
				if t.Spot == 0 || !among(types, t.Name) || !f.match("instance-type", t.Name) {
					continue
				}
				for _, z := range s.cat.Zones {
					if !t.soldIn(z) || (zone != "" && z != zone) || !f.match("availability-zone", z) {
						continue
					}
					for _, p := range s.spotHistory(t.Name, z, minTime(from, to), to) {
						all = append(all, spotPriceXML{z, t.Name, product, fmt.Sprintf("%.6f", p.Price), stamp(p.At)})
					}
				}
			}
		}
		if page.max == 0 {
			page.max = 1000
		}
		items, next, e := cut(page, all)
		return &describeSpotPriceHistoryReply{next, items}, e
	}
}

func minTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
