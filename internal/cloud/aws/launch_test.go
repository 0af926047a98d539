package aws

import (
	"context"
	"fmt"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/cloud/ec2sim"
	"github.com/midair-hpc/midair/internal/config"
)

var (
	p5spotA = offering("p5.48xlarge", zoneA, cloud.Spot)
	p5spotB = offering("p5.48xlarge", zoneB, cloud.Spot)
	p5odA   = offering("p5.48xlarge", zoneA, cloud.OnDemand)
	p5odB   = offering("p5.48xlarge", zoneB, cloud.OnDemand)
	p4odA   = offering("p4d.24xlarge", zoneA, cloud.OnDemand)
)

// ask is a request for n nodes.
func ask(token string, n int, all bool, offerings ...cloud.Offering) cloud.LaunchRequest {
	r := cloud.LaunchRequest{Token: token, Cluster: "gpu1", Pool: "h100", AllOrNothing: all, Offerings: offerings, CPUs: 96, MemoryMiB: 1000000, GPUs: 8}
	for k := range n {
		r.Nodes = append(r.Nodes, cloud.NodeRequest{Name: fmt.Sprintf("h100-%04d", k+1), Generation: 1, Launch: "l1", Tags: map[string]string{cloud.TagJob: "42", cloud.TagUser: "ada"}})
	}
	return r
}

func launch(t testing.TB, p *Provider, r cloud.LaunchRequest) cloud.LaunchResult {
	t.Helper()
	res, err := p.Launch(context.Background(), r)
	require.NoError(t, err)
	return res
}

func refused(t testing.TB, p *Provider, r cloud.LaunchRequest) *cloud.Error {
	t.Helper()
	res, err := p.Launch(context.Background(), r)
	require.Error(t, err)
	require.Empty(t, res.Instances)
	return cloud.AsError(err)
}

func TestThousandNodesAreTwoCreateCalls(t *testing.T) {
	l := newLab(t)
	p := l.open()
	for k, all := range []bool{true, false} {
		r := ask(fmt.Sprint("t", k), 500, all, p5odA)
		res := launch(t, p, r)
		require.Len(t, res.Instances, 500)
		for _, i := range res.Instances {
			require.NotEmpty(t, i.Addr)
		}
	}
	calls := l.Calls()
	require.Equal(t, 1, calls["RunInstances"])
	require.Equal(t, 1, calls["CreateFleet"])
	require.Equal(t, 2, calls["DescribeInstances"])
	require.Zero(t, calls["CreateTags"])
	list, err := p.List(context.Background(), "gpu1")
	require.NoError(t, err)
	require.Len(t, list, 1000)
	require.Equal(t, 3, l.Calls()["DescribeInstances"], "1000 instances are one page")
}

func TestTagsThatTellALaunchAreInTheCreateCall(t *testing.T) {
	l := newLab(t)
	p := l.open()
	launch(t, p, ask("t1", 3, true, p5odA))
	for _, i := range l.Instances() {
		require.Equal(t, "gpu1", i.Tags[cloud.TagCluster])
		require.Equal(t, "h100-[0001-0003]", i.Tags[cloud.TagNodes])
		require.Equal(t, "t1", i.Tags[cloud.TagToken])
		require.Equal(t, "l1", i.Tags[cloud.TagLaunch])
		require.Equal(t, "42", i.Tags[cloud.TagJob])
		require.Equal(t, "ada", i.Tags[cloud.TagUser])
		require.Empty(t, i.Tags[cloud.TagNode])
	}
	one := launch(t, p, ask("t2", 1, true, p5odA))
	require.NoError(t, p.Name(context.Background(), one.Instances))
	require.Zero(t, l.Calls()["CreateTags"], "a call for one node says everything")
	for _, i := range l.Instances() {
		if i.ID == one.Instances[0].ID {
			require.Equal(t, "h100-0001", i.Tags[cloud.TagNode])
			require.Equal(t, "h100-0001", i.Tags["Name"])
		}
	}
}

func TestLongNodeSetsAreCutToWhatATagHolds(t *testing.T) {
	r := ask("t", 0, false, p5odA)
	for k := range 200 {
		r.Nodes = append(r.Nodes, cloud.NodeRequest{Name: fmt.Sprintf("n%d-x%d", k*7, k), Generation: 1})
	}
	tags, _ := createTags(r)
	require.LessOrEqual(t, len([]rune(tags[cloud.TagNodes])), 256)
	launch(t, newLab(t).open(), r)
}

