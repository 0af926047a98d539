package ec2sim

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/midair-hpc/midair/internal/cloud"
)

// stamp writes a time as EC2 does.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

type stateXML struct {
	Code int    `xml:"code"`
	Name string `xml:"name"`
}

func stateOf(st State) stateXML { return stateXML{stateCodes[st], string(st)} }

type tagXML struct {
	Key   string `xml:"key"`
	Value string `xml:"value"`
}

type groupXML struct {
	ID   string `xml:"groupId"`
	Name string `xml:"groupName"`
}

type reasonXML struct {
	Code    string `xml:"code"`
	Message string `xml:"message"`
}

type placementXML struct {
	Zone    string `xml:"availabilityZone"`
	ZoneID  string `xml:"availabilityZoneId"`
	Group   string `xml:"groupName"`
	Tenancy string `xml:"tenancy"`
}

type instanceXML struct {
	ID             string        `xml:"instanceId"`
	Image          string        `xml:"imageId"`
	State          *stateXML     `xml:"instanceState"`
	PrivateDNS     string        `xml:"privateDnsName"`
	PublicDNS      string        `xml:"dnsName"`
	Transition     string        `xml:"reason"`
	Index          int           `xml:"amiLaunchIndex"`
	Type           string        `xml:"instanceType"`
	LaunchTime     string        `xml:"launchTime,omitempty"`
	Placement      *placementXML `xml:"placement"`
	Monitoring     string        `xml:"monitoring>state"`
	Subnet         string        `xml:"subnetId,omitempty"`
	VPC            string        `xml:"vpcId,omitempty"`
	Addr           string        `xml:"privateIpAddress,omitempty"`
	Groups         []groupXML    `xml:"groupSet>item"`
	Reason         *reasonXML    `xml:"stateReason"`
	Architecture   string        `xml:"architecture"`
	RootDeviceType string        `xml:"rootDeviceType"`
	RootDevice     string        `xml:"rootDeviceName"`
	Virtualization string        `xml:"virtualizationType"`
	Lifecycle      string        `xml:"instanceLifecycle,omitempty"`
	SpotRequest    string        `xml:"spotInstanceRequestId,omitempty"`
	Token          string        `xml:"clientToken"`
	Tags           []tagXML      `xml:"tagSet>item"`
	Hypervisor     string        `xml:"hypervisor"`
	Profile        *profileXML   `xml:"iamInstanceProfile"`
	EBSOptimized   bool          `xml:"ebsOptimized"`
	Cores          int           `xml:"cpuOptions>coreCount"`
	Threads        int           `xml:"cpuOptions>threadsPerCore"`
	CapacityID     string        `xml:"capacityReservationId,omitempty"`
	Hibernation    bool          `xml:"hibernationOptions>configured"`
	Platform       string        `xml:"platformDetails"`
	UsageOperation string        `xml:"usageOperation"`
}

type profileXML struct {
	ARN string `xml:"arn"`
	ID  string `xml:"id"`
}

type reservationXML struct {
	ID        string        `xml:"reservationId"`
	Owner     string        `xml:"ownerId"`
	Groups    []groupXML    `xml:"groupSet>item"`
	Instances []instanceXML `xml:"instancesSet>item"`
}

type describeInstancesReply struct {
	Reservations []reservationXML `xml:"reservationSet>item"`
	NextToken    string           `xml:"nextToken,omitempty"`
}

// describe gives an instance as it is shown by now.
func (s *Sim) describe(i *instance, now time.Time) instanceXML {
	t := s.types[i.Offering.Type]
	st := stateOf(i.State)
	x := instanceXML{
		ID: i.ID, Image: i.Data.Image, State: &st, Transition: i.Transition, Index: i.Index, Type: i.Offering.Type, LaunchTime: stamp(i.LaunchedAt),
		Placement:  &placementXML{i.Offering.Zone, s.zoneID(i.Offering.Zone), i.Data.PlacementGroup, "default"},
		Monitoring: "disabled", Architecture: t.arch(), RootDeviceType: "ebs", RootDevice: "/dev/xvda", Virtualization: "hvm", Hypervisor: "xen",
		SpotRequest: i.SpotRequest, Token: i.Token, Cores: t.cores(), Threads: max(1, t.VCPUs/t.cores()),
		CapacityID: i.CapacityID, Hibernation: i.Data.Hibernation, Platform: "Linux/UNIX", UsageOperation: "RunInstances", EBSOptimized: true,
	}
	switch {
	case i.Block:
		x.Lifecycle = "capacity-block"
	case i.Offering.Market == cloud.Spot:
		x.Lifecycle = "spot"
	}
	if i.ReasonCode != "" {
		x.Reason = &reasonXML{i.ReasonCode, i.Reason}
	}
	if i.Data.Profile != "" {
		x.Profile = &profileXML{s.arn("iam", "instance-profile/"+i.Data.Profile), "AIPAEC2SIM"}
	}
	for _, g := range i.Data.SecurityGroups {
		x.Groups = append(x.Groups, groupXML{g, g})
	}
	if i.State != cloud.Terminated {
		x.Subnet, x.VPC = i.Subnet, s.cat.VPC.ID
		if !now.Before(i.CreatedAt.Add(s.lag.Address)) {
			x.Addr, x.PrivateDNS = i.Addr.String(), s.hostName(i)
		}
	}
	x.Tags = tagsXML(i.tags(now))
	return x
}

