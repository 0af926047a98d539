package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/urfave/cli/v2"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/cloud/local"
)

// runLocal runs midair local with a local cloud of its own, or of the root
// given.
func runLocal(t *testing.T, root string, args ...string) (string, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "midair.yaml")
	yaml := strings.Replace(midairYAML, "{kind: local,", "{kind: local, root: "+root+", slurmd: /bin/true,", 1)
	require.NoError(t, os.WriteFile(file, []byte(yaml), 0o644))
	return runLocalWith(t, file, args...)
}

func runLocalWith(t *testing.T, file string, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	a := &cli.App{
		Name: "midair", Flags: []cli.Flag{&cli.StringFlag{Name: "config", Aliases: []string{"f"}}},
		Commands: []*cli.Command{localCommand()}, Writer: &out, ErrWriter: &out, ExitErrHandler: func(*cli.Context, error) {},
	}
	err := a.Run(append([]string{"midair", "-f", file, "local"}, args...))
	return out.String(), err
}

func TestLocalFaultSetAddsAndClearTakesAway(t *testing.T) {
	root := filepath.Join(t.TempDir(), "cloud")
	do := func(args ...string) string {
		t.Helper()
		out, err := runLocal(t, root, append([]string{"fault"}, args...)...)
		require.NoError(t, err)
		return out
	}
	require.Equal(t, "no faults\n", do("ls"))
	do("set", "--out-of-stock", "t/z/spot", "--out-of-stock", "u/z/spot", "--stock", "t/z/on-demand=2", "--no-register", "n-1", "--vanish", "n-2=30s", "--vanish", "n-3")
	do("set", "--quota", "5", "--cpu-quota", "64", "--spec-mismatch", "t/z/spot", "--boot-delay", "t/z/spot=90s", "--slow-delete", "3m", "--list-lag", "5s",
		"--create-delay", "1s", "--lose-answer", "1", "--unknown", "2", "--throttle", "3", "--hang", "--no-register", "n-1")
	f, err := local.ReadFaults(root)
	require.NoError(t, err)
	// Showing what is set is not a call to the cloud, so nothing is counted.
	require.Equal(t, local.Faults{
		Stock: map[string]int{"t/z/spot": 0, "u/z/spot": 0, "t/z/on-demand": 2}, MaxInstances: 5, MaxCPUs: 64,
		SpecMismatch: []string{"t/z/spot"}, NoRegister: []string{"n-1"},
		Vanish:    map[string]local.Duration{"n-2": local.Duration(30 * time.Second), "n-3": 0},
		BootDelay: map[string]local.Duration{"t/z/spot": local.Duration(90 * time.Second)}, SlowDelete: local.Duration(3 * time.Minute),
		ListLag: local.Duration(5 * time.Second), CreateDelay: local.Duration(time.Second), LoseAnswer: 1, Unknown: 2, Throttle: 3, Hang: true,
	}, f)
	out := do("ls")
	require.Contains(t, out, "stock         t/z/on-demand = 2\n")
	require.Contains(t, out, "vanish        n-3 = 0s\n")
	require.Contains(t, out, "no_register   n-1\n")
	require.Contains(t, out, "slow_delete   3m0s\n")
	require.NotContains(t, out, "unauthorized")

	do("clear", "stock", "hang")
	out = do("ls", "--json")
	require.NotContains(t, out, "stock")
	require.NotContains(t, out, "hang")
	require.Contains(t, out, `"quota": 5`)
	do("clear")
	require.Equal(t, "no faults\n", do("ls"))
}

func TestLocalFaultSetNamesWhatIsWrong(t *testing.T) {
	root := filepath.Join(t.TempDir(), "cloud")
	for want, args := range map[string][]string{
		"say which fault":             {},
		`"t/z/spot" is no option`:     {"t/z/spot"},
		"want OFFERING=N":             {"--stock", "t/z/spot"},
		"want type/zone/market":       {"--out-of-stock", "t"},
		"want OFFERING=DURATION":      {"--boot-delay", "t/z/spot=3"},
		"want NODE or NODE=DURATION":  {"--vanish", "n-1=soon"},
		"quota is negative":           {"--quota", "-1"},
		`market "spots" is none of`:   {"--spec-mismatch", "t/z/spots"},
		"boot_delay of t/z/spot: -1s": {"--boot-delay", "t/z/spot=-1s"},
	} {
		_, err := runLocal(t, root, append([]string{"fault", "set"}, args...)...)
		require.ErrorContains(t, err, want)
	}
	_, err := runLocal(t, root, "fault", "clear", "weather")
	require.ErrorContains(t, err, `no fault "weather"`)
	f, err := local.ReadFaults(root)
	require.NoError(t, err)
	require.Equal(t, local.Faults{}, f)
}

