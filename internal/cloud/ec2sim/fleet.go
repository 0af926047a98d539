package ec2sim

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/midair-hpc/midair/internal/cloud"
)

// EC2's limits of a fleet of type instant.
const (
	maxOverrides    = 300
	maxFleet        = 10_000
	maxFleetMinimum = 1000
)

// fleetRequest is CreateFleet as it was asked.
type fleetRequest struct {
	configs  []fleetConfig
	total    int
	onDemand int
	spot     int
	usual    string // DefaultTargetCapacityType
	od, sp   fleetOptions
	tags     map[string]string
	token    string
}

// fleetOptions are OnDemandOptions or SpotOptions.
type fleetOptions struct {
	strategy   string
	oneType    bool
	oneZone    bool
	min        int
	pools      int // InstancePoolsToUseCount
	reservedOK bool
}

type fleetConfig struct {
	template  templateRef
	overrides []fleetOverride
}

type fleetOverride struct {
	typ      string
	subnet   string
	zone     string
	priority float64
	ranked   bool // it has a priority
	image    string
	maxPrice string
}

func readFleet(c *call) fleetRequest {
	r := fleetRequest{token: c.str("ClientToken"), tags: tagSpecifications(&c.node, "instance", "fleet", "volume", "network-interface", "spot-instances-request", "launch-template")["instance"]}
	target := c.sub("TargetCapacitySpecification")
	r.total, r.onDemand, r.spot = target.int("TotalTargetCapacity", -1), target.int("OnDemandTargetCapacity", 0), target.int("SpotTargetCapacity", 0)
	r.usual = target.oneOf("DefaultTargetCapacityType", "spot", "on-demand", "capacity-block", "reserved-capacity")
	target.oneOf("TargetCapacityUnitType", "units", "vcpu", "memory-mib")
	r.od = readFleetOptions(c.sub("OnDemandOptions"), "lowest-price", "prioritized")
	r.sp = readFleetOptions(c.sub("SpotOptions"), "lowest-price", "diversified", "capacity-optimized", "capacity-optimized-prioritized", "price-capacity-optimized")
	for _, n := range c.list("LaunchTemplateConfigs") {
		var cfg fleetConfig
		var ok bool
		if cfg.template, ok = readTemplateRef(n.sub("LaunchTemplateSpecification")); !ok {
			c.bad(fail("MissingParameter", "The request must contain the parameter LaunchTemplateSpecification"))
		}
		n.sub("LaunchTemplateSpecification").ignore("LaunchTemplateSpecificationUserData")
		for _, o := range n.list("Overrides") {
			cfg.overrides = append(cfg.overrides, readOverride(o)...)
		}
		r.configs = append(r.configs, cfg)
	}
	c.ignore("Context", "ExcessCapacityTerminationPolicy", "ReplaceUnhealthyInstances", "ReservedCapacityOptions", "TerminateInstancesWithExpiration", "ValidFrom", "ValidUntil")
	checkFleet(c, r)
	return r
}

func readFleetOptions(n *node, strategies ...string) fleetOptions {
	o := fleetOptions{
		strategy: n.oneOf("AllocationStrategy", strategies...), oneType: n.bool("SingleInstanceType"), oneZone: n.bool("SingleAvailabilityZone"),
		min: n.int("MinTargetCapacity", 0), pools: n.int("InstancePoolsToUseCount", 1),
	}
	if o.strategy == "" {
		o.strategy = "lowest-price"
	}
	o.reservedOK = n.sub("CapacityReservationOptions").str("UsageStrategy") != ""
	n.ignore("InstanceInterruptionBehavior", "MaintenanceStrategies", "MaxTotalPrice")
	return o
}

func readOverride(n *node) []fleetOverride {
	o := fleetOverride{
		typ: n.str("InstanceType"), zone: n.str("AvailabilityZone"), priority: n.float("Priority", 0), ranked: n.sub("Priority").set,
		image: n.str("ImageId"), maxPrice: n.str("MaxPrice"),
	}
	if n.sub("InstanceRequirements").there() {
		n.f.bad(fail("UnsupportedOperation", "Instance requirements are not supported by this stand-in; name instance types"))
	}
	n.ignore("AvailabilityZoneId", "BlockDeviceMapping", "IamInstanceProfile", "InstanceRequirements", "KeyName", "MetadataOptions", "Placement", "WeightedCapacity")
	subnets := strings.FieldsFunc(n.str("SubnetId"), func(r rune) bool { return r == ',' || r == ' ' })
	if len(subnets) == 0 {
		return []fleetOverride{o}
	}
	var all []fleetOverride
	for _, id := range subnets {
		o.subnet = id
		all = append(all, o)
	}
	return all
}

