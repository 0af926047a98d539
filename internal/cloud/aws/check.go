package aws

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/config"
)

// Verdict is the outcome of one check.
type Verdict string

// The verdicts. Unsure is for what cannot be tried without an instance.
const (
	OK     Verdict = "OK"
	Fail   Verdict = "FAIL"
	Unsure Verdict = "?"
)

// Finding is one line of Check.
type Finding struct {
	Verdict Verdict `json:"verdict"`
	What    string  `json:"what"`
	// Says is what was found; Do is what to do about it, if it failed.
	Says string `json:"says,omitempty"`
	Do   string `json:"do,omitempty"`
	// Detail is of interest only to those who ask for it.
	Detail bool `json:"-"`
}

// memoryShown is the share of a type's nominal memory that Linux usually shows
// at least. Slurm drains a node that has less than its RealMemory.
const memoryShown = 0.965

// Check tries whatever midair needs of the account, and launches nothing: calls
// that change something are made with DryRun. pools are those of midair.yaml
// that use this provider.
func (p *Provider) Check(ctx context.Context, cluster string, pools []config.Pool) []Finding {
	c := &checker{p: p, cluster: cluster, pools: pools}
	if !c.identity(ctx) {
		return c.found
	}
	if !c.region(ctx) {
		return c.found
	}
	templates := c.templates(ctx)
	c.offerings(ctx, templates)
	c.subnets(ctx, templates)
	c.reservations(ctx)
	c.permissions(ctx, templates)
	c.quotas(ctx)
	c.prices(ctx)
	return c.found
}

type checker struct {
	p       *Provider
	cluster string
	pools   []config.Pool
	found   []Finding
}

func (c *checker) add(v Verdict, what, says, do string, detail bool) {
	c.found = append(c.found, Finding{v, what, says, do, detail})
}

func (c *checker) ok(what, format string, args ...any) {
	c.add(OK, what, fmt.Sprintf(format, args...), "", false)
}

func (c *checker) fail(what string, err error, do string) {
	e := c.p.classify(what, "", err)
	if m, _ := meaningOf(e.Code); do == "" && m.class == e.Class {
		do = m.do
	}
	c.add(Fail, what, e.Error(), do, false)
}

func (c *checker) identity(ctx context.Context) bool {
	out, err := read(ctx, c.p, "GetCallerIdentity", func(ctx context.Context) (*sts.GetCallerIdentityOutput, error) {
		return c.p.sts.GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	})
	if err != nil {
		c.fail("credentials", err, "")
		return false
	}
	c.ok("credentials", "%s", awssdk.ToString(out.Arn))
	return true
}

func (c *checker) region(ctx context.Context) bool {
	out, err := read(ctx, c.p, "DescribeAvailabilityZones", func(ctx context.Context) (*ec2.DescribeAvailabilityZonesOutput, error) {
		return c.p.ec2.DescribeAvailabilityZones(ctx, &ec2.DescribeAvailabilityZonesInput{})
	})
	if err != nil {
		var e *cloud.Error
		// The zones are only for this check.
		if errors.As(err, &e) && strings.HasPrefix(e.Code, "UnauthorizedOperation") {
			c.add(Unsure, "region", c.p.conf.Region+": its zones may not be listed", "", false)
			return true
		}
		c.fail("region", err, "")
		return false
	}
	var zones []string
	for _, z := range out.AvailabilityZones {
		zones = append(zones, awssdk.ToString(z.ZoneName))
	}
	slices.Sort(zones)
	c.ok("region", "%s with zones %s", c.p.conf.Region, strings.Join(zones, ", "))
	for _, pool := range c.pools {
		for _, o := range pool.Offerings {
			if !slices.Contains(zones, o.Zone) {
				c.add(Fail, "pool "+pool.Name, "zone "+o.Zone+" is not there in "+c.p.conf.Region, "correct zones of the pool in midair.yaml", false)
				break
			}
		}
	}
	return true
}

