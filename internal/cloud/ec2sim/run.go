package ec2sim

import (
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/midair-hpc/midair/internal/cloud"
)

// runRequest is RunInstances as it was asked.
type runRequest struct {
	min, max    int
	typ         string
	subnet      string
	zone        string
	market      cloud.Market
	block       bool
	reservation string
	preference  string
	template    templateRef
	templated   bool
	image       string
	hibernation bool
	shutdown    string // InstanceInitiatedShutdownBehavior
	maxPrice    string
	tags        map[string]string
	token       string
}

func readRun(c *call) runRequest {
	r := runRequest{
		min: c.int("MinCount", 0), max: c.int("MaxCount", 0),
		typ: c.str("InstanceType"), subnet: c.str("SubnetId"), image: c.str("ImageId"), token: c.str("ClientToken"),
		market: cloud.OnDemand,
	}
	r.template, r.templated = readTemplateRef(c.sub("LaunchTemplate"))
	if p := c.sub("Placement"); p.there() {
		r.zone = p.str("AvailabilityZone")
		p.ignore("Affinity", "AvailabilityZoneId", "GroupId", "GroupName", "HostId", "HostResourceGroupArn", "PartitionNumber", "SpreadDomain", "Tenancy")
	}
	if m := c.sub("InstanceMarketOptions"); m.there() {
		switch m.oneOf("MarketType", "spot", "capacity-block", "interruptible-capacity-reservation") {
		case "spot":
			r.market = cloud.Spot
		case "capacity-block":
			r.block = true
		}
		r.maxPrice = m.sub("SpotOptions").str("MaxPrice")
		m.sub("SpotOptions").ignore("BlockDurationMinutes", "InstanceInterruptionBehavior", "SpotInstanceType", "ValidUntil")
	}
	if cr := c.sub("CapacityReservationSpecification"); cr.there() {
		r.preference = cr.oneOf("CapacityReservationPreference", "capacity-reservations-only", "open", "none")
		target := cr.sub("CapacityReservationTarget")
		r.reservation = target.str("CapacityReservationId")
		target.ignore("CapacityReservationResourceGroupArn")
	}
	r.shutdown = c.oneOf("InstanceInitiatedShutdownBehavior", "stop", "terminate")
	r.hibernation = c.sub("HibernationOptions").bool("Configured")
	for _, n := range c.list("NetworkInterface") {
		if id := n.str("SubnetId"); id != "" && r.subnet == "" {
			r.subnet = id
		}
	}
	r.tags = tagSpecifications(&c.node, "instance", "volume", "network-interface", "spot-instances-request", "elastic-gpu")["instance"]
	c.ignore("AdditionalInfo", "BlockDeviceMapping", "CpuOptions", "CreditSpecification", "DisableApiStop", "DisableApiTermination",
		"EbsOptimized", "ElasticGpuSpecification", "ElasticInferenceAccelerator", "EnablePrimaryIpv6", "EnclaveOptions", "IamInstanceProfile",
		"Ipv6Address", "Ipv6AddressCount", "KernelId", "KeyName", "LicenseSpecification", "MaintenanceOptions",
		"MetadataOptions", "Monitoring", "NetworkInterface", "NetworkPerformanceOptions", "Operator", "PrivateDnsNameOptions", "PrivateIpAddress",
		"RamdiskId", "SecondaryInterface", "SecurityGroup", "SecurityGroupId", "UserData")
	switch {
	case !c.sub("MinCount").set:
		c.bad(fail("MissingParameter", "The request must contain the parameter MinCount"))
	case !c.sub("MaxCount").set:
		c.bad(fail("MissingParameter", "The request must contain the parameter MaxCount"))
	case r.min < 1 || r.max < r.min:
		c.bad(fail("InvalidParameterValue", "Value (%d) for parameter minCount is invalid. It must be 1 to maxCount (%d)", r.min, r.max))
	case len(r.token) > 64:
		c.bad(fail("InvalidParameterValue", "Value (%s) for parameter clientToken is invalid. It has more than 64 characters", r.token))
	}
	return r
}

