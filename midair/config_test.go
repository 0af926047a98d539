package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/urfave/cli/v2"
)

const midairYAML = `cluster: lab
providers:
  here: {kind: local, types: {t: {cpus: 1, memory: 1G, prices: {spot: 1 USD}}}}
pools:
  - {name: p, nodes: "n-[1-3]", provider: here, node: {cpus: 1, memory: 1G}, offerings: [{types: [t], zones: [z], markets: [spot]}]}
tiers:
  - {name: p0, qos: [p0], partitions: [onprem]}
  - {name: p2, qos: [p2], partitions: [p]}
`

// runCommand runs midair with the commands under test only, and gives what it
// prints and its exit status.
func runCommand(t *testing.T, yaml string, args ...string) (out, errs, file string, err error) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "midair.yaml")
	require.NoError(t, os.WriteFile(file, []byte(yaml), 0o644))
	var stdout, stderr bytes.Buffer
	a := &cli.App{
		Name:           "midair",
		Flags:          []cli.Flag{&cli.StringFlag{Name: "config", Aliases: []string{"f"}}},
		Commands:       []*cli.Command{configCommand(), slurmconfCommand()},
		Writer:         &stdout,
		ErrWriter:      &stderr,
		ExitErrHandler: func(*cli.Context, error) {},
	}
	err = a.Run(append([]string{"midair", "-f", file}, args...))
	return stdout.String(), stderr.String(), file, err
}

func TestConfigCheckSumsUpAGoodFile(t *testing.T) {
	out, errs, file, err := runCommand(t, midairYAML, "config", "check")
	require.NoError(t, err)
	require.Empty(t, errs)
	require.Equal(t, file+": ok: cluster lab, 1 provider, 1 pool with 3 nodes, 2 tiers\n", out)
}

func TestConfigCheckTakesAFile(t *testing.T) {
	other := filepath.Join(t.TempDir(), "other.yaml")
	require.NoError(t, os.WriteFile(other, []byte("cluster: two\n"), 0o644))
	out, errs, _, err := runCommand(t, "garbage", "config", "check", other)
	require.NoError(t, err)
	require.Equal(t, "warning: "+other+": there are no pools: midair will buy nothing\n", errs)
	require.Equal(t, other+": ok: cluster two, 0 providers, 0 pools with 0 nodes, 0 tiers\n", out)
	_, _, _, err = runCommand(t, midairYAML, "config", "check", other, other)
	require.ErrorContains(t, err, "at most one FILE")
	_, _, _, err = runCommand(t, midairYAML, "config", "check", other+".not")
	require.ErrorContains(t, err, other+".not")
}

func TestConfigCheckPrintsEveryErrorAndExits1(t *testing.T) {
	out, errs, file, err := runCommand(t, "clutser: lab\npools: 3\n", "config", "check")
	var exit cli.ExitCoder
	require.ErrorAs(t, err, &exit)
	require.Equal(t, 1, exit.ExitCode())
	require.Empty(t, out)
	require.Equal(t, file+`:1:1: clutser: unknown key; did you mean "cluster"? allowed: cluster, ledger, hook_log, slurm, hooks, providers, pools, tiers, retry, capacity_memory, reconcile
`+file+`:1:1: cluster is missing: Slurm's ClusterName
`+file+`:2:8: pools: want a list, such as [a, b], got "3"
`, errs)
}

func TestSlurmconfPrintsAllOrOne(t *testing.T) {
	all, _, _, err := runCommand(t, midairYAML, "slurmconf")
	require.NoError(t, err)
	heads := map[string]string{
		"slurm-conf": "# ==== midair.conf (midair slurmconf --slurm-conf) ====\n",
		"gres-conf":  "# ==== gres.conf (midair slurmconf --gres-conf) ====\n",
		"tiers":      "# ==== midair_tiers.lua (midair slurmconf --tiers) ====\n",
	}
	for flag, start := range map[string]string{"slurm-conf": "# midair: cloud nodes of cluster lab", "gres-conf": "# midair: the Gres", "tiers": "-- midair: the tiers"} {
		one, _, _, err := runCommand(t, midairYAML, "slurmconf", "--"+flag)
		require.NoError(t, err)
		require.Equal(t, start, one[:len(start)])
		require.Contains(t, all, heads[flag]+start)
	}
	_, _, _, err = runCommand(t, midairYAML, "slurmconf", "--tiers", "--gres-conf")
	require.ErrorContains(t, err, "give one of them")
}

func TestSlurmconfRefusesWhatSlurmctldCouldNotRun(t *testing.T) {
	out, _, _, err := runCommand(t, midairYAML, "slurmconf", "--slurm-conf", "--hooks-dir", "/opt/midair")
	require.NoError(t, err)
	require.Contains(t, out, "\nResumeProgram=/opt/midair/midair-resume\n")
	_, _, _, err = runCommand(t, midairYAML, "slurmconf", "--hooks-dir", "build")
	require.ErrorContains(t, err, "absolute path")
	_, _, _, err = runCommand(t, "cluster: [", "slurmconf")
	require.ErrorContains(t, err, "not valid YAML")
}

func TestSlurmconfWritesAFileWhole(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "midair_tiers.lua")
	require.NoError(t, os.WriteFile(file, []byte("old"), 0o600))
	out, _, _, err := runCommand(t, midairYAML, "slurmconf", "--tiers", "-o", file)
	require.NoError(t, err)
	require.Empty(t, out)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Contains(t, string(text), `["p2"] = { tier = "p2", partitions = "p", cloud = { ["p"] = true } },`)
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o644), info.Mode())
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1, "a temporary file is left")
	_, _, _, err = runCommand(t, midairYAML, "slurmconf", "-o", file)
	require.ErrorContains(t, err, "takes one file")
	_, _, _, err = runCommand(t, midairYAML, "slurmconf", "--tiers", "-o", filepath.Join(dir, "none", "x"))
	require.ErrorContains(t, err, "write "+filepath.Join(dir, "none", "x"))
}
