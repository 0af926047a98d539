package ec2sim_test

import (
	"encoding/base64"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/cloud/ec2sim"
)

func TestInstanceGoesThroughItsStates(t *testing.T) {
	l := newLab(t)
	id := l.run("InstanceType", "c7i.large").ok(t).Instances[0].ID
	require.Equal(t, "pending", l.state(id))
	l.forward(10 * time.Second)
	require.Equal(t, "running", l.state(id))

	a := l.call("StopInstances", "InstanceId.1", id, "Hibernate", "true").ok(t)
	require.Equal(t, "running", a.Instances[0].Previous)
	require.Equal(t, "stopping", a.Instances[0].Current)
	l.call("StartInstances", "InstanceId.1", id).fails(t, 400, "IncorrectInstanceState")
	l.forward(20 * time.Second)
	require.Equal(t, "stopped", l.state(id))
	require.Equal(t, "pending", l.call("StartInstances", "InstanceId.1", id).ok(t).Instances[0].Current)
	l.forward(10 * time.Second)
	require.Equal(t, "running", l.state(id))

	l.call("TerminateInstances", "InstanceId.1", id).ok(t)
	require.Equal(t, "shutting-down", l.state(id))
	l.call("TerminateInstances", "InstanceId.1", id).ok(t)
	l.forward(30 * time.Second)
	got := l.call("DescribeInstances", "InstanceId.1", id).ok(t).Described[0]
	require.Equal(t, "terminated", got.State)
	require.Equal(t, "Client.UserInitiatedShutdown", got.Reason)
	require.Empty(t, got.Addr)
	require.Equal(t, "terminated", l.call("TerminateInstances", "InstanceId.1", id).ok(t).Instances[0].Current)
	l.forward(time.Hour)
	l.call("DescribeInstances", "InstanceId.1", id).fails(t, 400, "InvalidInstanceID.NotFound")
	require.Empty(t, l.call("DescribeInstances").ok(t).Described)
	l.forward(24 * time.Hour)
	require.Empty(t, l.Sim.Instances())
}

func TestStoppedInstanceFreesItsCapacityAndMayNotComeBack(t *testing.T) {
	l := newLab(t)
	must(t, l.SetCapacity(offering("p5.48xlarge", "a", cloud.OnDemand), 1))
	id := l.run().ok(t).Instances[0].ID
	l.call("StopInstances", "InstanceId.1", id).ok(t)
	l.forward(time.Minute)
	l.run().ok(t)
	l.call("StartInstances", "InstanceId.1", id).fails(t, 500, "InsufficientInstanceCapacity")
	require.Equal(t, "stopped", l.state(id))
}

func TestWhatCannotBeStoppedIsToldSo(t *testing.T) {
	l := newLab(t)
	spot := l.run("InstanceMarketOptions.MarketType", "spot").ok(t).Instances[0].ID
	l.call("StopInstances", "InstanceId.1", spot).fails(t, 400, "UnsupportedOperation")
	plain := l.run("LaunchTemplate.LaunchTemplateName", "midair-efa").ok(t).Instances[0].ID
	l.forward(time.Minute)
	l.call("StopInstances", "InstanceId.1", plain, "Hibernate", "true").fails(t, 400, "UnsupportedHibernationConfiguration")
	l.call("StopInstances").fails(t, 400, "MissingParameter")
	l.call("StopInstances", "InstanceId.1", "i-nothex").fails(t, 400, "InvalidInstanceID.Malformed")
}

func TestNewInstanceIsNotFoundAtOnceAndShowsItsAddressLater(t *testing.T) {
	l := newLab(t, func(o *ec2sim.Options) { o.Lag = ec2sim.Lag{ID: 2 * time.Second, Address: 5 * time.Second} })
	made := l.run("ClientToken", "t").ok(t).Instances[0]
	require.Empty(t, made.Addr)
	for _, action := range []string{"DescribeInstances", "TerminateInstances", "StopInstances"} {
		l.call(action, "InstanceId.1", made.ID).fails(t, 400, "InvalidInstanceID.NotFound")
	}
	l.call("CreateTags", "ResourceId.1", made.ID, "Tag.1.Key", "k").fails(t, 400, "InvalidInstanceID.NotFound")
	require.Empty(t, l.call("DescribeInstances").ok(t).Described)
	require.Equal(t, made.ID, l.run("ClientToken", "t").ok(t).Instances[0].ID, "the token is not subject to lag")
	l.forward(2 * time.Second)
	require.Empty(t, l.call("DescribeInstances", "InstanceId.1", made.ID).ok(t).Described[0].Addr)
	l.forward(3 * time.Second)
	require.NotEmpty(t, l.call("DescribeInstances", "InstanceId.1", made.ID).ok(t).Described[0].Addr)
}

