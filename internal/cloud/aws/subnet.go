package aws

import (
	"context"
	"fmt"
	"slices"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/midair-hpc/midair/internal/cloud"
)

// subnetsKept is how long found subnets are remembered.
const subnetsKept = 10 * time.Minute

// subnetTag is the key of the tag that gives a subnet to midair.
const subnetTag = "midair"

// subnetsIn gives the subnets to launch into in a zone: those of midair.yaml;
// where it lists none, the template's own, those tagged "midair", or the
// default ones, whichever there are first.
func (p *Provider) subnetsIn(ctx context.Context, zone string, t template) ([]string, error) {
	if len(p.conf.Subnets) > 0 {
		if ids := p.conf.Subnets[zone]; len(ids) > 0 {
			return ids, nil
		}
		return nil, &cloud.Error{Class: cloud.Config, Message: fmt.Sprintf("provider %s lists no subnet for zone %s under subnets in midair.yaml", p.name, zone)}
	}
	key := zone + "/" + t.subnet()
	found, err := p.subnets.get(ctx, []string{key}, func(ctx context.Context, _ []string) (map[string][]string, error) {
		ids, err := p.findSubnets(ctx, zone, t)
		return map[string][]string{key: ids}, err
	})
	if err != nil {
		return nil, p.classify("DescribeSubnets", "", err)
	}
	return found[key], nil
}

func (p *Provider) findSubnets(ctx context.Context, zone string, t template) ([]string, error) {
	inZone := filter("availability-zone", zone)
	if own := t.subnet(); own != "" {
		list, err := p.describeSubnets(ctx, filter("subnet-id", own), inZone)
		if err != nil {
			return nil, err
		}
		if len(list) == 0 {
			return nil, &cloud.Error{Class: cloud.Config, Message: fmt.Sprintf("the launch template %q names the subnet %s, which is not in zone %s: take it out, or list subnets in midair.yaml", t.as, own, zone)}
		}
		return []string{own}, nil
	}
	for _, f := range []types.Filter{filter("tag-key", subnetTag), filter("default-for-az", "true")} {
		list, err := p.describeSubnets(ctx, f, inZone)
		if err != nil {
			return nil, err
		}
		var ids []string
		for _, s := range list {
			ids = append(ids, awssdk.ToString(s.SubnetId))
		}
		if slices.Sort(ids); len(ids) > 0 {
			return ids, nil
		}
	}
	return nil, &cloud.Error{Class: cloud.Config, Message: fmt.Sprintf("zone %s has no default subnet and none tagged %q: list subnets of provider %s in midair.yaml", zone, subnetTag, p.name)}
}

func (p *Provider) describeSubnets(ctx context.Context, filters ...types.Filter) ([]types.Subnet, error) {
	var all []types.Subnet
	pages := ec2.NewDescribeSubnetsPaginator(p.ec2, &ec2.DescribeSubnetsInput{Filters: filters})
	for pages.HasMorePages() {
		page, err := read(ctx, p, "DescribeSubnets", func(ctx context.Context) (*ec2.DescribeSubnetsOutput, error) { return pages.NextPage(ctx) })
		if err != nil {
			return nil, err
		}
		all = append(all, page.Subnets...)
	}
	return all, nil
}

func filter(name string, values ...string) types.Filter {
	return types.Filter{Name: awssdk.String(name), Values: values}
}
