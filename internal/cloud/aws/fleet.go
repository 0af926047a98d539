package aws

import (
	"context"
	"maps"
	"slices"
	"strings"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/midair-hpc/midair/internal/cloud"
)

// maxOverrides is how many types × subnets a fleet of type instant takes.
const maxOverrides = 300

// defaultSpotAllocation is EC2's own advice: the cheapest of the pools that are
// least likely to be interrupted.
const defaultSpotAllocation = string(types.SpotAllocationStrategyPriceCapacityOptimized)

// fleet buys with CreateFleet of type instant.
func (p *Provider) fleet(ctx context.Context, o *order) (bought, error) {
	in := p.fleetInput(o)
	out, e := once(ctx, p, "CreateFleet", 0, func(ctx context.Context) (*ec2.CreateFleetOutput, error) { return p.ec2.CreateFleet(ctx, in) })
	if e != nil {
		if len(o.offerings) == 1 || e.Class == cloud.Config || e.Class == cloud.Unauthorized {
			e = p.about(e, "CreateFleet", o.offerings[0])
		}
		if !definiteShortage(e) {
			return bought{}, e
		}
		b := bought{}
		for _, f := range o.offerings {
			b.shortfalls = append(b.shortfalls, cloud.Shortfall{Offering: f, Nodes: len(o.Nodes), Err: p.about(e, "CreateFleet", f)})
		}
		return b, nil
	}
	return p.fleetAnswer(o, out), nil
}

func (p *Provider) fleetInput(o *order) *ec2.CreateFleetInput {
	n := int32(len(o.Nodes))
	in := &ec2.CreateFleetInput{
		Type: types.FleetTypeInstant, ClientToken: awssdk.String(clientToken(o.Token, 0)),
		LaunchTemplateConfigs: []types.FleetLaunchTemplateConfigRequest{{LaunchTemplateSpecification: o.template.ref.forFleet()}},
		TargetCapacitySpecification: &types.TargetCapacitySpecificationRequest{
			TotalTargetCapacity: awssdk.Int32(n), DefaultTargetCapacityType: types.DefaultTargetCapacityTypeOnDemand,
		},
		TagSpecifications: tagSpecs(o.tags, types.ResourceTypeInstance, types.ResourceTypeVolume),
	}
	var least *int32
	var one *bool
	if o.AllOrNothing {
		least, one = awssdk.Int32(n), awssdk.Bool(true)
	}
	ranked := true
	if o.market == cloud.Spot {
		s := p.spotAllocation()
		ranked = strings.HasSuffix(string(s), "prioritized")
		in.TargetCapacitySpecification.DefaultTargetCapacityType = types.DefaultTargetCapacityTypeSpot
		in.SpotOptions = &types.SpotOptionsRequest{
			AllocationStrategy: s, InstanceInterruptionBehavior: types.SpotInstanceInterruptionBehaviorTerminate,
			MinTargetCapacity: least, SingleInstanceType: one, SingleAvailabilityZone: one,
		}
	} else {
		in.OnDemandOptions = &types.OnDemandOptionsRequest{
			AllocationStrategy: types.FleetOnDemandAllocationStrategyPrioritized,
			MinTargetCapacity:  least, SingleInstanceType: one, SingleAvailabilityZone: one,
		}
	}
	in.LaunchTemplateConfigs[0].Overrides = p.overrides(o, ranked)
	return in
}

func (p *Provider) spotAllocation() types.SpotAllocationStrategy {
	if p.conf.SpotAllocation == "" {
		return types.SpotAllocationStrategy(defaultSpotAllocation)
	}
	return types.SpotAllocationStrategy(p.conf.SpotAllocation)
}

