package slurmconf_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/config"
	"github.com/midair-hpc/midair/internal/slurmconf"
)

var update = flag.Bool("update", false, "write the golden files anew")

func site(t *testing.T) *config.Config {
	t.Helper()
	c, err := config.Load("testdata/site.yaml")
	require.NoError(t, err)
	c.Path = "/etc/midair/midair.yaml"
	return c
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	file = filepath.Join("testdata", file)
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

func TestFragmentOfSlurmConf(t *testing.T) {
	golden(t, "midair.conf", slurmconf.SlurmConf(site(t), ""))
}

func TestGresConf(t *testing.T) {
	golden(t, "gres.conf", slurmconf.GresConf(site(t)))
}

func TestTierTable(t *testing.T) {
	golden(t, "midair_tiers.lua", slurmconf.TierTable(site(t)))
}

func TestTheHooksMayLieElsewhere(t *testing.T) {
	text := slurmconf.SlurmConf(site(t), "/opt/midair/bin/")
	for _, line := range []string{"ResumeProgram=/opt/midair/bin/midair-resume\n", "SuspendProgram=/opt/midair/bin/midair-suspend\n",
		"ResumeFailProgram=/opt/midair/bin/midair-slurmctld-hook\n", "PrologSlurmctld=/opt/midair/bin/midair-slurmctld-hook\n",
		"EpilogSlurmctld=/opt/midair/bin/midair-slurmctld-hook\n"} {
		require.Contains(t, text, "\n"+line)
	}
}

func TestRealGPUsAreInDev(t *testing.T) {
	c := &config.Config{
		Providers: []config.Provider{{Name: "east", Kind: "aws"}},
		Pools: []config.Pool{{Name: "p4", Nodes: "p4-[1-4]", Provider: "east",
			Node: config.NodeSpec{Gres: []config.Gres{{Name: "gpu", Type: "a100", Count: 8}}}}},
	}
	require.Contains(t, slurmconf.GresConf(c), "\nNodeName=p4-[1-4] Name=gpu Type=a100 File=/dev/nvidia[0-7]\n")
}

func TestBlanksInAHostlistDoNotCutTheLine(t *testing.T) {
	text := slurmconf.SlurmConf(&config.Config{Pools: []config.Pool{{Name: "p", Nodes: " a-[1-2,4],\tb-1 "}}}, "")
	require.Contains(t, text, "\nNodeName=a-[1-2,4],b-1 CPUs=")
}

func TestTimeoutsAreTheLongestOfThePoolsAndRoundedUp(t *testing.T) {
	c := &config.Config{Pools: []config.Pool{
		{Name: "a", ResumeTimeout: 10 * time.Second, SuspendTimeout: 7 * time.Second},
		{Name: "b", ResumeTimeout: 5 * time.Second, SuspendTimeout: 7*time.Second + time.Millisecond},
	}}
	text := slurmconf.SlurmConf(c, "")
	require.Contains(t, text, "\nResumeTimeout=10\nSuspendTimeout=8\n")
	text = slurmconf.SlurmConf(&config.Config{}, "")
	require.Contains(t, text, "\nResumeTimeout=60\nSuspendTimeout=30\n")
	require.NotContains(t, text, "PartitionName")
}

func TestATierTableCannotBeBrokenByAName(t *testing.T) {
	c := &config.Config{Cluster: "a\"]\\\n\x00z", Pools: []config.Pool{{Name: "ü", Offerings: []cloud.Offering{}}}}
	text := slurmconf.TierTable(c)
	require.Contains(t, text, `cluster = "a\"]\\\010\000z",`)
	require.Contains(t, text, `["\195\188"] = true`)
}
