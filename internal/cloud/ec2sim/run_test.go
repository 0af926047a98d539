package ec2sim_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/cloud/ec2sim"
)

func TestRunGivesBetweenMinimumAndMaximum(t *testing.T) {
	for _, tt := range []struct {
		name     string
		capacity int
		min, max int
		got      int
		status   int
		code     string
	}{
		{"all", 8, 4, 8, 8, 200, ""},
		{"what there is", 5, 4, 8, 5, 200, ""},
		{"too little", 3, 4, 8, 0, 500, "InsufficientInstanceCapacity"},
		{"nothing", 0, 1, 1, 0, 500, "InsufficientInstanceCapacity"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := newLab(t)
			must(t, l.SetCapacity(cloud.Offering{Type: "p5.48xlarge", Zone: "us-east-1a", Market: cloud.OnDemand}, tt.capacity))
			a := l.run("MinCount", strconv.Itoa(tt.min), "MaxCount", strconv.Itoa(tt.max))
			require.Equal(t, tt.status, a.status)
			require.Equal(t, tt.code, a.Code)
			require.Len(t, a.Instances, tt.got)
			require.Len(t, l.Sim.Instances(), tt.got)
		})
	}
}

func TestRepeatedTokenGivesTheSameInstances(t *testing.T) {
	l := newLab(t)
	first := l.run("MinCount", "3", "MaxCount", "3", "ClientToken", "t-1").ok(t)
	l.forward(time.Minute)
	again := l.run("MinCount", "3", "MaxCount", "3", "ClientToken", "t-1").ok(t)
	require.Len(t, l.Sim.Instances(), 3)
	require.Equal(t, "pending", first.Instances[0].State)
	require.Equal(t, "running", again.Instances[0].State)
	for i := range first.Instances {
		require.Equal(t, first.Instances[i].ID, again.Instances[i].ID)
	}
	l.run("MinCount", "3", "MaxCount", "3", "ClientToken", "t-1", "InstanceMarketOptions.MarketType", "spot").fails(t, 400, "IdempotentParameterMismatch")
	l.run("MinCount", "3", "MaxCount", "3", "ClientToken", "t-2").ok(t)
	require.Len(t, l.Sim.Instances(), 6)

	// Also when they have ended, but not for ever.
	l.call("TerminateInstances", "InstanceId.1", first.Instances[0].ID, "InstanceId.2", first.Instances[1].ID, "InstanceId.3", first.Instances[2].ID).ok(t)
	l.forward(2 * time.Hour)
	l.call("DescribeInstances", "InstanceId.1", first.Instances[0].ID).fails(t, 400, "InvalidInstanceID.NotFound")
	require.Equal(t, "terminated", l.run("MinCount", "3", "MaxCount", "3", "ClientToken", "t-1").ok(t).Instances[0].State)
	l.forward(25 * time.Hour)
	require.NotEqual(t, first.Instances[0].ID, l.run("MinCount", "3", "MaxCount", "3", "ClientToken", "t-1").ok(t).Instances[0].ID)
}

func TestTokenOfAFailedCallCanBeUsedAgain(t *testing.T) {
	l := newLab(t)
	o := cloud.Offering{Type: "p5.48xlarge", Zone: "us-east-1a", Market: cloud.OnDemand}
	must(t, l.SetCapacity(o, 0))
	l.run("ClientToken", "t-1").fails(t, 500, "InsufficientInstanceCapacity")
	must(t, l.SetCapacity(o, 1))
	l.run("ClientToken", "t-1").ok(t)
}

func TestDryRunTellsWhatIsAllowedAndBuysNothing(t *testing.T) {
	l := newLab(t)
	l.run("DryRun", "true").fails(t, 412, "DryRunOperation")
	must(t, l.Deny("RunInstances"))
	a := l.run("DryRun", "true").fails(t, 403, "UnauthorizedOperation")
	require.Contains(t, a.Text, "is not authorized to perform: ec2:RunInstances")
	must(t, l.Allow())
	l.run("DryRun", "true").fails(t, 412, "DryRunOperation")
	require.Empty(t, l.Sim.Instances())
}