func checkFleet(c *call, r fleetRequest) {
	overrides := 0
	for _, cfg := range r.configs {
		overrides += len(cfg.overrides)
	}
	kind := c.oneOf("Type", "request", "maintain", "instant")
	switch {
	case kind != "instant":
		c.bad(fail("UnsupportedOperation", "Fleets of type %q are not supported by this stand-in; use instant", kind))
	case r.total < 0:
		c.bad(fail("MissingParameter", "The request must contain the parameter TotalTargetCapacity"))
	case r.total == 0 || r.total > maxFleet:
		c.bad(fail("InvalidParameterValue", "TotalTargetCapacity %d is not 1 to %d", r.total, maxFleet))
	case r.onDemand+r.spot > r.total:
		c.bad(fail("InvalidParameterValue", "OnDemandTargetCapacity and SpotTargetCapacity are more than TotalTargetCapacity"))
	case r.usual == "" && r.onDemand+r.spot < r.total:
		c.bad(fail("MissingParameter", "The request must contain the parameter DefaultTargetCapacityType"))
	case len(r.configs) == 0:
		c.bad(fail("MissingParameter", "The request must contain the parameter LaunchTemplateConfigs"))
	case overrides > maxOverrides:
		c.bad(fail("InvalidParameterValue", "The request has %d overrides, more than %d", overrides, maxOverrides))
	case len(r.token) > 64:
		c.bad(fail("InvalidParameterValue", "Value (%s) for parameter clientToken is invalid. It has more than 64 characters", r.token))
	}
	for _, o := range []fleetOptions{r.od, r.sp} {
		switch {
		case o.min > 0 && !o.oneType && !o.oneZone:
			c.bad(fail("InvalidParameterCombination", "MinTargetCapacity needs SingleInstanceType or SingleAvailabilityZone"))
		case o.min > maxFleetMinimum || o.min > max(0, r.total):
			c.bad(fail("InvalidParameterValue", "MinTargetCapacity %d is more than the target capacity or %d", o.min, maxFleetMinimum))
		}
	}
}

// split says how much of the target is bought on-demand and how much as spot.
func (r fleetRequest) split() (onDemand, spot int) {
	if r.usual == "spot" {
		return r.onDemand, r.total - r.onDemand
	}
	return r.total - r.spot, r.spot
}

func (s *Sim) createFleet(c *call) op {
	r := readFleet(c)
	return func(now time.Time) (any, *Error) {
		if r.token != "" {
			t, e := s.repeated(fleetToken(r.token), c)
			if e != nil {
				return nil, e
			}
			if t != nil {
				return t.Reply, nil
			}
		}
		fleet := fmt.Sprintf("fleet-%08x-%04x-%04x", uint32(s.rand.Uint64()), uint16(s.rand.Uint64()), uint16(s.rand.Uint64()))
		reply := &createFleetReply{FleetID: fleet}
		pools, e := s.fleetPools(r, fleet)
		if e != nil {
			return nil, e
		}
		onDemand, spot := r.split()
		index := 0
		var made []string
		for _, part := range []struct {
			market cloud.Market
			n      int
			o      fleetOptions
		}{{cloud.OnDemand, onDemand, r.od}, {cloud.Spot, spot, r.sp}} {
			if part.n == 0 {
				continue
			}
			bought, failed := s.allocate(pools, part.market, part.n, part.o, now)
			for _, b := range bought {
				is := s.create(b.wish, b.n, index, now)
				index += b.n
				made = append(made, ids(is)...)
				reply.Instances = append(reply.Instances, fleetInstancesXML{
					Item: b.pool.xml(), Lifecycle: string(part.market), IDs: ids(is), Type: b.wish.offering.Type,
				})
			}
			for _, f := range failed {
				reply.Errors = append(reply.Errors, fleetErrorXML{Item: f.pool.xml(), Lifecycle: string(part.market), Code: f.err.Code, Message: f.err.Message})
			}
		}
		if r.token != "" {
			s.remember(fleetToken(r.token), &token{Params: c.params, IDs: made, Reply: reply, Created: now})
		}
		return reply, nil
	}
}

// fleetPool is one override: a type in a subnet.
type fleetPool struct {
	wish     wish // its market is set when it is bought
	override fleetOverride
	config   templateXML
	rank     int // by the order of the request
	err      *Error
}