func TestPagesHoldEveryInstanceOnceWhateverHappensBetween(t *testing.T) {
	l := newLab(t)
	want := map[string]bool{}
	for k := range 3 {
		for _, i := range l.run("MinCount", "10", "MaxCount", "10", "ClientToken", strconv.Itoa(k)).ok(t).Instances {
			want[i.ID] = true
		}
	}
	got := map[string]bool{}
	token, pages := "", 0
	for {
		args := []string{"MaxResults", "7"}
		if token != "" {
			args = append(args, "NextToken", token)
		}
		a := l.call("DescribeInstances", args...).ok(t)
		for _, i := range a.Described {
			require.False(t, got[i.ID], "%s twice", i.ID)
			got[i.ID] = true
		}
		pages++
		if token = a.NextToken; token == "" {
			break
		}
		if pages == 1 {
			// New and ending instances do not move the others.
			l.call("TerminateInstances", "InstanceId.1", a.Described[0].ID).ok(t)
			l.forward(26 * time.Hour)
		}
	}
	require.Equal(t, 5, pages)
	for id := range want {
		require.True(t, got[id])
	}
	l.call("DescribeInstances", "MaxResults", "4").fails(t, 400, "InvalidParameterValue")
	l.call("DescribeInstances", "MaxResults", "7", "InstanceId.1", "i-00000000000000000").fails(t, 400, "InvalidParameterCombination")
	l.call("DescribeInstances", "NextToken", "x!").fails(t, 400, "InvalidNextToken")
	many := []string{"Filter.1.Name", "client-token"}
	for k := range 201 {
		many = append(many, "Filter.1.Value."+strconv.Itoa(k+1), strconv.Itoa(k))
	}
	l.call("DescribeInstances", many...).fails(t, 400, "FilterLimitExceeded")
	l.call("DescribeInstances", "Filter.1.Name", "colour", "Filter.1.Value.1", "red").fails(t, 400, "InvalidParameterValue")
}

func TestSpotInterruptionComesAfterItsNotice(t *testing.T) {
	l := newLab(t)
	spot := l.run("InstanceMarketOptions.MarketType", "spot").ok(t).Instances[0].ID
	usual := l.run().ok(t).Instances[0].ID
	l.forward(time.Minute)
	require.ErrorContains(t, l.Interrupt(usual, time.Minute), "only spot instances")
	require.ErrorContains(t, l.Interrupt("i-1", time.Minute), `no live instance or node is named "i-1"`)
	must(t, l.Interrupt(spot, 2*time.Minute))
	l.forward(119 * time.Second)
	require.Equal(t, "running", l.state(spot))
	l.forward(time.Second)
	got := l.call("DescribeInstances", "InstanceId.1", spot).ok(t).Described[0]
	require.Equal(t, "shutting-down", got.State)
	require.Equal(t, "Server.SpotInstanceTermination", got.Reason)
	must(t, l.Vanish(usual))
	require.Equal(t, "terminated", l.state(usual))
}

func TestAddressesAreGivenAgainOnlyAfterAllOthers(t *testing.T) {
	l := newLab(t, func(o *ec2sim.Options) { o.Catalogue = smallCatalogue(t) })
	seen := map[string]bool{}
	for range 11 {
		i := l.run("InstanceType", "c7i.large").ok(t).Instances[0]
		require.False(t, seen[i.Addr])
		seen[i.Addr] = true
		l.call("TerminateInstances", "InstanceId.1", i.ID).ok(t)
		l.forward(time.Minute)
	}
	require.True(t, seen["10.214.0.4"] && seen["10.214.0.14"], "%v", seen)
	l.run("InstanceType", "c7i.large", "MinCount", "11", "MaxCount", "11").ok(t)
	l.run("InstanceType", "c7i.large").fails(t, 400, "InsufficientFreeAddressesInSubnet")
}

func smallCatalogue(t *testing.T) *ec2sim.Catalogue {
	t.Helper()
	c, err := ec2sim.ParseCatalogue("test", []byte(`
region: us-east-1
zones: [us-east-1a]
vpc: {id: vpc-1, cidr: 10.214.0.0/24}
subnets: [{id: `+subnetA+`, zone: us-east-1a, cidr: 10.214.0.0/28}]
launch_templates: [{id: lt-1, name: midair, versions: [{image: ami-1}]}]
types: [{name: c7i.large, vcpus: 2, memory_mib: 4096, on_demand: 0.1}]
default_capacity: 100
default_quota: 1000
`))
	require.NoError(t, err)
	return c
}

