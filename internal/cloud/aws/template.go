package aws

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/midair-hpc/midair/internal/cloud"
)

// templatesKept is how long a launch template's contents are remembered.
const templatesKept = 5 * time.Minute

// templateRef is a launch template as midair.yaml names it: NAME or lt-…,
// optionally with :VERSION.
type templateRef struct {
	id, name string // one of them
	version  string
}

func parseTemplate(s string) templateRef {
	name, version, ok := strings.Cut(s, ":")
	if !ok || version == "" {
		version = "$Default"
	}
	if strings.HasPrefix(name, "lt-") && strings.Trim(name[3:], "0123456789abcdef") == "" {
		return templateRef{id: name, version: version}
	}
	return templateRef{name: name, version: version}
}

func (r templateRef) ids() (id, name *string) {
	if r.id != "" {
		return awssdk.String(r.id), nil
	}
	return nil, awssdk.String(r.name)
}

func (r templateRef) forRun() *types.LaunchTemplateSpecification {
	id, name := r.ids()
	return &types.LaunchTemplateSpecification{LaunchTemplateId: id, LaunchTemplateName: name, Version: awssdk.String(r.version)}
}

func (r templateRef) forFleet() *types.FleetLaunchTemplateSpecificationRequest {
	id, name := r.ids()
	return &types.FleetLaunchTemplateSpecificationRequest{LaunchTemplateId: id, LaunchTemplateName: name, Version: awssdk.String(r.version)}
}

// template is what a launch template says that matters to a create call.
type template struct {
	ref    templateRef
	as     string // as midair.yaml has it
	data   types.ResponseLaunchTemplateData
	number int64 // of the version
}

// subnet is the one subnet that the template itself names; empty: none.
func (t template) subnet() string {
	for _, n := range t.data.NetworkInterfaces {
		if s := awssdk.ToString(n.SubnetId); s != "" {
			return s
		}
	}
	return ""
}

// templateOf gives the launch template of a pool.
func (p *Provider) templateOf(ctx context.Context, pool string) (template, error) {
	as := p.pools[pool].LaunchTemplate
	if as == "" {
		as = p.conf.LaunchTemplate
	}
	if as == "" {
		return template{}, &cloud.Error{Class: cloud.Config, Message: "no launch template: set launch_template of provider " + p.name + " in midair.yaml"}
	}
	found, err := p.templates.get(ctx, []string{as}, func(ctx context.Context, _ []string) (map[string]template, error) {
		t, err := p.describeTemplate(ctx, as)
		return map[string]template{as: t}, err
	})
	if err != nil {
		return template{}, p.classify("DescribeLaunchTemplateVersions", "", err)
	}
	return found[as], nil
}

func (p *Provider) describeTemplate(ctx context.Context, as string) (template, error) {
	ref := parseTemplate(as)
	id, name := ref.ids()
	out, err := read(ctx, p, "DescribeLaunchTemplateVersions", func(ctx context.Context) (*ec2.DescribeLaunchTemplateVersionsOutput, error) {
		return p.ec2.DescribeLaunchTemplateVersions(ctx, &ec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateId: id, LaunchTemplateName: name, Versions: []string{ref.version}})
	})
	var e *cloud.Error
	switch {
	case errors.As(err, &e) && strings.HasPrefix(e.Code, "InvalidLaunchTemplate"):
		return template{}, &cloud.Error{Class: cloud.Config, Code: e.Code, Err: err,
			Message: fmt.Sprintf("the launch template %q of provider %s, or that version of it, is not there in %s", as, p.name, p.conf.Region)}
	case err != nil:
		return template{}, err
	case len(out.LaunchTemplateVersions) == 0 || out.LaunchTemplateVersions[0].LaunchTemplateData == nil:
		return template{}, &cloud.Error{Class: cloud.Config, Message: fmt.Sprintf("the launch template %q of provider %s has no such version", as, p.name)}
	}
	v := out.LaunchTemplateVersions[0]
	t := template{ref: ref, as: as, data: *v.LaunchTemplateData, number: awssdk.ToInt64(v.VersionNumber)}
	if m := t.data.InstanceMarketOptions; m != nil && m.MarketType != "" {
		return t, &cloud.Error{Class: cloud.Config,
			Message: fmt.Sprintf("the launch template %q asks for the market %s itself: take InstanceMarketOptions out of it, midair chooses the market", as, m.MarketType)}
	}
	return t, nil
}

// interfaces gives the template's network interfaces with a subnet set, for
// RunInstances, which takes no subnet beside a template that has interfaces.
// Nil: the template has none.
func (t template) interfaces(subnet string) []types.InstanceNetworkInterfaceSpecification {
	var list []types.InstanceNetworkInterfaceSpecification
	for _, n := range t.data.NetworkInterfaces {
		if n.NetworkInterfaceId != nil {
			return nil // an interface that exists is in a subnet already
		}
		s := types.InstanceNetworkInterfaceSpecification{
			AssociateCarrierIpAddress: n.AssociateCarrierIpAddress, AssociatePublicIpAddress: n.AssociatePublicIpAddress,
			DeleteOnTermination: n.DeleteOnTermination, Description: n.Description, DeviceIndex: n.DeviceIndex, EnaQueueCount: n.EnaQueueCount,
			Groups: n.Groups, InterfaceType: n.InterfaceType, Ipv4PrefixCount: n.Ipv4PrefixCount, Ipv6AddressCount: n.Ipv6AddressCount,
			Ipv6PrefixCount: n.Ipv6PrefixCount, NetworkCardIndex: n.NetworkCardIndex, PrimaryIpv6: n.PrimaryIpv6,
			SecondaryPrivateIpAddressCount: n.SecondaryPrivateIpAddressCount, SubnetId: awssdk.String(subnet),
		}
		if c := n.ConnectionTrackingSpecification; c != nil {
			s.ConnectionTrackingSpecification = &types.ConnectionTrackingSpecificationRequest{
				TcpEstablishedTimeout: c.TcpEstablishedTimeout, UdpStreamTimeout: c.UdpStreamTimeout, UdpTimeout: c.UdpTimeout,
			}
		}
		if s.DeviceIndex == nil {
			s.DeviceIndex = awssdk.Int32(0)
		}
		list = append(list, s)
	}
	return list
}