// templates gives the launch template of each pool that has one.
func (c *checker) templates(ctx context.Context) map[string]template {
	all := map[string]template{}
	seen := map[string]bool{}
	for _, pool := range c.pools {
		t, err := c.p.templateOf(ctx, pool.Name)
		as := t.as
		if err != nil {
			if !seen[err.Error()] {
				c.fail("launch template", err, "")
			}
			seen[err.Error()] = true
			continue
		}
		all[pool.Name] = t
		if !seen[as] {
			c.ok("launch template", "%s, version %d, image %s", as, t.number, awssdk.ToString(t.data.ImageId))
			c.templateHints(t)
		}
		seen[as] = true
		if pool.Placement == config.PlaceGroup && (t.data.Placement == nil || awssdk.ToString(t.data.Placement.GroupName) == "" && awssdk.ToString(t.data.Placement.GroupId) == "") {
			c.add(Fail, "pool "+pool.Name, fmt.Sprintf("placement: group, but the launch template %q has no placement group", as), "set Placement in the launch template, or placement: zone in midair.yaml", false)
		}
	}
	return all
}

// templateHints says what a launch template lacks that nodes need.
func (c *checker) templateHints(t template) {
	what := "launch template " + t.as
	if m := t.data.MetadataOptions; m == nil || m.InstanceMetadataTags != types.LaunchTemplateInstanceMetadataTagsStateEnabled {
		c.add(Fail, what, "instances cannot read their own tags, from which they learn which Slurm node they are", "set MetadataOptions.InstanceMetadataTags to enabled", false)
	}
	if t.data.IamInstanceProfile == nil {
		c.add(Unsure, what, "instances have no role: they can reach object storage only with keys of their own", "", false)
	}
}

func (c *checker) offerings(ctx context.Context, templates map[string]template) {
	for _, pool := range c.pools {
		what := "pool " + pool.Name
		if err := c.p.sold(ctx, pool.Offerings); err != nil {
			c.fail(what, err, "")
			continue
		}
		var names []string
		for _, o := range pool.Offerings {
			if !slices.Contains(names, o.Type) {
				names = append(names, o.Type)
			}
		}
		sizes, err := c.p.typesOf(ctx, names)
		if err != nil {
			c.fail(what, err, "")
			continue
		}
		r := cloud.LaunchRequest{Pool: pool.Name, CPUs: pool.Node.CPUs, MemoryMiB: pool.Node.MemoryMiB, GPUs: pool.Node.GPUs()}
		good := true
		for _, n := range names {
			if e := sizes[n].mismatch(n, templates[pool.Name], r); e != nil {
				c.add(Fail, what, e.Error(), "correct node or types of the pool in midair.yaml", false)
				good = false
			} else if float64(r.MemoryMiB) > memoryShown*float64(sizes[n].memoryMiB) {
				c.add(Unsure, what, fmt.Sprintf("memory %d MiB is close to the %d MiB that %s has by name; Linux shows some percent less, and Slurm drains a node with less than it was promised", r.MemoryMiB, sizes[n].memoryMiB, n),
					fmt.Sprintf("promise %d MiB at most", int(memoryShown*float64(sizes[n].memoryMiB))), false)
			}
		}
		if good {
			c.ok(what, "%s have what the pool promises", strings.Join(names, ", "))
		}
	}
}

func (c *checker) subnets(ctx context.Context, templates map[string]template) {
	var done []string
	for _, pool := range c.pools {
		t, ok := templates[pool.Name]
		if !ok {
			continue
		}
		for _, o := range pool.Offerings {
			key := o.Zone + "/" + t.as
			if slices.Contains(done, key) {
				continue
			}
			done = append(done, key)
			ids, err := c.p.subnetsIn(ctx, o.Zone, t)
			if err != nil {
				c.fail("subnets of "+o.Zone, err, "")
				continue
			}
			c.subnetsAre(ctx, o.Zone, ids)
		}
	}
}