func TestCataloguesThatCannotBeMeantAreRefused(t *testing.T) {
	const good = `
region: us-east-1
zones: [us-east-1a]
vpc: {cidr: 10.214.0.0/24}
subnets: [{id: subnet-1, zone: us-east-1a, cidr: 10.214.0.0/28}]
types: [{name: c7i.large, vcpus: 2, memory_mib: 4096, on_demand: 0.1}]
`
	for _, tt := range []struct{ name, more, want string }{
		{"good", "", ""},
		{"unknown key", "colour: red", "field colour not found"},
		{"unknown quota", "quotas: {L-1: 5}", "quotas: L-1"},
		{"capacity of an unknown zone", "capacity: {c7i.large/us-east-1z: 5}", "c7i.large/us-east-1z"},
		{"capacity of a market without", "capacity: {c7i.large/us-east-1a/reserved: 5}", "markets are on-demand and spot"},
		{"reservation of an unknown type", "reservations: [{id: cr-1, type: p5.48xlarge, zone: us-east-1a, count: 1}]", "cr-1"},
		{"template without a version", "launch_templates: [{id: lt-1}]", "lt-1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := ec2sim.ParseCatalogue("x.yaml", []byte(good+tt.more))
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tt.want)
			require.ErrorContains(t, err, "x.yaml")
		})
	}
}

func TestSpotPricesAreASeriesThatCanBeChanged(t *testing.T) {
	l := newLab(t)
	ask := func(args ...string) answer {
		return l.call("DescribeSpotPriceHistory", append([]string{"InstanceType.1", "p5.48xlarge", "AvailabilityZone", "us-east-1a", "ProductDescription.1", "Linux/UNIX"}, args...)...).ok(t)
	}
	now := func() string { return l.now().Format(time.RFC3339) }
	before := ask("StartTime", now()).Prices
	require.Len(t, before, 1, "the price in force")
	require.Equal(t, before, ask("StartTime", now()).Prices)
	require.Greater(t, len(ask("StartTime", l.now().Add(-48*time.Hour).Format(time.RFC3339)).Prices), 4)
	must(t, l.SetSpotPrice("p5.48xlarge", "us-east-1a", 99.5))
	require.Equal(t, "99.500000", ask("StartTime", now()).Prices[0].Price)
	l.forward(time.Hour)
	day := ask("StartTime", l.now().Add(-24*time.Hour).Format(time.RFC3339)).Prices
	require.Equal(t, "99.500000", day[0].Price, "the newest first")
	require.Greater(t, len(day), 2)
	require.ErrorContains(t, l.SetSpotPrice("p5.48xlarge", "us-east-1z", 1), "not sold")
}

func TestTypesComeInPages(t *testing.T) {
	l := newLab(t)
	token, n := "", 0
	for {
		args := []string{"MaxResults", "20"}
		if token != "" {
			args = append(args, "NextToken", token)
		}
		a := l.call("DescribeInstanceTypes", args...).ok(t)
		n += len(a.Types)
		if token = a.NextToken; token == "" {
			break
		}
	}
	require.Equal(t, len(ec2sim.DefaultCatalogue().Types), n)
	require.Equal(t, 192, l.call("DescribeInstanceTypes", "InstanceType.1", "p5.48xlarge").ok(t).Types[0].VCPUs)
	l.call("DescribeInstanceTypes", "InstanceType.1", "p5.48xlarge", "InstanceType.2", "p9.huge").fails(t, 400, "InvalidInstanceType")
}

func TestConsoleIsBase64(t *testing.T) {
	l := newLab(t)
	l.fault(ec2sim.Fault{NoBoot: true, Times: 1})
	id := l.run().ok(t).Instances[0].ID
	require.Empty(t, l.call("GetConsoleOutput", "InstanceId.1", id).Output)
	l.forward(time.Minute)
	b, err := base64.StdEncoding.DecodeString(l.call("GetConsoleOutput", "InstanceId", id).ok(t).Output)
	require.NoError(t, err)
	require.Contains(t, string(b), "user data failed")
}

// Instances of a day, and what is left of them.
func TestADayOfLaunchesLeavesNothing(t *testing.T) {
	l := newLab(t)
	for hour := range 24 {
		a := l.run("MinCount", "20", "MaxCount", "20", "ClientToken", fmt.Sprint(hour)).ok(t)
		l.forward(time.Hour)
		args := []string{}
		for k, i := range a.Instances {
			args = append(args, "InstanceId."+strconv.Itoa(k+1), i.ID)
		}
		l.call("TerminateInstances", args...).ok(t)
	}
	l.forward(48 * time.Hour)
	require.Empty(t, l.Sim.Instances())
	st := l.Status()
	require.Empty(t, st.VCPUs)
	require.Equal(t, 24, st.Calls["TerminateInstances"])
	l.run("InstanceType", "c7i.large", "MinCount", "10000", "MaxCount", "10000").ok(t)
}