func TestThrottledCreateIsRepeatedWithTheSameToken(t *testing.T) {
	l := newLab(t)
	p := l.open()
	l.fault(ec2sim.Fault{Action: "RunInstances", Error: "RequestLimitExceeded", Times: 1})
	r := ask("t1", 2, true, p5odA)
	e := refused(t, p, r)
	require.Equal(t, cloud.Throttled, e.Class)
	require.False(t, e.Ambiguous)
	require.Equal(t, 1, l.Calls()["RunInstances"], "the caller decides when to repeat")
	require.Len(t, launch(t, p, r).Instances, 2)
	require.Len(t, l.Instances(), 2)
}

func TestThrottledReadsAreRepeatedHere(t *testing.T) {
	l := newLab(t)
	p := l.open()
	p.sleep = func(context.Context, time.Duration) error { return nil }
	l.fault(ec2sim.Fault{Action: "DescribeInstances", Error: "RequestLimitExceeded", Times: 3})
	_, err := p.List(context.Background(), "gpu1")
	require.NoError(t, err)
	require.Equal(t, 4, l.Calls()["DescribeInstances"])
	l.fault(ec2sim.Fault{Action: "DescribeInstances", Error: "RequestLimitExceeded"})
	_, err = p.List(context.Background(), "gpu1")
	require.Equal(t, cloud.Throttled, cloud.AsError(err).Class)
	require.Equal(t, 4+defaultAttempts, l.Calls()["DescribeInstances"])
}

func TestEmptyPoolIsAskedOnce(t *testing.T) {
	l := newLab(t)
	p := l.open()
	require.NoError(t, l.SetCapacity(p5odA, 0))
	res := launch(t, p, ask("t1", 2, true, p5odA))
	require.Empty(t, res.Instances)
	require.Equal(t, cloud.OutOfStock, res.Shortfalls[0].Err.Class)
	require.Equal(t, "out-of-stock: EC2 has no capacity for p5.48xlarge/us-east-1a/on-demand now (InsufficientInstanceCapacity)", res.Shortfalls[0].Err.Error())
	require.Equal(t, 1, l.Calls()["RunInstances"])
}

func TestInternalErrorMayHaveTakenEffect(t *testing.T) {
	l := newLab(t)
	p := l.open()
	l.fault(ec2sim.Fault{Action: "CreateFleet", Error: "InternalError", After: true, Times: 1})
	r := ask("t1", 2, false, p5spotA, p5spotB)
	require.True(t, refused(t, p, r).Ambiguous)
	require.Len(t, launch(t, p, r).Instances, 2)
	require.Len(t, l.Instances(), 2)
}

func TestCreateCallThatHangsIsAmbiguous(t *testing.T) {
	l := newLab(t)
	p := l.open()
	l.fault(ec2sim.Fault{Action: "RunInstances", Hang: ec2sim.Duration(time.Minute), After: true, Times: 1})
	r := ask("t1", 1, true, p5odA)
	_, err := p.typesOf(context.Background(), []string{"p5.48xlarge"})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	_, err = p.Launch(ctx, r)
	e := cloud.AsError(err)
	require.True(t, e.Ambiguous)
	require.Equal(t, "AWS did not answer RunInstances in time", e.Message)
	require.Len(t, launch(t, p, r).Instances, 1)
	require.Len(t, l.Instances(), 1)
}

func TestTagThatWasNotKnownAtFirstDoesNotLoseInstances(t *testing.T) {
	l := newLab(t)
	p := l.open()
	for _, r := range []cloud.LaunchRequest{ask("t1", 2, true, p5odA), ask("t2", 2, false, p5odA)} {
		first := launch(t, p, r)
		for k := range r.Nodes {
			r.Nodes[k].Tags = nil
		}
		again := launch(t, l.open(), r)
		require.Len(t, again.Instances, 2)
		require.Equal(t, first.Instances[0].ID, again.Instances[0].ID)
	}
}

func TestSpotIsBoughtAsSpot(t *testing.T) {
	l := newLab(t)
	p := l.open()
	launch(t, p, ask("t1", 2, true, p5spotA))
	require.NoError(t, l.SetCapacity(p5spotA, 2))
	res := launch(t, p, ask("t2", 2, false, p5spotA, p5spotB))
	require.Len(t, res.Instances, 2)
	for _, i := range res.Instances {
		require.Equal(t, p5spotB, i.Offering)
	}
	list, err := p.List(context.Background(), "gpu1")
	require.NoError(t, err)
	require.Len(t, list, 4)
	for _, i := range list {
		require.Equal(t, cloud.Spot, i.Offering.Market)
	}
}

