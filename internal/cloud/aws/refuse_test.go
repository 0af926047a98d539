package aws

import (
	"context"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/cloud/ec2sim"
)

func mustPrefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }

func cpuOptions(cores, threads int32) *types.LaunchTemplateCpuOptions {
	o := &types.LaunchTemplateCpuOptions{ThreadsPerCore: awssdk.Int32(threads)}
	if cores > 0 {
		o.CoreCount = awssdk.Int32(cores)
	}
	return o
}

// What is wrong with the account or the settings is one line that names it, and
// nothing is launched.
func TestWrongAccountOrSettingsLaunchNothingAndSayWhy(t *testing.T) {
	for _, tt := range []struct {
		name  string
		lab   func(l *lab)
		open  func(o *Options)
		class cloud.Class
		says  string
	}{
		{
			name: "no credentials", class: cloud.Unauthorized, says: "there are no credentials for AWS: set profile or credentials_file of provider east",
			open: func(o *Options) { o.AWS.CredentialsFile = "" },
		},
		{name: "wrong region", class: cloud.Config, says: "the endpoint is of another region than eu-west-9: correct region or endpoint of provider east", open: func(o *Options) { o.AWS.Region = "eu-west-9" }},
		{
			name: "expired session", class: cloud.Unauthorized, says: "AWS calls the request expired",
			lab: func(l *lab) { require.NoError(l.t, l.ExpireCredential(ec2sim.DefaultCredential.AccessKeyID)) },
		},
		{
			name: "denied launch", class: cloud.Unauthorized, says: "the credentials lack the permission ec2:RunInstances",
			lab: func(l *lab) { require.NoError(l.t, l.Deny("RunInstances")) },
		},
		{
			name: "denied description", class: cloud.Unauthorized, says: "the credentials lack the permission ec2:DescribeInstanceTypes",
			lab: func(l *lab) { require.NoError(l.t, l.Deny("DescribeInstanceTypes")) },
		},
		{
			name: "spot role", class: cloud.Unauthorized, says: "the account has never used spot, and the credentials lack the permission iam:CreateServiceLinkedRole",
			lab: func(l *lab) {
				l.fault(ec2sim.Fault{Action: "RunInstances", Error: "AuthFailure.ServiceLinkedRoleCreationNotPermitted"})
			},
		},
		{name: "no launch template", class: cloud.Config, says: "no launch template: set launch_template of provider east", open: func(o *Options) { o.AWS.LaunchTemplate = "" }},
		{name: "launch template that is not there", class: cloud.Config, says: `the launch template "nope" of provider east, or that version of it, is not there in us-east-1`, open: func(o *Options) { o.AWS.LaunchTemplate = "nope" }},
		{name: "version that is not there", class: cloud.Config, says: `the launch template "midair:99" of provider east, or that version of it, is not there`, open: func(o *Options) { o.AWS.LaunchTemplate = "midair:99" }},
		{name: "zone without a subnet", class: cloud.Config, says: "provider east lists no subnet for zone us-east-1a", open: func(o *Options) { delete(o.AWS.Subnets, zoneA) }},
		{name: "subnet that is not there", class: cloud.Config, says: "the subnet for p5.48xlarge/us-east-1a/on-demand is not there in us-east-1", open: func(o *Options) { o.AWS.Subnets[zoneA] = []string{"subnet-0000000000000000f"} }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := newLab(t)
			if tt.lab != nil {
				tt.lab(l)
			}
			p := l.open(func(o *Options) {
				if tt.open != nil {
					tt.open(o)
				}
			})
			e := refused(t, p, ask("t1", 1, true, p5odA))
			require.Equal(t, tt.class, e.Class, "%v", e)
			require.Contains(t, e.Message, tt.says)
			require.NotContains(t, e.Error(), "\n")
			require.False(t, e.Ambiguous)
			require.Empty(t, l.Instances())
		})
	}
}