// subnetsAre checks that subnets are in their zone and have room.
func (c *checker) subnetsAre(ctx context.Context, zone string, ids []string) {
	what := "subnets of " + zone
	list, err := c.p.describeSubnets(ctx, filter("subnet-id", ids...))
	if err != nil {
		c.fail(what, err, "")
		return
	}
	var words []string
	for _, id := range ids {
		k := slices.IndexFunc(list, func(s types.Subnet) bool { return awssdk.ToString(s.SubnetId) == id })
		switch {
		case k < 0:
			c.add(Fail, what, "the subnet "+id+" is not there in "+c.p.conf.Region, "correct subnets in midair.yaml", false)
			return
		case awssdk.ToString(list[k].AvailabilityZone) != zone:
			c.add(Fail, what, "the subnet "+id+" is in zone "+awssdk.ToString(list[k].AvailabilityZone), "correct subnets in midair.yaml", false)
			return
		}
		words = append(words, fmt.Sprintf("%s with %d free addresses", id, awssdk.ToInt32(list[k].AvailableIpAddressCount)))
	}
	c.ok(what, "%s", strings.Join(words, ", "))
}

func (c *checker) reservations(ctx context.Context) {
	for _, r := range c.p.conf.Reservations {
		what := "reservation " + r.ID
		out, err := read(ctx, c.p, "DescribeCapacityReservations", func(ctx context.Context) (*ec2.DescribeCapacityReservationsOutput, error) {
			return c.p.ec2.DescribeCapacityReservations(ctx, &ec2.DescribeCapacityReservationsInput{CapacityReservationIds: []string{r.ID}})
		})
		if err == nil && len(out.CapacityReservations) == 0 {
			err = &cloud.Error{Class: cloud.Config, Message: "it is not there in " + c.p.conf.Region}
		}
		if err != nil {
			c.fail(what, err, "")
			continue
		}
		x := out.CapacityReservations[0]
		is := config.Reservation{ID: r.ID, Type: awssdk.ToString(x.InstanceType), Zone: awssdk.ToString(x.AvailabilityZone), Block: x.ReservationType == types.CapacityReservationTypeCapacityBlock}
		switch {
		case is != r:
			kind := map[bool]string{true: "a capacity block", false: "an On-Demand Capacity Reservation"}
			c.add(Fail, what, fmt.Sprintf("it is %s of %s in %s; midair.yaml says %s of %s in %s", kind[is.Block], is.Type, is.Zone, kind[r.Block], r.Type, r.Zone), "correct reservations in midair.yaml", false)
		case x.State != types.CapacityReservationStateActive:
			c.add(Unsure, what, fmt.Sprintf("it is %s", x.State), "", false)
		default:
			c.ok(what, "%d of %d free, of %s in %s", awssdk.ToInt32(x.AvailableInstanceCount), awssdk.ToInt32(x.TotalInstanceCount), is.Type, is.Zone)
		}
	}
}

func (c *checker) quotas(ctx context.Context) {
	var sizes []cloud.PoolSize
	for _, pool := range c.pools {
		sizes = append(sizes, cloud.PoolSize{Name: pool.Name, Nodes: len(pool.NodeNames), Offerings: pool.Offerings})
	}
	r, err := c.p.Limits(ctx, c.cluster, sizes)
	if err != nil {
		c.fail("quotas", err, "")
		return
	}
	for _, f := range r.Pools {
		if f.Fit < f.Nodes {
			c.add(Fail, "quotas", fmt.Sprintf("the account's quotas allow %d of the %d nodes of pool %s", f.Fit, f.Nodes, f.Pool), askQuota, false)
		}
	}
	c.ok("quotas", "%d read", len(r.Limits))
	c.add(OK, "permission servicequotas:ListServiceQuotas", "", "", true)
}

func (c *checker) prices(ctx context.Context) {
	for _, pool := range c.pools {
		what := "prices of pool " + pool.Name
		quotes, err := c.p.Quotes(ctx, pool.Offerings)
		if err != nil {
			c.fail(what, err, "name a price_file in midair.yaml if the price list cannot be reached from here")
			continue
		}
		if len(quotes) == 0 {
			continue
		}
		low, high := quotes[0].Price, quotes[0].Price
		for _, q := range quotes {
			low, high = min(low, q.Price), max(high, q.Price)
		}
		c.ok(what, "%.4f to %.4f USD an hour", float64(low)/1e6, float64(high)/1e6)
	}
}
