package aws

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/midair-hpc/midair/internal/cloud"
)

// noInstance is an id that no instance has.
const noInstance = "i-00000000000000000"

// permissions makes every call that changes something with DryRun, and reads
// what is read only in need.
func (c *checker) permissions(ctx context.Context, templates map[string]template) {
	id, real := noInstance, false
	list, err := c.p.List(ctx, c.cluster)
	if err != nil {
		c.fail("permission ec2:DescribeInstances", err, "")
	} else {
		c.add(OK, "permission "+permission("DescribeInstances"), "", "", true)
		for _, i := range list {
			if i.Live() {
				id, real = i.ID, true
			}
		}
	}
	dry, e := awssdk.Bool(true), c.p.ec2
	for _, call := range []struct {
		action string
		do     func(context.Context) error
	}{
		{"TerminateInstances", func(ctx context.Context) error {
			_, err := e.TerminateInstances(ctx, &ec2.TerminateInstancesInput{DryRun: dry, InstanceIds: []string{id}})
			return err
		}},
		{"StopInstances", func(ctx context.Context) error {
			_, err := e.StopInstances(ctx, &ec2.StopInstancesInput{DryRun: dry, InstanceIds: []string{id}})
			return err
		}},
		{"StartInstances", func(ctx context.Context) error {
			_, err := e.StartInstances(ctx, &ec2.StartInstancesInput{DryRun: dry, InstanceIds: []string{id}})
			return err
		}},
		{"CreateTags", func(ctx context.Context) error {
			_, err := e.CreateTags(ctx, &ec2.CreateTagsInput{DryRun: dry, Resources: []string{id}, Tags: tagList(map[string]string{tagName: "midair-check"})})
			return err
		}},
		{"GetConsoleOutput", func(ctx context.Context) error {
			_, err := e.GetConsoleOutput(ctx, &ec2.GetConsoleOutputInput{DryRun: dry, InstanceId: awssdk.String(id)})
			return err
		}},
	} {
		c.dry(ctx, call.action, !real, call.do)
	}
	for _, action := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"DescribeInstanceTypes", func(ctx context.Context) error {
			_, err := e.DescribeInstanceTypes(ctx, &ec2.DescribeInstanceTypesInput{DryRun: dry})
			return err
		}},
		{"DescribeInstanceTypeOfferings", func(ctx context.Context) error {
			_, err := e.DescribeInstanceTypeOfferings(ctx, &ec2.DescribeInstanceTypeOfferingsInput{DryRun: dry})
			return err
		}},
		{"DescribeLaunchTemplateVersions", func(ctx context.Context) error {
			_, err := e.DescribeLaunchTemplateVersions(ctx, &ec2.DescribeLaunchTemplateVersionsInput{DryRun: dry, Versions: []string{"$Default"}})
			return err
		}},
		{"DescribeSubnets", func(ctx context.Context) error {
			_, err := e.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{DryRun: dry})
			return err
		}},
		{"DescribeSpotPriceHistory", func(ctx context.Context) error {
			_, err := e.DescribeSpotPriceHistory(ctx, &ec2.DescribeSpotPriceHistoryInput{DryRun: dry})
			return err
		}},
		{"DescribeCapacityReservations", func(ctx context.Context) error {
			_, err := e.DescribeCapacityReservations(ctx, &ec2.DescribeCapacityReservationsInput{DryRun: dry})
			return err
		}},
	} {
		c.dry(ctx, action.name, false, action.do)
	}
	c.launches(ctx, templates)
}

// launches tries the create calls of each launch template.
func (c *checker) launches(ctx context.Context, templates map[string]template) {
	var done []string
	for _, pool := range c.pools {
		t, ok := templates[pool.Name]
		if !ok || slices.Contains(done, t.as) || len(pool.Offerings) == 0 {
			continue
		}
		done = append(done, t.as)
		for _, o := range pool.Offerings {
			subnets, err := c.p.subnetsIn(ctx, o.Zone, t)
			if err != nil || o.Market == cloud.Reserved {
				continue
			}
			r := cloud.LaunchRequest{
				Token: fmt.Sprintf("midair-check-%d", c.p.now().UnixNano()), Cluster: c.cluster, Pool: pool.Name, AllOrNothing: true,
				Nodes: []cloud.NodeRequest{{Name: "midair-check"}}, Offerings: []cloud.Offering{o},
			}
			ord := &order{LaunchRequest: r, market: o.Market, offerings: r.Offerings, template: t, subnets: map[string][]string{o.Zone: subnets}}
			ord.tags, ord.digest = createTags(r)
			run := runInput(ord, place{offering: o, subnet: subnets[0]}, 1, r.Token)
			fleet := c.p.fleetInput(ord)
			run.DryRun, fleet.DryRun = awssdk.Bool(true), awssdk.Bool(true)
			c.dry(ctx, "RunInstances", false, func(ctx context.Context) error { _, err := c.p.ec2.RunInstances(ctx, run); return err })
			c.dry(ctx, "CreateFleet", false, func(ctx context.Context) error { _, err := c.p.ec2.CreateFleet(ctx, fleet); return err })
			break
		}
	}
}

// dry reads the answer to a call that was made with DryRun. fake: it was made
// for an instance that does not exist, so that a policy which allows it only on
// the cluster's own instances refuses it.
func (c *checker) dry(ctx context.Context, action string, fake bool, do func(context.Context) error) {
	what := "permission " + permission(action)
	// An answer of status 412 is what is hoped for.
	_, err := read(ctx, c.p, action, func(ctx context.Context) (struct{}, error) {
		err := do(ctx)
		if dryRunSaysYes(err) {
			err = nil
		}
		return struct{}{}, err
	})
	var e *cloud.Error
	switch {
	case err == nil, notFound(err):
		c.add(OK, what, "", "", true)
	case errors.As(err, &e) && e.Class == cloud.Unauthorized && fake && strings.HasPrefix(e.Code, "UnauthorizedOperation"):
		c.add(Unsure, what, "denied for an instance that is not the cluster's; a policy that allows it on the cluster's own can be tried only while one runs", "run midair aws check again while a node is up", false)
	default:
		c.fail(what, err, "")
	}
}

func dryRunSaysYes(err error) bool {
	var api interface{ ErrorCode() string }
	return errors.As(err, &api) && api.ErrorCode() == "DryRunOperation"
}
