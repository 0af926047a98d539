package config_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/config"
)

func TestEveryKeyOfTheFileArrives(t *testing.T) {
	c, err := config.Load("testdata/sample.yaml")
	require.NoError(t, err)
	require.Empty(t, c.Warnings)
	require.Equal(t, "testdata/sample.yaml", c.Path)
	require.Equal(t, "gpu1", c.Cluster)
	require.Equal(t, "/srv/midair/ledger.db", c.Ledger)
	require.Equal(t, "/srv/midair/hook.log", c.HookLog)
	require.Equal(t, config.Slurm{BinDir: "/opt/slurm/bin", Conf: "/opt/slurm/etc/slurm.conf"}, c.Slurm)
	require.Equal(t, config.Hooks{PrologSlurmctld: "/etc/slurm/prolog.sh", EpilogSlurmctld: "/etc/slurm/epilog.sh", WaitLimit: 45 * time.Minute}, c.Hooks)
	require.Equal(t, []config.Provider{{Name: "lab", Kind: "local", Local: config.Local{
		Root: "/srv/midair/local", Network: "10.99.0.0/23", BootDelay: 500 * time.Millisecond, Slurmd: "/opt/slurm/sbin/slurmd",
		Types: []config.LocalType{
			{Name: "g1.small", CPUs: 4, MemoryMiB: 8192, GPUs: 1, Prices: map[cloud.Market]cloud.MicroUSD{cloud.OnDemand: 1_200_000, cloud.Spot: 400_000}},
			{Name: "g1.large", CPUs: 16, MemoryMiB: 65536, GPUs: 4, Prices: map[cloud.Market]cloud.MicroUSD{cloud.OnDemand: 4_800_001, cloud.Spot: 1_600_000, cloud.Reserved: 3_000_000}},
		},
	}}}, c.Providers)
	require.Len(t, c.Pools, 2)
	p := c.Pools[0]
	require.Equal(t, "a100-spot-[001-064]", p.Nodes)
	require.Len(t, p.NodeNames, 64)
	require.Equal(t, config.NodeSpec{CPUs: 4, MemoryMiB: 7900, Features: []string{"a100", "spot"},
		Gres: []config.Gres{{Name: "gpu", Type: "a100", Count: 1}, {Name: "nvme", Count: 2}}}, p.Node)
	require.Equal(t, 50, p.Weight)
	require.Equal(t, []time.Duration{5 * time.Minute, time.Hour, 90 * time.Second}, []time.Duration{p.SuspendTime, p.ResumeTimeout, p.SuspendTimeout})
	require.Equal(t, []config.Tier{
		{Name: "p0", QOS: []string{"p0"}, Partitions: []string{"onprem"}, WhenOutOfStock: config.Fallback, DeadlineMargin: 15 * time.Minute},
		{Name: "p1", QOS: []string{"p1", "urgent"}, Partitions: []string{"onprem", "a100-od"}, WhenOutOfStock: config.Fallback, DeadlineMargin: 15 * time.Minute},
		{Name: "p2", QOS: []string{"p2"}, Partitions: []string{"onprem", "a100-spot"}, WhenOutOfStock: config.Fallback, DeadlineMargin: 15 * time.Minute},
	}, c.Tiers)
	require.Equal(t, config.Retry{First: 2 * time.Second, Max: 5 * time.Minute, Rounds: 3}, c.Retry)
	require.Equal(t, config.Memory{First: 90 * time.Second, Max: time.Hour, InitFailures: 3}, c.Memory)
	require.Equal(t, config.Reconcile{Every: time.Minute, Grace: 24 * time.Hour, MaxTerminations: 5}, c.Reconcile)
}