func TestSpotStrategyThatIsOurOrderIsToldTheOrder(t *testing.T) {
	o := &order{LaunchRequest: ask("t", 2, false, p5spotA, p5spotB), market: cloud.Spot, offerings: []cloud.Offering{p5spotA, p5spotB}, subnets: map[string][]string{zoneA: {subnetA}, zoneB: {subnetB}}}
	p := newLab(t).open(func(o *Options) { o.AWS.SpotAllocation = "capacity-optimized-prioritized" })
	in := p.fleetInput(o)
	require.Equal(t, 1.0, *in.LaunchTemplateConfigs[0].Overrides[1].Priority)
	p = newLab(t).open()
	in = p.fleetInput(o)
	require.Equal(t, "price-capacity-optimized", string(in.SpotOptions.AllocationStrategy))
	require.Nil(t, in.LaunchTemplateConfigs[0].Overrides[1].Priority)
}

func TestJobOverSeveralOfferingsComesFromOneTypeAndZone(t *testing.T) {
	l := newLab(t)
	p := l.open()
	require.NoError(t, l.SetCapacity(p5odA, 3))
	require.NoError(t, l.SetCapacity(p5odB, 3))
	res := launch(t, p, ask("t1", 4, true, p5odA, p5odB, p4odA))
	require.Len(t, res.Instances, 4)
	for _, i := range res.Instances {
		require.Equal(t, p4odA, i.Offering)
	}
	require.Len(t, res.Shortfalls, 2)
	require.Equal(t, 1, l.Calls()["CreateFleet"])
	require.Len(t, l.Instances(), 4)
}

func reserved(o *Options) {
	o.AWS.Reservations = []config.Reservation{
		{ID: "cr-0a1b2c3d4e5f60001", Type: "p5.48xlarge", Zone: zoneA},
		{ID: "cr-0a1b2c3d4e5f60002", Type: "p5.48xlarge", Zone: zoneB, Block: true},
	}
}

func TestReservedCapacityIsBoughtFromItsReservation(t *testing.T) {
	l := newLab(t)
	p := l.open(reserved)
	inA, inB := offering("p5.48xlarge", zoneA, cloud.Reserved), offering("p5.48xlarge", zoneB, cloud.Reserved)
	res := launch(t, p, ask("t1", 3, true, inA))
	require.Len(t, res.Instances, 3)
	for _, i := range l.Instances() {
		require.Equal(t, "cr-0a1b2c3d4e5f60001", i.Reservation)
	}
	require.Len(t, launch(t, p, ask("t2", 8, true, inB)).Instances, 8, "a capacity block")
	list, err := p.List(context.Background(), "gpu1")
	require.NoError(t, err)
	for _, i := range list {
		require.Equal(t, cloud.Reserved, i.Offering.Market)
	}
	// One of the four is left, for who takes what there is.
	res = launch(t, p, ask("t3", 2, false, inA))
	require.Len(t, res.Instances, 1)
	require.Len(t, res.Shortfalls, 1)
	require.Equal(t, cloud.OutOfStock, res.Shortfalls[0].Err.Class)
	require.Equal(t, 1, res.Shortfalls[0].Nodes)
	require.Contains(t, refused(t, p, ask("t4", 1, true, offering("p4d.24xlarge", zoneA, cloud.Reserved))).Message, "no reservation of p4d.24xlarge in zone us-east-1a")
}

func TestSeveralReservationsOfOneOfferingAreOne(t *testing.T) {
	const first, second = "cr-0a1b2c3d4e5f6000a", "cr-0a1b2c3d4e5f6000b"
	l := newLab(t, func(o *ec2sim.Options) {
		c := ec2sim.DefaultCatalogue()
		c.Reservations = []ec2sim.Reservation{{ID: first, Type: "p5.48xlarge", Zone: zoneA, Count: 2}, {ID: second, Type: "p5.48xlarge", Zone: zoneA, Count: 4}}
		o.Catalogue = c
	})
	with := func(o *Options) {
		o.AWS.Reservations = []config.Reservation{{ID: first, Type: "p5.48xlarge", Zone: zoneA}, {ID: second, Type: "p5.48xlarge", Zone: zoneA}}
	}
	p, inA := l.open(with), offering("p5.48xlarge", zoneA, cloud.Reserved)
	job := ask("t1", 3, true, inA)
	res := launch(t, p, job)
	require.Len(t, res.Instances, 3)
	for _, i := range l.Instances() {
		require.Equal(t, second, i.Reservation, "the first has no room for all")
	}
	require.Equal(t, res.Instances[2].ID, launch(t, l.open(with), job).Instances[2].ID)
	single := ask("t2", 5, false, inA)
	res = launch(t, p, single)
	require.Len(t, res.Instances, 3, "two of the first and one of the second")
	require.Equal(t, 2, res.Shortfalls[0].Nodes)
	require.Len(t, res.Shortfalls, 1)
	require.NoError(t, p.Terminate(context.Background(), []string{res.Instances[0].ID, res.Instances[1].ID}))
	again := launch(t, l.open(with), single)
	require.Len(t, again.Instances, 3)
	require.Equal(t, res.Instances[2].Node, again.Instances[2].Node)
	require.Len(t, l.Instances(), 6)
}