func TestTagsAreInTheCreateCall(t *testing.T) {
	l := newLab(t, func(o *ec2sim.Options) { o.Lag.Tags = 5 * time.Second })
	a := l.run("TagSpecification.1.ResourceType", "instance", "TagSpecification.1.Tag.1.Key", "midair:cluster", "TagSpecification.1.Tag.1.Value", "c1").ok(t)
	id := a.Instances[0].ID
	found := l.call("DescribeInstances", "Filter.1.Name", "tag:midair:cluster", "Filter.1.Value.1", "c1", "Filter.2.Name", "instance-state-name", "Filter.2.Value.1", "pending").ok(t)
	require.Len(t, found.Described, 1)
	require.Equal(t, "lt-0a1b2c3d4e5f60001", found.Described[0].tag("aws:ec2launchtemplate:id"))

	l.call("CreateTags", "ResourceId.1", id, "Tag.1.Key", "midair:node", "Tag.1.Value", "n-1").ok(t)
	node := func() string {
		return l.call("DescribeInstances", "InstanceId.1", id).ok(t).Described[0].tag("midair:node")
	}
	require.Empty(t, node(), "tags of CreateTags lag")
	l.forward(5 * time.Second)
	require.Equal(t, "n-1", node())
	require.Len(t, l.call("DescribeTags", "Filter.1.Name", "key", "Filter.1.Value.1", "midair:*").ok(t).Tags, 2)
}

func TestTagsBeyondEC2sLimitsAreRefused(t *testing.T) {
	long := make([]byte, 257)
	for i := range long {
		long[i] = 'x'
	}
	many := []string{"ResourceId.1", "i-00000000000000000"}
	for i := range 51 {
		many = append(many, "Tag."+strconv.Itoa(i+1)+".Key", "k"+strconv.Itoa(i))
	}
	for _, tt := range []struct {
		name, code string
		args       []string
	}{
		{"long value", "InvalidParameterValue", []string{"ResourceId.1", "i-00000000000000000", "Tag.1.Key", "k", "Tag.1.Value", string(long)}},
		{"aws's own", "InvalidParameterValue", []string{"ResourceId.1", "i-00000000000000000", "Tag.1.Key", "aws:x"}},
		{"many", "TagLimitExceeded", many},
		{"unknown instance", "InvalidInstanceID.NotFound", []string{"ResourceId.1", "i-00000000000000000", "Tag.1.Key", "k"}},
	} {
		t.Run(tt.name, func(t *testing.T) { newLab(t).call("CreateTags", tt.args...).fails(t, 400, tt.code) })
	}
}

func TestBadRequestsAreNamed(t *testing.T) {
	for _, tt := range []struct {
		name, code string
		args       []string
	}{
		{"unknown parameter", "UnknownParameter", []string{"MinCuont", "1"}},
		{"no minimum", "InvalidParameterValue", []string{"MinCount", "x"}},
		{"more than most", "InvalidParameterValue", []string{"MinCount", "5"}},
		{"unknown type", "InvalidParameterValue", []string{"InstanceType", "p9.huge"}},
		{"unknown subnet", "InvalidSubnetID.NotFound", []string{"SubnetId", "subnet-1"}},
		{"unknown template", "InvalidLaunchTemplateName.NotFoundException", []string{"LaunchTemplate.LaunchTemplateName", "x"}},
		{"unknown version", "InvalidLaunchTemplateId.VersionNotFound", []string{"LaunchTemplate.Version", "7"}},
		{"not sold in the zone", "Unsupported", []string{"InstanceType", "p5en.48xlarge"}},
		{"unknown reservation", "InvalidCapacityReservationId.NotFound", []string{"CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId", "cr-1"}},
		{"long token", "InvalidParameterValue", []string{"ClientToken", "0123456789012345678901234567890123456789012345678901234567890123456789"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := newLab(t)
			l.run(tt.args...).fails(t, 400, tt.code)
			require.Empty(t, l.Sim.Instances())
		})
	}
	newLab(t).call("RunInstance").fails(t, 400, "InvalidAction")
}