func TestEveryKeyAboutAWSArrives(t *testing.T) {
	c, err := config.Load("testdata/aws.yaml")
	require.NoError(t, err)
	require.Empty(t, c.Warnings)
	require.Equal(t, []config.Provider{
		{Name: "east", Kind: "aws", AWS: config.AWS{
			Region: "us-east-1", Endpoint: "https://api.example.com", Profile: "midair", CredentialsFile: "/etc/midair/aws-credentials",
			LaunchTemplate: "midair-gpu:$Latest",
			Subnets: map[string][]string{
				"us-east-1a":       {"subnet-0a1b2c3d4e5f6000a"},
				"us-east-1b":       {"subnet-0a1b2c3d4e5f6000b", "subnet-0a1b2c3d"},
				"us-east-1-bos-1a": {"subnet-0a1b2c3d4e5f6000d"},
			},
			SpotAllocation: "capacity-optimized",
			PriceFile:      "/etc/midair/prices.json",
			Reservations: []config.Reservation{
				{ID: "cr-0a1b2c3d4e5f60001", Type: "p5.48xlarge", Zone: "us-east-1a"},
				{ID: "cr-0a1b2c3d4e5f60002", Type: "p5.48xlarge", Zone: "us-east-1b", Block: true},
			},
		}},
		{Name: "north", Kind: "aws", AWS: config.AWS{Region: "eu-north-1", SpotAllocation: "price-capacity-optimized"}},
	}, c.Providers)
	p := c.Pools[0]
	require.Equal(t, config.PlaceGroup, p.Placement)
	require.Equal(t, map[string]float64{"us-east-1a": 0.8}, p.Locality)
	require.Equal(t, map[string]float64{"p5e.48xlarge": 0.95, "p5.48xlarge": 1}, p.Interconnect)
	require.Equal(t, config.PoolAWS{LaunchTemplate: "lt-0a1b2c3d4e5f60001:3"}, p.AWS)
	require.Equal(t, config.PlaceAny, c.Pools[1].Placement)
	require.Equal(t, []config.Tier{
		{Name: "p0", QOS: []string{"p0"}, Partitions: []string{"onprem"}, WhenOutOfStock: config.Fallback, DeadlineMargin: 15 * time.Minute},
		{Name: "p1", QOS: []string{"p1"}, Partitions: []string{"onprem", "p5"}, Markets: []cloud.Market{cloud.Reserved, cloud.OnDemand},
			WhenOutOfStock: config.Pause, DeadlineMargin: 15 * time.Minute},
		{Name: "p2", QOS: []string{"p2"}, Partitions: []string{"onprem", "p5", "l40s"}, Markets: []cloud.Market{cloud.Spot, cloud.OnDemand},
			WhenOutOfStock: config.Fallback, FallbackAfter: 15 * time.Minute, DeadlineMargin: 15 * time.Minute},
		{Name: "p3", QOS: []string{"p3"}, Partitions: []string{"p5"}, Markets: []cloud.Market{cloud.Spot, cloud.OnDemand},
			WhenOutOfStock: config.Deadline, DeadlineMargin: 30 * time.Minute},
	}, c.Tiers)
	require.Equal(t, 5, c.Memory.InitFailures)
}

func TestASecretInTheFileIsRefusedAndNotShown(t *testing.T) {
	for _, text := range []string{
		"aws_secret_access_key: wJalrXUtnFEMI", "secret: wJalrXUtnFEMI", "AWS-Session-Token: wJalrXUtnFEMI", "SecretAccessKey: wJalrXUtnFEMI",
		"endpoint: https://AKIAIOSFODNN7EXAMPLE:wJalrXUtnFEMI@host", "profile: AKIAIOSFODNN7EXAMPLE",
	} {
		_, err := config.Parse("x.yaml", []byte("cluster: lab\nproviders: {east: {kind: aws, region: us-east-1, "+text+"}}\n"))
		require.ErrorContains(t, err, "credentials", text)
		require.NotContains(t, err.Error(), "wJalr", text)
		require.NotContains(t, err.Error(), "AKIA", text)
	}
}