// hostName is the name that EC2 gives an instance of its own accord.
func (s *Sim) hostName(i *instance) string {
	name := "ip-" + strings.ReplaceAll(i.Addr.String(), ".", "-")
	if s.cat.Region == "us-east-1" {
		return name + ".ec2.internal"
	}
	return name + "." + s.cat.Region + ".compute.internal"
}

// zoneID is the id of a zone, which unlike its name is the same for everybody.
func (s *Sim) zoneID(zone string) string {
	parts := strings.Split(s.cat.Region, "-")
	short := s.cat.Region
	if len(parts) == 3 {
		short = parts[0] + parts[1][:1] + parts[2]
	}
	return short + "-az" + strconv.Itoa(slices.Index(s.cat.Zones, zone)+1)
}

func tagsXML(tags map[string]string) []tagXML {
	list := make([]tagXML, 0, len(tags))
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		list = append(list, tagXML{key, tags[key]})
	}
	return list
}

func (s *Sim) describeInstances(c *call) op {
	ids := c.strs("InstanceId")
	f := readFilters(c.form, "tag", "tag-key", "instance-state-name", "instance-state-code", "client-token", "instance-id", "instance-type",
		"availability-zone", "subnet-id", "vpc-id", "instance-lifecycle", "reservation-id", "private-ip-address", "image-id", "capacity-reservation-id", "spot-instance-request-id")
	page := readPage(c.form, 5, 1000)
	c.ignore("IncludeManagedResources")
	if len(ids) > 0 && page.max > 0 {
		c.bad(fail("InvalidParameterCombination", "The parameter instancesSet cannot be used with the parameter maxResults"))
	}
	return func(now time.Time) (any, *Error) {
		wanted, e := s.find(ids, now)
		if e != nil {
			return nil, e
		}
		if len(ids) == 0 {
			wanted = s.after(uint64(page.from))
		}
		reply, n := &describeInstancesReply{}, 0
		for _, i := range wanted {
			if !s.shown(i, now) || !s.matches(f, i, now) {
				continue
			}
			if page.max > 0 && n == page.max {
				reply.NextToken = pageToken(int(i.Seq - 1))
				break
			}
			n++
			s.put(reply, i, now)
		}
		return reply, nil
	}
}

// put adds an instance to a reply, in its reservation.
func (s *Sim) put(reply *describeInstancesReply, i *instance, now time.Time) {
	k := len(reply.Reservations) - 1
	if k < 0 || reply.Reservations[k].ID != i.Reservation {
		reply.Reservations = append(reply.Reservations, reservationXML{ID: i.Reservation, Owner: s.cat.Account})
		k++
	}
	reply.Reservations[k].Instances = append(reply.Reservations[k].Instances, s.describe(i, now))
	s.oddly(&reply.Reservations[k].Instances[len(reply.Reservations[k].Instances)-1], i.Offering)
}

// find gives the instances of ids. One that is not to be seen is an error for
// all, as at EC2.
func (s *Sim) find(ids []string, now time.Time) ([]*instance, *Error) {
	var (
		found   []*instance
		missing []string
		seen    = map[string]bool{}
	)
	for _, id := range ids {
		if !instanceID(id) {
			return nil, fail("InvalidInstanceID.Malformed", "Invalid id: \"%s\"", id)
		}
		i, ok := s.visible(id, now)
		switch {
		case !ok:
			missing = append(missing, id)
		case !seen[id]:
			seen[id] = true
			found = append(found, i)
		}
	}
	switch len(missing) {
	case 0:
		return found, nil
	case 1:
		return nil, fail("InvalidInstanceID.NotFound", "The instance ID '%s' does not exist", missing[0])
	}
	return nil, fail("InvalidInstanceID.NotFound", "The instance IDs '%s' do not exist", strings.Join(missing, ", "))
}

func instanceID(id string) bool {
	hex, ok := strings.CutPrefix(id, "i-")
	return ok && (len(hex) == 17 || len(hex) == 8) && strings.Trim(hex, "0123456789abcdef") == ""
}

// after gives the instances that were created after one of this number.
func (s *Sim) after(seq uint64) []*instance {
	at, _ := slices.BinarySearchFunc(s.order, seq+1, func(i *instance, seq uint64) int { return int(int64(i.Seq - seq)) })
	return s.order[at:]
}

func (s *Sim) matches(f filters, i *instance, now time.Time) bool {
	if len(f) == 0 {
		return true
	}
	lifecycle := ""
	switch {
	case i.Block:
		lifecycle = "capacity-block"
	case i.Offering.Market == cloud.Spot:
		lifecycle = "spot"
	}
	return f.match("instance-state-name", string(i.State)) && f.match("instance-state-code", strconv.Itoa(stateCodes[i.State])) &&
		f.match("client-token", i.Token) && f.match("instance-id", i.ID) && f.match("instance-type", i.Offering.Type) &&
		f.match("availability-zone", i.Offering.Zone) && f.match("subnet-id", i.Subnet) && f.match("vpc-id", s.cat.VPC.ID) &&
		f.match("instance-lifecycle", lifecycle) && f.match("reservation-id", i.Reservation) && f.match("private-ip-address", i.Addr.String()) &&
		f.match("image-id", i.Data.Image) && f.match("capacity-reservation-id", i.CapacityID) && f.match("spot-instance-request-id", i.SpotRequest) &&
		f.matchTags(i.tags(now))
}
