package ec2sim_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/cloud"
)

func offering(typ, zone string, m cloud.Market) cloud.Offering {
	return cloud.Offering{Type: typ, Zone: "us-east-1" + zone, Market: m}
}

// gave says what a fleet bought: "2 p5.48xlarge a".
func (a answer) gave() []string {
	var list []string
	for _, b := range a.Fleet {
		list = append(list, fmt.Sprintf("%d %s %s", len(b.IDs), b.Type, b.Zone[len(b.Zone)-1:]))
	}
	return list
}

// missed says where a fleet came short: "InsufficientInstanceCapacity p5.48xlarge a".
func (a answer) missed() []string {
	var list []string
	for _, e := range a.Errors {
		list = append(list, fmt.Sprintf("%s %s %s", e.Code, e.Type, e.Zone[len(e.Zone)-1:]))
	}
	return list
}

func TestFleetChoosesAsItsStrategySays(t *testing.T) {
	p5a, p5b, p4a, p4b := "p5.48xlarge/"+subnetA, "p5.48xlarge/"+subnetB, "p4d.24xlarge/"+subnetA, "p4d.24xlarge/"+subnetB
	all := []string{p5a, p5b, p4a, p4b}
	od := func(s string) []string { return []string{"OnDemandOptions.AllocationStrategy", s} }
	spot := func(s string, more ...string) []string {
		return append([]string{"SpotOptions.AllocationStrategy", s}, more...)
	}
	for _, tt := range []struct {
		name     string
		market   cloud.Market
		args     []string
		capacity map[cloud.Offering]int
		n        string
		gave     []string
		missed   []string
	}{
		{name: "prioritized", market: cloud.OnDemand, args: od("prioritized"), n: "3", gave: []string{"3 p5.48xlarge a"}},
		{
			name: "prioritized spills over", market: cloud.OnDemand, args: od("prioritized"), n: "6",
			capacity: map[cloud.Offering]int{offering("p5.48xlarge", "a", cloud.OnDemand): 2, offering("p5.48xlarge", "b", cloud.OnDemand): 1},
			gave:     []string{"2 p5.48xlarge a", "1 p5.48xlarge b", "3 p4d.24xlarge a"},
		},
		{name: "lowest price", market: cloud.OnDemand, args: od("lowest-price"), n: "3", gave: []string{"3 p4d.24xlarge a"}},
		{
			name: "partial, with the reasons", market: cloud.OnDemand, args: od("prioritized"), n: "4",
			capacity: map[cloud.Offering]int{
				offering("p5.48xlarge", "a", cloud.OnDemand): 1, offering("p5.48xlarge", "b", cloud.OnDemand): 0,
				offering("p4d.24xlarge", "a", cloud.OnDemand): 1, offering("p4d.24xlarge", "b", cloud.OnDemand): 0,
			},
			gave: []string{"1 p5.48xlarge a", "1 p4d.24xlarge a"},
			missed: []string{
				"InsufficientInstanceCapacity p5.48xlarge a", "InsufficientInstanceCapacity p5.48xlarge b",
				"InsufficientInstanceCapacity p4d.24xlarge a", "InsufficientInstanceCapacity p4d.24xlarge b",
			},
		},
		{
			name: "price-capacity-optimized takes the cheapest with enough", market: cloud.Spot, args: spot("price-capacity-optimized"), n: "3",
			capacity: map[cloud.Offering]int{offering("p4d.24xlarge", "a", cloud.Spot): 2, offering("p4d.24xlarge", "b", cloud.Spot): 1},
			gave:     []string{"3 p5.48xlarge b"},
		},
		{
			name: "capacity-optimized-prioritized", market: cloud.Spot, args: spot("capacity-optimized-prioritized"), n: "3",
			capacity: map[cloud.Offering]int{offering("p5.48xlarge", "a", cloud.Spot): 2},
			gave:     []string{"3 p5.48xlarge b"},
		},
		{name: "diversified", market: cloud.Spot, args: spot("diversified"), n: "8", gave: []string{"2 p4d.24xlarge a", "2 p4d.24xlarge b", "2 p5.48xlarge b", "2 p5.48xlarge a"}},
		{
			name: "one type and zone or nothing", market: cloud.OnDemand, n: "4",
			args:     append(od("prioritized"), "OnDemandOptions.SingleInstanceType", "true", "OnDemandOptions.SingleAvailabilityZone", "true", "OnDemandOptions.MinTargetCapacity", "4"),
			capacity: map[cloud.Offering]int{offering("p5.48xlarge", "a", cloud.OnDemand): 3, offering("p5.48xlarge", "b", cloud.OnDemand): 3},
			gave:     []string{"4 p4d.24xlarge a"},
		},
		{
			name: "below the minimum nothing", market: cloud.OnDemand, n: "4",
			args: append(od("prioritized"), "OnDemandOptions.SingleInstanceType", "true", "OnDemandOptions.SingleAvailabilityZone", "true", "OnDemandOptions.MinTargetCapacity", "4"),
			capacity: map[cloud.Offering]int{
				offering("p5.48xlarge", "a", cloud.OnDemand): 3, offering("p5.48xlarge", "b", cloud.OnDemand): 3,
				offering("p4d.24xlarge", "a", cloud.OnDemand): 3, offering("p4d.24xlarge", "b", cloud.OnDemand): 3,
			},
			missed: []string{
				"InsufficientInstanceCapacity p5.48xlarge a", "InsufficientInstanceCapacity p5.48xlarge b",
				"InsufficientInstanceCapacity p4d.24xlarge a", "InsufficientInstanceCapacity p4d.24xlarge b",
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := newLab(t)
			for o, n := range tt.capacity {
				must(t, l.SetCapacity(o, n))
			}
			// Spot prices without chance: p4d is cheaper, zone a than b, but p5 in b than in a.
			must(t, l.SetSpotPrice("p4d.24xlarge", "us-east-1a", 9))
			must(t, l.SetSpotPrice("p4d.24xlarge", "us-east-1b", 10))
			must(t, l.SetSpotPrice("p5.48xlarge", "us-east-1a", 22))
			must(t, l.SetSpotPrice("p5.48xlarge", "us-east-1b", 21))
			a := l.fleet(tt.n, tt.market, all, tt.args...).ok(t)
			require.Equal(t, tt.gave, a.gave())
			require.ElementsMatch(t, tt.missed, a.missed())
			require.Len(t, l.Sim.Instances(), len(a.fleetIDs()))
		})
	}
}