func TestOfferingsExpandMarketThenZoneThenType(t *testing.T) {
	c, err := config.Load("testdata/sample.yaml")
	require.NoError(t, err)
	keys := make([]string, len(c.Pools[0].Offerings))
	for i, o := range c.Pools[0].Offerings {
		keys[i] = o.Key()
	}
	require.Equal(t, []string{
		"g1.small/zone-a/spot", "g1.large/zone-a/spot", "g1.small/zone-b/spot", "g1.large/zone-b/spot",
		"g1.small/zone-a/on-demand", "g1.large/zone-a/on-demand", "g1.small/zone-b/on-demand", "g1.large/zone-b/on-demand",
		"g1.large/zone-a/reserved",
	}, keys)
}

const minimal = `cluster: lab
providers:
  here: {kind: local, types: {t: {cpus: 1, memory: 1G, prices: {spot: 1 USD}}}}
pools:
  - {name: p, nodes: "n-[1-3]", provider: here, node: {cpus: 1, memory: 1G}, offerings: [{types: [t], zones: [z], markets: [spot]}]}
tiers:
  - {name: p2, qos: [p2], partitions: [p]}
`

func TestDefaultsAreFilledIn(t *testing.T) {
	c, err := config.Parse("x.yaml", []byte(minimal))
	require.NoError(t, err)
	require.Empty(t, c.Warnings)
	require.Equal(t, "/var/lib/midair/ledger.db", c.Ledger)
	require.Equal(t, "/var/log/midair/hook.log", c.HookLog)
	require.Equal(t, config.Slurm{}, c.Slurm)
	require.Equal(t, config.Hooks{WaitLimit: 30 * time.Minute}, c.Hooks)
	l := c.Providers[0].Local
	l.Types = nil
	require.Equal(t, config.Local{Root: "/var/lib/midair/local", Network: "10.213.0.0/22", BootDelay: 2 * time.Second, Slurmd: "/usr/sbin/slurmd"}, l)
	p := c.Pools[0]
	require.Equal(t, 100, p.Weight)
	require.Equal(t, config.PlaceZone, p.Placement)
	require.Nil(t, p.Locality)
	require.Nil(t, p.Interconnect)
	require.Equal(t, []config.Tier{{Name: "p2", QOS: []string{"p2"}, Partitions: []string{"p"}, WhenOutOfStock: config.Fallback, DeadlineMargin: 15 * time.Minute}}, c.Tiers)
	require.Equal(t, []time.Duration{10 * time.Minute, 10 * time.Minute, 2 * time.Minute}, []time.Duration{p.SuspendTime, p.ResumeTimeout, p.SuspendTimeout})
	require.Equal(t, config.Retry{First: time.Second, Max: 10 * time.Minute, Rounds: 5}, c.Retry)
	require.Equal(t, config.Memory{First: time.Minute, Max: 30 * time.Minute, InitFailures: 3}, c.Memory)
	require.Equal(t, config.Reconcile{Every: 30 * time.Second, Grace: 2 * time.Minute, MaxTerminations: 10}, c.Reconcile)
}

func TestPoolsAndTiersAreFoundByNodeAndQOS(t *testing.T) {
	parsed, err := config.Load("testdata/sample.yaml")
	require.NoError(t, err)
	byHand := &config.Config{Pools: parsed.Pools, Tiers: parsed.Tiers}
	for _, c := range []*config.Config{parsed, byHand} {
		p, ok := c.PoolOf("a100-od-x")
		require.True(t, ok)
		require.Same(t, &c.Pools[1], p)
		_, ok = c.PoolOf("onprem-1")
		require.False(t, ok)
		for _, qos := range []string{"urgent", "P1"} {
			tier, ok := c.TierOf(qos)
			require.True(t, ok, qos)
			require.Same(t, &c.Tiers[1], tier)
		}
		_, ok = c.TierOf("normal")
		require.False(t, ok)
	}
	p, ok := parsed.PoolNamed("a100-spot")
	require.True(t, ok)
	require.Same(t, &parsed.Pools[0], p)
	_, ok = parsed.PoolNamed("onprem")
	require.False(t, ok)
	provider, ok := parsed.ProviderNamed("lab")
	require.True(t, ok)
	require.Same(t, &parsed.Providers[0], provider)
	_, ok = parsed.ProviderNamed("east")
	require.False(t, ok)
}

