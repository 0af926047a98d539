package aws

import (
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/cloud/ec2sim"
	"github.com/midair-hpc/midair/internal/config"
)

// TestMain keeps the SDK off whatever the machine that runs the tests has.
func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "midair-aws")
	if err != nil {
		panic(err)
	}
	creds := filepath.Join(dir, "credentials")
	for name, value := range map[string]string{
		"AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": "/nonexistent", "AWS_SHARED_CREDENTIALS_FILE": "/nonexistent",
		"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_SESSION_TOKEN": "", "AWS_PROFILE": "", "AWS_REGION": "",
	} {
		if value == "" {
			os.Unsetenv(name)
		} else {
			os.Setenv(name, value)
		}
	}
	credentialsFile = creds
	d := ec2sim.DefaultCredential
	if err := os.WriteFile(creds, []byte("[default]\naws_access_key_id = "+d.AccessKeyID+"\naws_secret_access_key = "+d.SecretAccessKey+"\n"), 0o600); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

var credentialsFile string

const (
	zoneA, zoneB, zoneC       = "us-east-1a", "us-east-1b", "us-east-1c"
	subnetA, subnetB, subnetC = "subnet-0a1b2c3d4e5f6000a", "subnet-0a1b2c3d4e5f6000b", "subnet-0a1b2c3d4e5f6000c"
)

// lab is a stand-in for AWS that listens on loopback, and what is opened on it.
type lab struct {
	*ec2sim.Sim
	t   testing.TB
	url string
}

func newLab(t testing.TB, change ...func(*ec2sim.Options)) *lab {
	t.Helper()
	o := ec2sim.Options{Seed: 7, Log: slog.New(slog.DiscardHandler)}
	for _, c := range change {
		c(&o)
	}
	sim, err := ec2sim.New(o)
	require.NoError(t, err)
	server := httptest.NewServer(sim)
	t.Cleanup(func() {
		require.NoError(t, sim.Close())
		server.Close()
	})
	return &lab{sim, t, server.URL}
}

func (l *lab) options() Options {
	return Options{
		Name: "east", Log: slog.New(slog.DiscardHandler), ShownWithin: time.Second,
		AWS: config.AWS{
			Region: "us-east-1", Endpoint: l.url, CredentialsFile: credentialsFile, LaunchTemplate: "midair",
			Subnets: map[string][]string{zoneA: {subnetA}, zoneB: {subnetB}, zoneC: {subnetC}},
		},
	}
}

func (l *lab) open(change ...func(*Options)) *Provider {
	l.t.Helper()
	o := l.options()
	for _, c := range change {
		c(&o)
	}
	p, err := Open(o)
	require.NoError(l.t, err)
	return p
}

func (l *lab) fault(f ec2sim.Fault) {
	l.t.Helper()
	_, err := l.AddFault(f)
	require.NoError(l.t, err)
}

func offering(typ, zone string, m cloud.Market) cloud.Offering {
	return cloud.Offering{Type: typ, Zone: zone, Market: m}
}