// wish completes a request by its launch template.
func (s *Sim) runWish(r runRequest, now time.Time) (wish, *Error) {
	w := wish{offering: cloud.Offering{Type: r.typ, Market: r.market}, subnet: r.subnet, tags: map[string]string{}, token: r.token, maxPrice: r.maxPrice}
	if r.templated {
		t, v, e := s.template(r.template)
		if e != nil {
			return w, e
		}
		w.template, w.version, w.data = t.ID, v, t.Versions[v-1]
		maps.Copy(w.tags, w.data.Tags)
		templateTags(w.tags, t.ID, v)
	}
	maps.Copy(w.tags, r.tags)
	d := &w.data
	if r.image != "" {
		d.Image = r.image
	}
	d.Hibernation = d.Hibernation || r.hibernation
	if r.shutdown != "" {
		d.Shutdown = r.shutdown
	}
	if w.offering.Type == "" {
		w.offering.Type = d.Type
	}
	if w.subnet == "" {
		w.subnet = d.Subnet
	}
	if d.Spot {
		w.offering.Market = cloud.Spot
	}
	switch {
	case d.Image == "":
		return w, fail("MissingParameter", "The request must contain the parameter ImageId")
	case w.offering.Type == "":
		w.offering.Type = "m1.small" // EC2's default, which the catalogue hardly has
	}
	if w.subnet != "" && s.subnets[w.subnet] == nil {
		return w, fail("InvalidSubnetID.NotFound", "The subnet ID '%s' does not exist", w.subnet)
	}
	if r.reservation != "" {
		return w, s.reserve(&w, r, now)
	}
	if r.block {
		return w, fail("InvalidParameterCombination", "You must specify a Capacity Reservation target when the market type is capacity-block.")
	}
	return w, nil
}

// reserve aims a wish at the reservation that the call names.
func (s *Sim) reserve(w *wish, r runRequest, now time.Time) *Error {
	res := s.reservation(r.reservation)
	switch {
	case res == nil:
		return noReservation(r.reservation)
	case reservationState(res, now) != "active":
		return fail("InvalidCapacityReservationState", "The capacity reservation '%s' is not active", res.ID)
	case w.offering.Market == cloud.Spot:
		return fail("InvalidParameterCombination", "You cannot specify a Capacity Reservation target for Spot Instances.")
	case res.Block != r.block:
		return fail("InvalidParameterCombination", "The market type capacity-block and a Capacity Block are to be used together.")
	case res.Type != w.offering.Type:
		return fail("InvalidParameterValue", "The attributes of the Capacity Reservation '%s' (instance type %s) do not match those of the request (%s).", res.ID, res.Type, w.offering.Type)
	case w.subnet != "" && s.subnets[w.subnet].Zone != res.Zone:
		return fail("InvalidParameterValue", "The attributes of the Capacity Reservation '%s' (Availability Zone %s) do not match those of the request (%s).", res.ID, res.Zone, s.subnets[w.subnet].Zone)
	}
	w.reservation, w.offering.Market, w.offering.Zone = res, cloud.Reserved, res.Zone
	return nil
}

func templateTags(tags map[string]string, id string, version int) {
	tags["aws:ec2launchtemplate:id"] = id
	tags["aws:ec2launchtemplate:version"] = strconv.Itoa(version)
}

func (s *Sim) runInstances(c *call) op {
	r := readRun(c)
	return func(now time.Time) (any, *Error) {
		if r.token != "" {
			if t, e := s.repeated(runToken(r.token), c); e != nil || t != nil {
				return s.runAgain(t, now), e
			}
		}
		w, e := s.runWish(r, now)
		if e != nil {
			return nil, e
		}
		w, n, e := s.runPool(w, r, now)
		if n < r.min {
			return nil, e
		}
		made := s.create(w, n, 0, now)
		if r.token != "" {
			s.remember(runToken(r.token), &token{Params: c.params, IDs: ids(made), Created: now})
		}
		return s.runReply(made, now), nil
	}
}

// runPool chooses the pool: the one subnet or zone that was asked for, or the
// first with room.
func (s *Sim) runPool(w wish, r runRequest, now time.Time) (wish, int, *Error) {
	var last *Error
	for _, sub := range s.cat.Subnets {
		if (w.subnet != "" && sub.ID != w.subnet) || (r.zone != "" && sub.Zone != r.zone) || (w.reservation != nil && sub.Zone != w.reservation.Zone) {
			continue
		}
		try := w
		try.subnet, try.offering.Zone = sub.ID, sub.Zone
		n, e := s.room(try, r.max, now)
		if n >= r.min {
			return try, n, nil
		}
		last = e
	}
	if last == nil {
		last = fail("InvalidParameterValue", "Invalid availability zone: [%s]", strings.TrimSpace(r.zone))
	}
	return w, 0, last
}

func ids(made []*instance) []string {
	list := make([]string, len(made))
	for k, i := range made {
		list[k] = i.ID
	}
	return list
}

// runAgain answers a repeated call: the same instances, as they are now.
func (s *Sim) runAgain(t *token, now time.Time) any {
	if t == nil {
		return nil
	}
	var made []*instance
	for _, id := range t.IDs {
		if i := s.instances[id]; i != nil {
			made = append(made, i)
		}
	}
	return s.runReply(made, now)
}

type runReply struct {
	reservationXML
}

func (s *Sim) runReply(made []*instance, now time.Time) *runReply {
	r := &runReply{reservationXML{Owner: s.cat.Account}}
	if len(made) > 0 {
		r.ID = made[0].Reservation
	}
	for _, i := range made {
		r.Instances = append(r.Instances, s.describe(i, now))
	}
	return r
}