// fleetPools makes the pools of a request. What is wrong with one of them is
// the error of that pool alone.
func (s *Sim) fleetPools(r fleetRequest, fleet string) ([]*fleetPool, *Error) {
	var pools []*fleetPool
	for _, cfg := range r.configs {
		t, v, e := s.template(cfg.template)
		if e != nil {
			return nil, e
		}
		data := t.Versions[v-1]
		tags := maps.Clone(data.Tags)
		if tags == nil {
			tags = map[string]string{}
		}
		templateTags(tags, t.ID, v)
		maps.Copy(tags, r.tags)
		tags["aws:ec2:fleet-id"] = fleet
		overrides := cfg.overrides
		if len(overrides) == 0 {
			overrides = []fleetOverride{{}}
		}
		for _, o := range overrides {
			if o.typ == "" {
				o.typ = data.Type
			}
			if o.subnet == "" && o.zone == "" {
				o.subnet = data.Subnet
			}
			p := &fleetPool{override: o, rank: len(pools), config: templateXML{ID: t.ID, Version: fmt.Sprint(v)}}
			if cfg.template.id == "" {
				p.config = templateXML{Name: t.Name, Version: fmt.Sprint(v)}
			}
			p.wish = wish{offering: cloud.Offering{Type: o.typ}, template: t.ID, version: v, data: data, tags: tags, token: r.token}
			p.wish.maxPrice = o.maxPrice
			if o.image != "" {
				p.wish.data.Image = o.image
			}
			p.err = s.aim(p)
			pools = append(pools, p)
		}
	}
	return pools, nil
}

// aim finds a pool's subnet.
func (s *Sim) aim(p *fleetPool) *Error {
	switch {
	case p.override.typ == "":
		return fail("InvalidFleetConfiguration", "The fleet configuration names no instance type")
	case s.types[p.override.typ] == nil:
		return fail("InvalidParameterValue", "Invalid value '%s' for InstanceType.", p.override.typ)
	}
	for _, sub := range s.cat.Subnets {
		if (p.override.subnet == "" || sub.ID == p.override.subnet) && (p.override.zone == "" || sub.Zone == p.override.zone) {
			p.wish.subnet, p.wish.offering.Zone = sub.ID, sub.Zone
			return nil
		}
	}
	if p.override.subnet != "" {
		return fail("InvalidSubnetID.NotFound", "The subnet ID '%s' does not exist", p.override.subnet)
	}
	return fail("InvalidParameterValue", "Invalid availability zone: [%s]", p.override.zone)
}

type templateXML struct {
	ID      string `xml:"launchTemplateId,omitempty"`
	Name    string `xml:"launchTemplateName,omitempty"`
	Version string `xml:"version"`
}

type fleetItemXML struct {
	Template  templateXML `xml:"launchTemplateSpecification"`
	Overrides struct {
		Type     string   `xml:"instanceType,omitempty"`
		MaxPrice string   `xml:"maxPrice,omitempty"`
		Subnet   string   `xml:"subnetId,omitempty"`
		Zone     string   `xml:"availabilityZone,omitempty"`
		Priority *float64 `xml:"priority,omitempty"`
	} `xml:"overrides"`
}

func (p *fleetPool) xml() fleetItemXML {
	x := fleetItemXML{Template: p.config}
	x.Overrides.Type, x.Overrides.MaxPrice = p.override.typ, p.override.maxPrice
	x.Overrides.Subnet, x.Overrides.Zone = p.override.subnet, p.override.zone
	if p.wish.offering.Zone != "" {
		x.Overrides.Zone = p.wish.offering.Zone
	}
	if p.override.ranked {
		x.Overrides.Priority = &p.override.priority
	}
	return x
}

type fleetErrorXML struct {
	Item      fleetItemXML `xml:"launchTemplateAndOverrides"`
	Lifecycle string       `xml:"lifecycle"`
	Code      string       `xml:"errorCode"`
	Message   string       `xml:"errorMessage"`
}

type fleetInstancesXML struct {
	Item      fleetItemXML `xml:"launchTemplateAndOverrides"`
	Lifecycle string       `xml:"lifecycle"`
	IDs       []string     `xml:"instanceIds>item"`
	Type      string       `xml:"instanceType"`
}

type createFleetReply struct {
	FleetID   string              `xml:"fleetId"`
	Errors    []fleetErrorXML     `xml:"errorSet>item"`
	Instances []fleetInstancesXML `xml:"fleetInstanceSet>item"`
}