func TestQuotaCountsVCPUsOfTheFamily(t *testing.T) {
	l := newLab(t)
	must(t, l.SetQuota("L-417A185B", 400))
	l.run("MinCount", "3", "MaxCount", "3").fails(t, 400, "VcpuLimitExceeded") // 576 vCPUs
	first := l.run("MinCount", "2", "MaxCount", "2").ok(t)
	l.run("InstanceType", "p4d.24xlarge").fails(t, 400, "VcpuLimitExceeded")
	l.run("InstanceType", "g5.xlarge").ok(t)
	l.run("InstanceMarketOptions.MarketType", "spot").ok(t)

	must(t, l.SetQuota("L-C4BD4855", 192))
	l.run("InstanceMarketOptions.MarketType", "spot").fails(t, 400, "MaxSpotInstanceCountExceeded")
	l.run("InstanceType", "p4d.24xlarge", "InstanceMarketOptions.MarketType", "spot").ok(t)

	// It is free again when the end has begun; the machine not before it has ended.
	l.call("TerminateInstances", "InstanceId.1", first.Instances[0].ID).ok(t)
	l.run("InstanceType", "p4d.24xlarge").ok(t)
}

func TestReservationIsBoughtFromByName(t *testing.T) {
	const cr = "cr-0a1b2c3d4e5f60001" // four p5.48xlarge in us-east-1a
	target := "CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId"
	l := newLab(t)
	must(t, l.SetCapacity(cloud.Offering{Type: "p5.48xlarge", Zone: "us-east-1a", Market: cloud.OnDemand}, 0))
	a := l.run("MinCount", "3", "MaxCount", "3", target, cr).ok(t)
	require.Equal(t, cr, a.Instances[0].Capacity)
	l.run("MinCount", "2", "MaxCount", "2", target, cr).fails(t, 400, "ReservationCapacityExceeded")
	l.run("InstanceType", "g5.xlarge", target, cr).fails(t, 400, "InvalidParameterValue")
	l.run("SubnetId", subnetB, target, cr).fails(t, 400, "InvalidParameterValue")
	require.Equal(t, cloud.Reserved, l.Sim.Instances()[0].Offering.Market)
	l.call("TerminateInstances", "InstanceId.1", a.Instances[0].ID).ok(t)
	l.forward(time.Minute)
	l.run("MinCount", "2", "MaxCount", "2", target, cr).ok(t)
}

func TestCapacityBlockEndsItsInstances(t *testing.T) {
	target := "CapacityReservationSpecification.CapacityReservationTarget.CapacityReservationId"
	const cb = "cr-0a1b2c3d4e5f60002" // a block in us-east-1b that ends in a week
	l := newLab(t)
	l.run("SubnetId", subnetB, target, cb).fails(t, 400, "InvalidParameterCombination")
	a := l.run("SubnetId", subnetB, target, cb, "InstanceMarketOptions.MarketType", "capacity-block").ok(t)
	require.Equal(t, "capacity-block", a.Instances[0].Life)
	l.forward(7*24*time.Hour - 31*time.Minute)
	require.Equal(t, "running", l.state(a.Instances[0].ID))
	l.forward(time.Minute)
	require.Equal(t, "shutting-down", l.state(a.Instances[0].ID))
	l.forward(time.Hour)
	l.run("SubnetId", subnetB, target, cb, "InstanceMarketOptions.MarketType", "capacity-block").fails(t, 400, "InvalidCapacityReservationState")
}