func TestAliasesMayStandForWholeValues(t *testing.T) {
	text := strings.Replace(minimal, "node: {cpus: 1, memory: 1G}", "node: &n {cpus: 1, memory: 1G}", 1)
	text = strings.Replace(text, "tiers:", `  - {name: q, nodes: m-1, provider: here, node: *n, offerings: [{types: [t], zones: [z], markets: [spot]}]}
tiers:`, 1)
	c, err := config.Parse("x.yaml", []byte(text))
	require.NoError(t, err)
	require.Equal(t, c.Pools[0].Node, c.Pools[1].Node)
}

func TestPathPrefersTheEnvironment(t *testing.T) {
	t.Setenv(config.EnvPath, "")
	require.Equal(t, "/etc/midair/midair.yaml", config.Path())
	t.Setenv(config.EnvPath, "/srv/midair.yaml")
	require.Equal(t, "/srv/midair.yaml", config.Path())
}

func TestAMissingFileIsNamed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "midair.yaml")
	_, err := config.Load(file)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, file)
	_, err = config.Load(t.TempDir())
	require.ErrorContains(t, err, "read configuration")
}

func TestABadHostlistIsReportedAtItsPool(t *testing.T) {
	_, err := config.Parse("x.yaml", []byte(strings.Replace(minimal, "n-[1-3]", "n-[3", 1)))
	require.ErrorContains(t, err, "x.yaml:5:22: pools[0].nodes: ")
	require.ErrorContains(t, err, `"n-[3"`)
	require.NotContains(t, err.Error(), "\n")
}

func large(nodes int) string {
	return strings.Replace(minimal, "n-[1-3]", fmt.Sprintf("n-[1-%d]", nodes), 1)
}

func TestTenThousandNodesWarnAboutTooSmallANetworkOnly(t *testing.T) {
	c, err := config.Parse("x.yaml", []byte(large(10_000)))
	require.NoError(t, err)
	require.Len(t, c.Warnings, 1)
	require.Contains(t, c.Warnings[0], "addresses for 1021 instances in 10.213.0.0/22, but its pools have 10000 nodes")
}

func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/*.yaml")
	require.NoError(f, err)
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(f, err)
		f.Add(data)
	}
	f.Add([]byte("a: &a [*a]"))
	f.Add([]byte("pools: &a [{node: *a, offerings: *a, nodes: 'n-[1-99999999]'}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := config.Parse("midair.yaml", data)
		if err != nil {
			require.Nil(t, c)
			problems := err.(config.Problems)
			require.NotEmpty(t, problems)
			for _, p := range problems {
				require.NotEmpty(t, p.Message)
			}
			return
		}
		require.NotEmpty(t, c.Cluster)
		for i := range c.Pools {
			require.NotEmpty(t, c.Pools[i].Offerings)
			for _, n := range c.Pools[i].NodeNames {
				p, ok := c.PoolOf(n)
				require.True(t, ok)
				require.Same(t, &c.Pools[i], p)
			}
		}
		for i := range c.Tiers {
			for _, q := range c.Tiers[i].QOS {
				tier, ok := c.TierOf(q)
				require.True(t, ok)
				require.Same(t, &c.Tiers[i], tier)
			}
		}
	})
}

func BenchmarkParseTenThousandNodes(b *testing.B) {
	data := []byte(large(10_000))
	for b.Loop() {
		if _, err := config.Parse("x.yaml", data); err != nil {
			b.Fatal(err)
		}
	}
}
