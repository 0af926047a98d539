package ec2sim

import (
	"slices"
	"time"
)

type regionXML struct {
	Name     string `xml:"regionName"`
	Endpoint string `xml:"regionEndpoint"`
	OptIn    string `xml:"optInStatus"`
}

type describeRegionsReply struct {
	Regions []regionXML `xml:"regionInfo>item"`
}

func (s *Sim) describeRegions(c *call) op {
	names := c.strs("RegionName")
	c.ignore("AllRegions")
	f := readFilters(c.form, "region-name", "opt-in-status", "endpoint")
	return func(time.Time) (any, *Error) {
		regions := append([]string{s.cat.Region}, s.cat.Regions...)
		reply := &describeRegionsReply{}
		for _, n := range names {
			if !slices.Contains(regions, n) {
				return nil, fail("InvalidParameterValue", "Invalid region: [%s]", n)
			}
		}
		for _, n := range regions {
			x := regionXML{n, "ec2." + n + ".amazonaws.com", "opt-in-not-required"}
			if among(names, n) && f.match("region-name", n) && f.match("opt-in-status", x.OptIn) && f.match("endpoint", x.Endpoint) {
				reply.Regions = append(reply.Regions, x)
			}
		}
		return reply, nil
	}
}

type zoneXML struct {
	Name   string `xml:"zoneName"`
	ID     string `xml:"zoneId"`
	State  string `xml:"zoneState"`
	Region string `xml:"regionName"`
	OptIn  string `xml:"optInStatus"`
	Group  string `xml:"groupName"`
	Border string `xml:"networkBorderGroup"`
	Type   string `xml:"zoneType"`
}

type describeZonesReply struct {
	Zones []zoneXML `xml:"availabilityZoneInfo>item"`
}

func (s *Sim) describeAvailabilityZones(c *call) op {
	names, ids := c.strs("ZoneName"), c.strs("ZoneId")
	c.ignore("AllAvailabilityZones")
	f := readFilters(c.form, "zone-name", "zone-id", "state", "region-name", "zone-type", "opt-in-status", "group-name")
	return func(time.Time) (any, *Error) {
		reply := &describeZonesReply{}
		for _, n := range names {
			if !slices.Contains(s.cat.Zones, n) {
				return nil, fail("InvalidParameterValue", "Invalid availability zone: [%s]", n)
			}
		}
		for _, n := range s.cat.Zones {
			x := zoneXML{n, s.zoneID(n), "available", s.cat.Region, "opt-in-not-required", s.cat.Region + "-zg-1", s.cat.Region, "availability-zone"}
			if among(names, n) && among(ids, x.ID) && f.match("zone-name", n) && f.match("zone-id", x.ID) && f.match("state", x.State) && f.match("region-name", x.Region) &&
				f.match("zone-type", x.Type) && f.match("opt-in-status", x.OptIn) && f.match("group-name", x.Group) {
				reply.Zones = append(reply.Zones, x)
			}
		}
		return reply, nil
	}
}

type typeOfferingXML struct {
	Type     string `xml:"instanceType"`
	Kind     string `xml:"locationType"`
	Location string `xml:"location"`
}

type describeTypeOfferingsReply struct {
	Offerings []typeOfferingXML `xml:"instanceTypeOfferingSet>item"`
	NextToken string            `xml:"nextToken,omitempty"`
}

func (s *Sim) describeInstanceTypeOfferings(c *call) op {
	kind := c.oneOf("LocationType", "region", "availability-zone", "availability-zone-id", "outpost")
	f := readFilters(c.form, "instance-type", "location")
	page := readPage(c.form, 5, 1000)
	return func(time.Time) (any, *Error) {
		var all []typeOfferingXML
		add := func(t *Type, location string) {
			if f.match("instance-type", t.Name) && f.match("location", location) {
				all = append(all, typeOfferingXML{t.Name, kind, location})
			}
		}
		if kind == "" {
			kind = "region"
		}
		for i := range s.cat.Types {
			t := &s.cat.Types[i]
			if kind == "region" {
				add(t, s.cat.Region)
				continue
			}
			for _, z := range s.cat.Zones {
				switch {
				case !t.soldIn(z):
				case kind == "availability-zone":
					add(t, z)
				case kind == "availability-zone-id":
					add(t, s.zoneID(z))
				}
			}
		}
		items, next, e := cut(page, all)
		return &describeTypeOfferingsReply{items, next}, e
	}
}