func TestFullSubnetGivesWayToTheNext(t *testing.T) {
	l := newLab(t, func(o *ec2sim.Options) {
		c := ec2sim.DefaultCatalogue()
		tiny := c.Subnets[0]
		tiny.ID, tiny.CIDR = "subnet-0a1b2c3d4e5f6000d", mustPrefix("10.214.192.0/28")
		c.Subnets = append(c.Subnets, tiny)
		o.Catalogue = c
	})
	p := l.open(func(o *Options) {
		o.AWS.Subnets = map[string][]string{zoneA: {"subnet-0a1b2c3d4e5f6000d", subnetA}}
	})
	r := ask("t1", 20, true, p5odA)
	res := launch(t, p, r)
	require.Len(t, res.Instances, 20)
	require.Equal(t, res.Instances[7].ID, launch(t, l.open(func(o *Options) { o.AWS.Subnets = p.conf.Subnets }), r).Instances[7].ID)
	require.Len(t, l.Instances(), 20)
}

func TestInterfacesOfTheTemplateKeepTheirFabric(t *testing.T) {
	l := newLab(t)
	p := l.open(func(o *Options) { o.Pools = map[string]config.PoolAWS{"h100": {LaunchTemplate: "midair-efa:1"}} })
	require.Len(t, launch(t, p, ask("t1", 2, true, p5odB)).Instances, 2)
	tmpl, err := p.templateOf(context.Background(), "h100")
	require.NoError(t, err)
	n := tmpl.interfaces(subnetB)
	require.Equal(t, "efa", awssdk.ToString(n[0].InterfaceType))
	require.Equal(t, subnetB, awssdk.ToString(n[0].SubnetId))
	require.Nil(t, runInput(&order{LaunchRequest: ask("t", 1, true, p5odB), template: tmpl, market: cloud.OnDemand}, place{p5odB, subnetB, nil}, 1, "t").SubnetId, "EC2 takes no subnet beside interfaces")
}

func TestTooSmallTypeIsNeverBought(t *testing.T) {
	l := newLab(t)
	r := ask("t1", 1, true, offering("g5.xlarge", zoneA, cloud.OnDemand))
	res := launch(t, l.open(), r)
	require.Equal(t, "spec-mismatch: g5.xlarge has 4 CPUs, but pool h100 promises Slurm 96", res.Shortfalls[0].Err.Error())
	require.Zero(t, l.Calls()["RunInstances"])
}

func TestTemplateWithoutSecondThreadsHalvesTheCPUs(t *testing.T) {
	var tmpl template
	i := typeInfo{vcpus: 96, cores: 48, threads: 2}
	require.Equal(t, 96, i.cpus(tmpl))
	tmpl.data.CpuOptions = cpuOptions(0, 1)
	require.Equal(t, 48, i.cpus(tmpl))
	tmpl.data.CpuOptions = cpuOptions(24, 2)
	require.Equal(t, 48, i.cpus(tmpl))
}

func TestTemplateNamesAreRead(t *testing.T) {
	for in, want := range map[string]templateRef{
		"midair":               {name: "midair", version: "$Default"},
		"midair:7":             {name: "midair", version: "7"},
		"lt-0a1b2c3d4e5f60001": {id: "lt-0a1b2c3d4e5f60001", version: "$Default"},
		"lt-0a1b:$Latest":      {id: "lt-0a1b", version: "$Latest"},
		"lt-midair":            {name: "lt-midair", version: "$Default"},
		"midair:":              {name: "midair", version: "$Default"},
	} {
		require.Equal(t, want, parseTemplate(in), in)
	}
}

func TestLongTokensFitEC2(t *testing.T) {
	require.Equal(t, "mda-1", clientToken("mda-1", 0))
	require.Len(t, clientToken("mda-1", 1), maxToken)
	require.NotEqual(t, clientToken("mda-1", 1), clientToken("mda-1", 2))
	require.LessOrEqual(t, len(clientToken(string(make([]byte, 100)), 0)), maxToken)
}
