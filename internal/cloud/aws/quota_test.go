package aws

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/config"
)

func TestQuotasAreSetBesideWhatThePoolsCouldAskFor(t *testing.T) {
	l := newLab(t)
	p := l.open()
	launch(t, p, ask("t1", 1, true, p5odA)) // ours: part of what the pool asks for
	other := ask("t2", 1, true, p4odA)
	other.Cluster = "gpu2"
	launch(t, p, other)
	require.NoError(t, l.SetQuota("L-417A185B", 480)) // on-demand P
	require.NoError(t, l.SetQuota("L-C4BD4855", 384)) // spot P5
	r, err := p.Limits(context.Background(), "gpu1", []cloud.PoolSize{
		{Name: "h100", Nodes: 4, Offerings: []cloud.Offering{p5spotA, p5odA, p4odA}},
		{Name: "od", Nodes: 2, Offerings: []cloud.Offering{p4odA}},
		{Name: "block", Nodes: 9, Offerings: []cloud.Offering{offering("p5.48xlarge", zoneB, cloud.Reserved)}},
	})
	require.NoError(t, err)
	require.Len(t, r.Limits, 2)
	spot, od := r.Limits[0], r.Limits[1]
	require.Equal(t, "All P5 Spot Instance Requests", spot.Name)
	require.Equal(t, 4*192, spot.Wanted)
	require.Equal(t, 4*192, spot.Request)
	require.Equal(t, "aws service-quotas request-service-quota-increase --region us-east-1 --service-code ec2 --quota-code L-C4BD4855 --desired-value 768", spot.Command)
	require.Equal(t, 192+96, od.InUse)
	require.Equal(t, 96, od.Others)
	require.Equal(t, 4*192+2*96+9*192, od.Wanted)
	require.Equal(t, []string{"h100", "od", "block"}, od.Pools)
	// 480 - 96 of others: two spot nodes and two of P4d fill h100, and two are left.
	require.Equal(t, []cloud.PoolFit{{Pool: "h100", Nodes: 4, Fit: 4}, {Pool: "od", Nodes: 2, Fit: 2}, {Pool: "block", Nodes: 9}}, r.Pools)

	p = l.open(reserved)
	r, err = p.Limits(context.Background(), "gpu1", []cloud.PoolSize{{Name: "block", Nodes: 8, Offerings: []cloud.Offering{offering("p5.48xlarge", zoneB, cloud.Reserved)}}})
	require.NoError(t, err)
	require.Empty(t, r.Limits, "a capacity block counts against no quota")
	require.Equal(t, 8, r.Pools[0].Fit)

	require.NoError(t, l.Deny("ListServiceQuotas"))
	_, err = p.Limits(context.Background(), "gpu1", []cloud.PoolSize{{Name: "h100", Nodes: 4, Offerings: []cloud.Offering{p5spotA}}})
	require.Equal(t, "unauthorized: the credentials lack the permission servicequotas:ListServiceQuotas (AccessDeniedException)", err.Error())
}

func TestTypesCountAgainstTheirFamilysQuota(t *testing.T) {
	for typ, want := range map[string][2]string{
		"p5.48xlarge": {"L-417A185B", "L-C4BD4855"}, "p4d.24xlarge": {"L-417A185B", "L-7212CCBC"}, "g5.xlarge": {"L-DB2E81BA", "L-3819A6DF"}, "gr6.4xlarge": {"L-DB2E81BA", "L-3819A6DF"},
		"c7i.large": {"L-1216C47A", "L-34B43A08"}, "im4gn.large": {"L-1216C47A", "L-34B43A08"}, "trn1.32xlarge": {"L-2C3B7624", "L-6B0D517C"}, "p6-b200.48xlarge": {"L-417A185B", "L-C4BD4855"},
	} {
		od, ok := bucketOf(typ, cloud.OnDemand)
		require.True(t, ok, typ)
		spot, ok := bucketOf(typ, cloud.Spot)
		require.True(t, ok, typ)
		require.Equal(t, want, [2]string{od.code, spot.code}, typ)
	}
	_, ok := bucketOf("hpc7a.96xlarge", cloud.Spot)
	require.False(t, ok, "not sold as spot")
	for _, typ := range []string{"", "x", "9", "mac"} {
		_, ok := bucketOf(typ, cloud.OnDemand)
		require.False(t, ok && typ != "x", typ)
	}
}

func pools(node config.NodeSpec, offerings ...cloud.Offering) []config.Pool {
	return []config.Pool{{Name: "h100", Provider: "east", NodeNames: []string{"h1", "h2"}, Node: node, Offerings: offerings}}
}