// overrides lists types × subnets in the order of the offerings.
func (p *Provider) overrides(o *order, ranked bool) []types.FleetLaunchTemplateOverridesRequest {
	var list []types.FleetLaunchTemplateOverridesRequest
	for rank, f := range o.offerings {
		for _, s := range o.subnets[f.Zone] {
			ov := types.FleetLaunchTemplateOverridesRequest{InstanceType: types.InstanceType(f.Type), SubnetId: awssdk.String(s)}
			if ranked {
				ov.Priority = awssdk.Float64(float64(rank))
			}
			list = append(list, ov)
		}
	}
	if len(list) > maxOverrides {
		p.log.Warn("more types × subnets than a fleet takes; the last ones are left out", "pool", o.Pool, "given", len(list), "taken", maxOverrides)
		list = list[:maxOverrides]
	}
	return list
}

// fleetAnswer reads an answer, which has status 200 also where there was no
// capacity at all.
func (p *Provider) fleetAnswer(o *order, out *ec2.CreateFleetOutput) bought {
	b := bought{ids: map[string]cloud.Offering{}, said: map[string]cloud.Instance{}}
	got := map[cloud.Offering]int{}
	for _, i := range out.Instances {
		f, ok := p.fleetOffering(o, i.LaunchTemplateAndOverrides, string(i.InstanceType), awssdk.ToString(i.AvailabilityZone))
		if !ok {
			p.log.Error("EC2 names an offering that was not asked for", "token", o.Token, "instances", i.InstanceIds)
			f = o.offerings[0]
		}
		for _, id := range i.InstanceIds {
			if id != "" {
				b.ids[id] = f
				got[f]++
			}
		}
	}
	type refusal struct{ code, text string }
	why := map[cloud.Offering]refusal{}
	for _, e := range out.Errors {
		r := refusal{awssdk.ToString(e.ErrorCode), awssdk.ToString(e.ErrorMessage)}
		f, ok := p.fleetOffering(o, e.LaunchTemplateAndOverrides, "", "")
		if ok {
			// Of several subnets, one that had no address says the least.
			if old, had := why[f]; !had || old.code == "InsufficientFreeAddressesInSubnet" {
				why[f] = r
			}
			continue
		}
		for _, f := range o.offerings {
			if _, had := why[f]; !had {
				why[f] = r
			}
		}
	}
	left, last := len(o.Nodes), p.lastUsed(o, got)
	for k, f := range o.offerings {
		missing := left - got[f]
		left = missing
		if o.AllOrNothing && missing > 0 {
			left = len(o.Nodes) // another offering had to serve all
		}
		r, said := why[f]
		switch {
		case missing <= 0:
			continue
		case said:
		case k < last, len(b.ids) < len(o.Nodes) && len(why) == 0:
			// EC2 went on to what comes later, or gave up, without a word.
			r = refusal{code: "UnfulfillableCapacity"}
		default:
			continue
		}
		b.shortfalls = append(b.shortfalls, p.shortfall(f, missing, "CreateFleet", r.code, r.text))
	}
	return b
}

// lastUsed is the place of the last offering that gave an instance, where EC2
// is bound to the order of the offerings; 0 where it is not, since then another
// offering's use says nothing about those before it.
func (p *Provider) lastUsed(o *order, got map[cloud.Offering]int) int {
	if o.market == cloud.Spot {
		return 0
	}
	last := 0
	for f := range maps.Keys(got) {
		last = max(last, slices.Index(o.offerings, f))
	}
	return last
}

// fleetOffering tells which offering an item of an answer is of.
func (p *Provider) fleetOffering(o *order, x *types.LaunchTemplateAndOverridesResponse, typ, zone string) (cloud.Offering, bool) {
	subnet := ""
	if x != nil && x.Overrides != nil {
		subnet = awssdk.ToString(x.Overrides.SubnetId)
		if typ == "" {
			typ = string(x.Overrides.InstanceType)
		}
		if zone == "" {
			zone = awssdk.ToString(x.Overrides.AvailabilityZone)
		}
	}
	for _, f := range o.offerings {
		if f.Type == typ && (slices.Contains(o.subnets[f.Zone], subnet) || f.Zone == zone) {
			return f, true
		}
	}
	return cloud.Offering{}, false
}