func TestLocalFaultClearMendsABadFile(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(root, "faults.json"), []byte("{"), 0o644))
	_, err := runLocal(t, root, "fault", "ls")
	require.ErrorContains(t, err, "midair local fault clear")
	_, err = runLocal(t, root, "fault", "clear")
	require.NoError(t, err)
	_, err = runLocal(t, root, "fault", "ls")
	require.NoError(t, err)
}

func TestLocalListOfAnEmptyCloud(t *testing.T) {
	root := filepath.Join(t.TempDir(), "cloud")
	out, err := runLocal(t, root, "ls", "--json")
	require.NoError(t, err)
	require.Equal(t, "[]\n", out)
	out, err = runLocal(t, root, "ls")
	require.NoError(t, err)
	require.Equal(t, "INSTANCE  NODE  GEN  STATE  OFFERING  ADDRESS  AGE  ENDED", strings.TrimSpace(out))
	_, err = runLocal(t, root, "console", "n-1")
	require.ErrorContains(t, err, `no instance or node "n-1"`)
	_, err = runLocal(t, root, "console")
	require.ErrorContains(t, err, "want one instance id or node name")
}

func TestLocalTable(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	list := []cloud.Instance{
		{ID: "i-1", Node: "n-1", Generation: 1, Offering: cloud.Offering{Type: "t", Zone: "z", Market: cloud.Spot}, Addr: "10.213.0.2", State: cloud.Running, CreatedAt: now.Add(-90 * time.Second)},
		{ID: "i-2", Node: "n-22", Generation: 3, Offering: cloud.Offering{Type: "t", Zone: "z", Market: cloud.OnDemand}, Addr: "10.213.0.3", State: cloud.Terminated, CreatedAt: now.Add(-time.Hour), EndedAt: now.Add(-time.Minute), StateCause: "vanished"},
	}
	var out bytes.Buffer
	localTable(&out, list, now)
	require.Equal(t, strings.Join([]string{
		"INSTANCE  NODE  GEN  STATE       OFFERING       ADDRESS     AGE     ENDED",
		"i-1       n-1     1  running     t/z/spot       10.213.0.2  1m30s",
		"i-2       n-22    3  terminated  t/z/on-demand  10.213.0.3  1h0m0s  1m0s ago, vanished",
	}, "\n"), trimLines(out.String()))
}

func trimLines(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	for i, l := range lines {
		lines[i] = strings.TrimRight(l, " ")
	}
	return strings.Join(lines, "\n")
}

func TestLocalDestroyAsksFirst(t *testing.T) {
	root := filepath.Join(t.TempDir(), "cloud")
	_, err := runLocal(t, root, "fault", "set", "--throttle", "1")
	require.NoError(t, err)
	_, err = runLocal(t, root, "destroy")
	require.ErrorContains(t, err, "say --yes to do it")
	require.FileExists(t, filepath.Join(root, "faults.json"))
	if os.Geteuid() != 0 {
		t.Skip("removing the bridge needs root")
	}
	out, err := runLocal(t, root, "destroy", "--yes")
	require.NoError(t, err)
	require.Equal(t, "ended 0 instances\n", out)
	require.NoDirExists(t, root)
}

func TestLocalNeedsALocalProvider(t *testing.T) {
	file := filepath.Join(t.TempDir(), "midair.yaml")
	require.NoError(t, os.WriteFile(file, []byte("cluster: lab\n"), 0o644))
	_, err := runLocalWith(t, file, "ls")
	require.ErrorContains(t, err, "no provider in "+file+" is of kind local")
	two := strings.Replace(midairYAML, "pools:", "  there: {kind: local, types: {t: {cpus: 1, memory: 1G, prices: {spot: 1 USD}}}}\npools:", 1)
	require.NoError(t, os.WriteFile(file, []byte(two), 0o644))
	_, err = runLocalWith(t, file, "ls")
	require.ErrorContains(t, err, "midair local --provider here")
	_, err = runLocalWith(t, file, "--provider", "moon", "ls")
	require.ErrorContains(t, err, `provider "moon" of kind local is not in`)
}