func TestFleetAnswersShortagesWithSuccess(t *testing.T) {
	l := newLab(t)
	must(t, l.SetCapacity(offering("p5.48xlarge", "a", cloud.Spot), 0))
	must(t, l.SetQuota("L-7212CCBC", 0))
	a := l.fleet("2", cloud.Spot, []string{"p5.48xlarge/" + subnetA, "p4d.24xlarge/" + subnetA, "p5en.48xlarge/" + subnetA, "p5.48xlarge/subnet-1"}).ok(t)
	require.NotEmpty(t, a.FleetID)
	require.Empty(t, a.Fleet)
	codes := map[string]bool{}
	for _, e := range a.Errors {
		codes[e.Code] = true
		require.Equal(t, "spot", e.Lifecycle)
	}
	require.Equal(t, map[string]bool{"InsufficientInstanceCapacity": true, "MaxSpotInstanceCountExceeded": true, "Unsupported": true, "InvalidSubnetID.NotFound": true}, codes)
}

func TestFleetOfAKnownTokenIsTheSame(t *testing.T) {
	l := newLab(t)
	pools := []string{"p5.48xlarge/" + subnetA}
	a := l.fleet("3", cloud.Spot, pools, "ClientToken", "t").ok(t)
	l.forward(time.Minute)
	b := l.fleet("3", cloud.Spot, pools, "ClientToken", "t").ok(t)
	require.Equal(t, a.FleetID, b.FleetID)
	require.Equal(t, a.fleetIDs(), b.fleetIDs())
	require.Len(t, l.Sim.Instances(), 3)
	l.fleet("4", cloud.Spot, pools, "ClientToken", "t").fails(t, 400, "IdempotentParameterMismatch")
	// The token of another action is another token.
	l.run("ClientToken", "t").ok(t)
	require.Len(t, l.call("DescribeInstances", "Filter.1.Name", "client-token", "Filter.1.Value.1", "t", "Filter.2.Name", "instance-lifecycle", "Filter.2.Value.1", "spot").ok(t).Described, 3)
	require.Len(t, l.call("DescribeInstances", "Filter.1.Name", "tag:aws:ec2:fleet-id", "Filter.1.Value.1", a.FleetID).ok(t).Described, 3)
}

func TestFleetsThatEC2Refuses(t *testing.T) {
	for _, tt := range []struct {
		name, code string
		args       []string
	}{
		{"minimum without one type or zone", "InvalidParameterCombination", []string{"SpotOptions.MinTargetCapacity", "2"}},
		{"minimum above the target", "InvalidParameterValue", []string{"SpotOptions.MinTargetCapacity", "9", "SpotOptions.SingleInstanceType", "true"}},
		{"unknown strategy", "InvalidParameterValue", []string{"SpotOptions.AllocationStrategy", "cheapest"}},
		{"another kind", "UnsupportedOperation", []string{"Type", "maintain"}},
		{"no target", "InvalidParameterValue", []string{"TargetCapacitySpecification.TotalTargetCapacity", "0"}},
		{"unknown template", "InvalidLaunchTemplateName.NotFoundException", []string{"LaunchTemplateConfigs.1.LaunchTemplateSpecification.LaunchTemplateName", "x"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			newLab(t).fleet("4", cloud.Spot, []string{"p5.48xlarge/" + subnetA}, tt.args...).fails(t, 400, tt.code)
		})
	}
}

func TestTwoSubnetsOfAZoneShareItsCapacity(t *testing.T) {
	l := newLab(t)
	must(t, l.SetCapacity(offering("p5.48xlarge", "a", cloud.OnDemand), 3))
	a := l.fleet("4", cloud.OnDemand, []string{"p5.48xlarge/" + subnetA, "p5.48xlarge/" + subnetA}).ok(t)
	require.Len(t, a.fleetIDs(), 3)
	l.fleet("1", cloud.OnDemand, []string{"p5.48xlarge/" + subnetA}).ok(t)
	require.Len(t, l.Sim.Instances(), 3)
}

func TestSpotAboveItsMaximumPriceIsNotBought(t *testing.T) {
	l := newLab(t)
	must(t, l.SetSpotPrice("p5.48xlarge", "us-east-1a", 20))
	spot := []string{"InstanceMarketOptions.MarketType", "spot", "InstanceMarketOptions.SpotOptions.MaxPrice"}
	l.run(append(spot, "19.5")...).fails(t, 400, "SpotMaxPriceTooLow")
	l.run(append(spot, "x")...).fails(t, 400, "InvalidParameterValue")
	l.run(append(spot, "20")...).ok(t)
	a := l.fleet("1", cloud.Spot, []string{"p5.48xlarge/" + subnetA}, "LaunchTemplateConfigs.1.Overrides.1.MaxPrice", "3").ok(t)
	require.Equal(t, []string{"SpotMaxPriceTooLow p5.48xlarge a"}, a.missed())
}
