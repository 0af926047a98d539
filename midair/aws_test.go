package main

import (
	"bytes"
	"context"
	"log/slog"
	"net/http/httptest"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/cloud/ec2sim"
	"github.com/midair-hpc/midair/internal/cloud/open"
	"github.com/midair-hpc/midair/internal/config"
)

// onEC2 is a configuration with one provider on a stand-in for AWS.
func onEC2(t *testing.T) (*config.Config, *ec2sim.Sim) {
	t.Helper()
	d := ec2sim.DefaultCredential
	for name, value := range map[string]string{
		"AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": "/nonexistent", "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent",
		"AWS_ACCESS_KEY_ID": d.AccessKeyID, "AWS_SECRET_ACCESS_KEY": d.SecretAccessKey, "AWS_SESSION_TOKEN": "", "AWS_PROFILE": "",
	} {
		t.Setenv(name, value)
	}
	sim, err := ec2sim.New(ec2sim.Options{Seed: 1, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	server := httptest.NewServer(sim)
	t.Cleanup(func() {
		require.NoError(t, sim.Close())
		server.Close()
	})
	nodes := func(prefix string, n int) (names []string) {
		for k := range n {
			names = append(names, prefix+string(rune('1'+k)))
		}
		return names
	}
	const zone = "us-east-1a"
	return &config.Config{
		Cluster: "gpu1",
		Providers: []config.Provider{
			{Name: "east", Kind: "aws", AWS: config.AWS{Region: "us-east-1", Endpoint: server.URL, LaunchTemplate: "midair", Subnets: map[string][]string{zone: {"subnet-0a1b2c3d4e5f6000a"}}}},
			{Name: "desk", Kind: "local"},
		},
		Pools: []config.Pool{
			{Name: "h100-spot", Provider: "east", NodeNames: nodes("s", 4), Node: config.NodeSpec{CPUs: 192, MemoryMiB: 1900000, Gres: []config.Gres{{Name: "gpu", Count: 8}}},
				Offerings: []cloud.Offering{{Type: "p5.48xlarge", Zone: zone, Market: cloud.Spot}}},
			{Name: "h100-od", Provider: "east", NodeNames: nodes("o", 2), Node: config.NodeSpec{CPUs: 96, MemoryMiB: 1000000, Gres: []config.Gres{{Name: "gpu", Count: 8}}},
				Offerings: []cloud.Offering{{Type: "p5.48xlarge", Zone: zone, Market: cloud.OnDemand}, {Type: "p4d.24xlarge", Zone: zone, Market: cloud.OnDemand}}},
		},
	}, sim
}

func TestQuotaSaysWhatToRequest(t *testing.T) {
	cfg, sim := onEC2(t)
	require.NoError(t, sim.SetQuota("L-C4BD4855", 384))
	p, err := open.AWS(cfg, cfg.Providers[0], time.Now, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	providers := map[string]cloud.Provider{"east": p, "desk": nil}
	r, err := quotas(context.Background(), cfg, providers, "")
	require.NoError(t, err)
	var out bytes.Buffer
	quotaTable(&out, r)
	require.Equal(t, `PROVIDER  QUOTA                          CODE          LIMIT  IN USE  POOLS COULD ASK  REQUEST  POOLS      
east      All P5 Spot Instance Requests  L-C4BD4855      384       0              768      768  h100-spot  
east      Running On-Demand P instances  L-417A185B  1000000       0              384        -  h100-od    

Limits count vCPUs.

To have all pools full at once, even from the dearest of their types:
  aws service-quotas request-service-quota-increase --region us-east-1 --service-code ec2 --quota-code L-C4BD4855 --desired-value 768
`, out.String())
	require.EqualError(t, r.err(), "the quotas allow only 2 of the 4 nodes of pool h100-spot")

	require.NoError(t, sim.SetQuota("L-C4BD4855", 768))
	r, err = quotas(context.Background(), cfg, providers, "east")
	require.NoError(t, err)
	require.NoError(t, r.err())
	_, err = quotas(context.Background(), cfg, providers, "west")
	require.EqualError(t, err, `quota: midair.yaml has no provider "west"`)
	r, err = quotas(context.Background(), cfg, providers, "desk")
	require.NoError(t, err)
	out.Reset()
	quotaTable(&out, r)
	require.Equal(t, "no provider has quotas\n", out.String())
}

func TestAWSCheckIsOneLineEach(t *testing.T) {
	cfg, sim := onEC2(t)
	require.NoError(t, sim.Deny("CreateFleet"))
	all, err := checkAWS(context.Background(), cfg, "", slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	var out bytes.Buffer
	printChecks(&out, all, false)
	text := regexp.MustCompile(`[\d.]+ to [\d.]+ USD`).ReplaceAllString(out.String(), "A to B USD")
	require.Equal(t, `provider east
OK    credentials: arn:aws:iam::123456789012:user/midair
OK    region: us-east-1 with zones us-east-1a, us-east-1b, us-east-1c
OK    launch template: midair, version 1, image ami-0a1b2c3d4e5f60001
OK    pool h100-spot: p5.48xlarge have what the pool promises
OK    pool h100-od: p5.48xlarge, p4d.24xlarge have what the pool promises
OK    subnets of us-east-1a: subnet-0a1b2c3d4e5f6000a with 16379 free addresses
FAIL  permission ec2:CreateFleet: unauthorized: the credentials lack the permission ec2:CreateFleet (UnauthorizedOperation)
      add the permission to the controller's policy; midair aws check lists all that are needed
OK    quotas: 2 read
OK    prices of pool h100-spot: A to B USD an hour
OK    prices of pool h100-od: A to B USD an hour
OK    permissions: 14 more (-v lists them)
`, text)
	require.EqualError(t, failedChecks(all), "aws check: 1 of the checks failed")
	require.Empty(t, sim.Instances())

	require.NoError(t, sim.Allow())
	all, err = checkAWS(context.Background(), cfg, "east", slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	require.NoError(t, failedChecks(all))
	out.Reset()
	printChecks(&out, all, true)
	require.Contains(t, out.String(), "OK    permission ec2:TerminateInstances\n")
	_, err = checkAWS(context.Background(), cfg, "desk", slog.New(slog.DiscardHandler))
	require.EqualError(t, err, `aws check: midair.yaml has no provider of kind aws named "desk"`)
}