func TestDeniedFleetSaysSoForEveryOffering(t *testing.T) {
	l := newLab(t)
	require.NoError(t, l.Deny("CreateFleet"))
	e := refused(t, l.open(), ask("t1", 1, false, p5odA, p5odB))
	require.Equal(t, "unauthorized: the credentials lack the permission ec2:CreateFleet (UnauthorizedOperation)", e.Error())
}

func TestHostThatIsNotThereNamesTheRegion(t *testing.T) {
	p := newLab(t).open()
	e := p.unreachable("RunInstances", notFoundHost())
	require.Equal(t, cloud.Config, e.Class)
	require.Equal(t, `there is no host ec2.us-east-9.amazonaws.com: is region "us-east-1" of provider east right?`, e.Message)
}

func TestAccountThatCannotBeReachedIsAskedAgain(t *testing.T) {
	p := newLab(t).open(func(o *Options) { o.AWS.Endpoint, o.Attempts = "http://127.0.0.1:1", 1 })
	e := refused(t, p, ask("t1", 1, true, p5odA))
	require.True(t, e.Ambiguous, "the caller repeats it")
	require.Contains(t, e.Message, "AWS cannot be reached for DescribeInstanceTypes: connection refused")
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	_, err := Open(Options{})
	require.ErrorContains(t, err, "set region in midair.yaml")
	l := newLab(t)
	o := l.options()
	o.AWS.Profile = "nobody"
	_, err = Open(o)
	require.ErrorContains(t, err, "nobody")
	o = l.options()
	o.AWS.PriceFile = filepath.Join(t.TempDir(), "prices.json")
	_, err = Open(o)
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestSubnetsAreFoundWhereMidairYamlListsNone(t *testing.T) {
	l := newLab(t, func(o *ec2sim.Options) {
		c := ec2sim.DefaultCatalogue()
		v := c.LaunchTemplates[0].Versions[0]
		v.Subnet = subnetA
		c.LaunchTemplates[0].Versions = append(c.LaunchTemplates[0].Versions, v)
		o.Catalogue = c
	})
	none := func(template string) func(*Options) {
		return func(o *Options) { o.AWS.Subnets, o.AWS.LaunchTemplate = nil, template }
	}
	require.Len(t, launch(t, l.open(none("midair:2")), ask("t1", 2, true, p5odA)).Instances, 2)
	e := refused(t, l.open(none("midair:2")), ask("t2", 2, true, p5odB))
	require.Equal(t, `config: the launch template "midair:2" names the subnet `+subnetA+`, which is not in zone us-east-1b: take it out, or list subnets in midair.yaml`, e.Error())
	e = refused(t, l.open(none("midair")), ask("t3", 2, true, p5odB))
	require.Equal(t, `config: zone us-east-1b has no default subnet and none tagged "midair": list subnets of provider east in midair.yaml`, e.Error())
}

func TestTemplateThatChoosesTheMarketIsRefused(t *testing.T) {
	l := newLab(t, func(o *ec2sim.Options) {
		c := ec2sim.DefaultCatalogue()
		c.LaunchTemplates[0].Versions[0].Spot = true
		o.Catalogue = c
	})
	require.Contains(t, refused(t, l.open(), ask("t1", 1, true, p5odA)).Message, `the launch template "midair" asks for the market spot itself`)
}

func TestNoCredentialsAreNotLookedForAtEveryCall(t *testing.T) {
	p := newLab(t).open(func(o *Options) { o.AWS.CredentialsFile = "" })
	asked := 0
	p.creds.(*credentials).chain = awssdk.CredentialsProviderFunc(func(context.Context) (awssdk.Credentials, error) {
		asked++
		return awssdk.Credentials{}, context.DeadlineExceeded
	})
	for range 3 {
		_, err := p.creds.Retrieve(context.Background())
		require.ErrorIs(t, err, errNoCredentials)
	}
	require.Equal(t, 1, asked)
}

func notFoundHost() error {
	return &net.DNSError{Err: "no such host", Name: "ec2.us-east-9.amazonaws.com", IsNotFound: true}
}
