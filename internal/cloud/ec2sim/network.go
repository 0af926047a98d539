package ec2sim

import (
	"strings"
	"time"
)

type subnetXML struct {
	ID      string   `xml:"subnetId"`
	ARN     string   `xml:"subnetArn"`
	State   string   `xml:"state"`
	Owner   string   `xml:"ownerId"`
	VPC     string   `xml:"vpcId"`
	CIDR    string   `xml:"cidrBlock"`
	Free    int      `xml:"availableIpAddressCount"`
	Zone    string   `xml:"availabilityZone"`
	ZoneID  string   `xml:"availabilityZoneId"`
	Default bool     `xml:"defaultForAz"`
	Public  bool     `xml:"mapPublicIpOnLaunch"`
	Tags    []tagXML `xml:"tagSet>item"`
}

type describeSubnetsReply struct {
	Subnets   []subnetXML `xml:"subnetSet>item"`
	NextToken string      `xml:"nextToken,omitempty"`
}

func (s *Sim) describeSubnets(c *call) op {
	ids := c.strs("SubnetId")
	f := readFilters(c.form, "subnet-id", "vpc-id", "availability-zone", "availability-zone-id", "state", "tag", "tag-key", "cidr-block", "default-for-az")
	page := readPage(c.form, 5, 1000)
	return func(time.Time) (any, *Error) {
		var missing []string
		for _, id := range ids {
			if s.subnets[id] == nil {
				missing = append(missing, id)
			}
		}
		if len(missing) > 0 {
			return nil, fail("InvalidSubnetID.NotFound", "The subnet ID '%s' does not exist", strings.Join(missing, ", "))
		}
		var all []subnetXML
		for _, sub := range s.cat.Subnets {
			x := subnetXML{
				ID: sub.ID, ARN: "arn:aws:ec2:" + s.cat.Region + ":" + s.cat.Account + ":subnet/" + sub.ID, State: "available", Owner: s.cat.Account, VPC: s.cat.VPC.ID,
				CIDR: sub.CIDR.Masked().String(), Free: s.subnets[sub.ID].free(), Zone: sub.Zone, ZoneID: s.zoneID(sub.Zone),
			}
			if among(ids, sub.ID) && f.match("subnet-id", x.ID) && f.match("vpc-id", x.VPC) && f.match("availability-zone", x.Zone) &&
				f.match("availability-zone-id", x.ZoneID) && f.match("state", x.State) && f.match("cidr-block", x.CIDR) && f.match("default-for-az", "false") && f.matchTags(nil) {
				all = append(all, x)
			}
		}
		items, next, e := cut(page, all)
		return &describeSubnetsReply{items, next}, e
	}
}