var p5node = config.NodeSpec{CPUs: 192, MemoryMiB: 2000000, Gres: []config.Gres{{Name: "gpu", Type: "h100", Count: 8}}}

func findings(p *Provider, list []config.Pool) (ok, failed, unsure map[string]string) {
	ok, failed, unsure = map[string]string{}, map[string]string{}, map[string]string{}
	for _, f := range p.Check(context.Background(), "gpu1", list) {
		map[Verdict]map[string]string{OK: ok, Fail: failed, Unsure: unsure}[f.Verdict][f.What] = f.Says
	}
	return ok, failed, unsure
}

func TestCheckOfAGoodAccountFindsNothingAndLaunchesNothing(t *testing.T) {
	l := newLab(t)
	ok, failed, unsure := findings(l.open(reserved), pools(p5node, p5spotA, p5odA))
	require.Empty(t, failed)
	require.Empty(t, unsure)
	for _, what := range []string{
		"credentials", "region", "launch template", "subnets of us-east-1a", "pool h100", "quotas", "prices of pool h100", "reservation cr-0a1b2c3d4e5f60001",
		"permission ec2:RunInstances", "permission ec2:CreateFleet", "permission ec2:CreateTags", "permission ec2:TerminateInstances", "permission ec2:GetConsoleOutput",
	} {
		require.Contains(t, ok, what)
	}
	require.Empty(t, l.Instances())
}

func TestCheckNamesEveryDeniedPermission(t *testing.T) {
	for _, action := range []string{"RunInstances", "CreateFleet", "TerminateInstances", "CreateTags", "StopInstances", "StartInstances", "GetConsoleOutput", "DescribeInstances", "DescribeInstanceTypes",
		"DescribeInstanceTypeOfferings", "DescribeSubnets", "DescribeLaunchTemplateVersions", "DescribeSpotPriceHistory", "DescribeCapacityReservations", "ListServiceQuotas", "GetProducts", "GetCallerIdentity"} {
		l := newLab(t)
		p := l.open(reserved)
		launch(t, p, ask("t1", 1, true, p4odA))
		require.NoError(t, l.Deny(action))
		p = l.open(reserved)
		_, failed, _ := findings(p, pools(p5node, p5spotA, p5odA))
		found := false
		for what, says := range failed {
			found = found || what == "permission "+permission(action) || strings.Contains(says, permission(action))
		}
		require.True(t, found, "%s is denied, and the check says %v", action, failed)
		require.Len(t, l.Instances(), 1)
	}
}

func TestPolicyForTheClustersOwnInstancesCannotBeTriedBeforeOneRuns(t *testing.T) {
	l := newLab(t)
	require.NoError(t, l.Deny("TerminateInstances"))
	_, failed, unsure := findings(l.open(), pools(p5node, p5spotA))
	require.Empty(t, failed)
	require.Contains(t, unsure, "permission ec2:TerminateInstances")
}

func TestCheckFindsWhatDoesNotFit(t *testing.T) {
	l := newLab(t)
	require.NoError(t, l.SetQuota("L-417A185B", 192))
	p := l.open(func(o *Options) {
		o.AWS.LaunchTemplate = "midair-efa"
		o.AWS.Subnets[zoneB] = []string{subnetC}
		o.AWS.Reservations = []config.Reservation{{ID: "cr-0a1b2c3d4e5f60001", Type: "p5.48xlarge", Zone: zoneB}, {ID: "cr-00000000000000001", Type: "p5.48xlarge", Zone: zoneB}}
	})
	list := pools(config.NodeSpec{CPUs: 192, MemoryMiB: 2097152}, p5odA, p5odB, p4odA)
	list[0].Placement = config.PlaceGroup
	_, failed, unsure := findings(p, list)
	require.Equal(t, "spec-mismatch: p4d.24xlarge has 96 CPUs, but pool h100 promises Slurm 192", failed["pool h100"])
	require.Equal(t, "the subnet "+subnetC+" is in zone us-east-1c", failed["subnets of us-east-1b"])
	require.Contains(t, failed["reservation cr-0a1b2c3d4e5f60001"], "in us-east-1a; midair.yaml says")
	require.Contains(t, failed["reservation cr-00000000000000001"], "is not there in us-east-1")
	require.Contains(t, unsure["pool h100"], "Linux shows some percent less")
	require.NotContains(t, failed, "quotas", "two of P4d fit into the quota")
}
