package testcluster_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/testcluster"
)

func TestClusterRunsAJobAndLeavesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("real Slurm is left out of short runs")
	}
	if os.Geteuid() != 0 {
		t.Skip("a private cluster needs root")
	}
	if os.Getenv("MIDAIR_PROGRAMS") == "" {
		t.Skip("MIDAIR_PROGRAMS names no folder with built programs: use make test")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	c, err := testcluster.Start(ctx, testcluster.Options{Programs: os.Getenv("MIDAIR_PROGRAMS"), Root: os.Getenv("MIDAIR_SLURM_ROOT"), Verbose: os.Stderr})
	require.NoError(t, err)
	defer c.Stop()
	out, err := c.RunAs(ctx, "alice", "srun", "-N2", "--qos=p0", "/bin/sh", "-c", "id -un")
	require.NoError(t, err, c.Logs(30))
	require.Equal(t, "alice\nalice\n", out)
	c.Stop()
	require.NoFileExists(t, c.Path("/etc/passwd"))
	mounts, err := os.ReadFile("/proc/self/mounts")
	require.NoError(t, err)
	require.False(t, strings.Contains(string(mounts), "overlay /etc"))
}
