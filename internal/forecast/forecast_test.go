package forecast

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/config"
	"github.com/midair-hpc/midair/internal/ledger"
	"github.com/midair-hpc/midair/internal/planner"
)

var update = flag.Bool("update", false, "write the golden files")

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const site = `cluster: lab
providers:
  lab:
    kind: local
    types:
      p4d: {cpus: 96, memory: 1100G, gpus: 8, prices: {on-demand: 21.96 USD, spot: 9.12 USD}}
      p4de: {cpus: 96, memory: 1100G, gpus: 8, prices: {on-demand: 27.45 USD, spot: 8.40 USD}}
pools:
  - name: a100-od
    nodes: a100-od-[1-8]
    provider: lab
    node: {cpus: 96, memory: 1000G, gres: "gpu:a100:8"}
    offerings: [{types: [p4d], zones: [za, zb], markets: [on-demand]}]
  - name: a100-spot
    nodes: a100-spot-[01-64]
    provider: lab
    node: {cpus: 96, memory: 1000G, gres: "gpu:a100:8"}
    offerings: [{types: [p4d, p4de], zones: [za, zb], markets: [spot, on-demand]}]
    locality: {zb: 0.8}
tiers:
  - {name: p0, qos: [p0], partitions: [onprem]}
  - {name: p1, qos: [p1], partitions: [onprem, a100-od]}
  - {name: p2, qos: [p2], partitions: [onprem, a100-spot], when_out_of_stock: fallback, fallback_after: 15m}
  - {name: p3, qos: [p3], partitions: [a100-spot], when_out_of_stock: pause}
  - {name: p4, qos: [p4], partitions: [a100-spot], when_out_of_stock: deadline, deadline_margin: 30m}
`

func input(t testing.TB, out ...string) Input {
	t.Helper()
	cfg, err := config.Parse("midair.yaml", []byte(site))
	require.NoError(t, err)
	in := Input{Config: cfg, Now: noon, Prices: map[planner.Key]cloud.MicroUSD{}}
	for _, p := range cfg.Pools {
		for _, o := range p.Offerings {
			for _, lt := range cfg.Providers[0].Local.Types {
				if lt.Name == o.Type {
					in.Prices[planner.Key{Provider: "lab", Offering: o}] = lt.Prices[o.Market]
				}
			}
		}
	}
	for _, key := range out {
		o, err := cloud.ParseOffering(key)
		require.NoError(t, err)
		in.Memory = append(in.Memory, ledger.MemoryEntry{Provider: "lab", Offering: o, Class: cloud.OutOfStock, Message: "no capacity", Nodes: 1, Failures: 1, Since: noon, Until: noon.Add(30 * time.Minute)})
	}
	return in
}

var allSpot = []string{"p4d/za/spot", "p4d/zb/spot", "p4de/za/spot", "p4de/zb/spot"}

func TestWhatPeopleSeeOfAPlan(t *testing.T) {
	for name, c := range map[string]struct {
		out    []string
		job    Options
		served bool
	}{
		"home":            {nil, Options{"qos": "p0", "nodes": "2"}, true},
		"one-pool":        {nil, Options{"qos": "p1", "nodes": "3", "time": "2-00:00:00", "gres": "gpu:8"}, true},
		"cheapest-first":  {nil, Options{"qos": "p2", "nodes": "4", "time": "90"}, true},
		"one-out":         {[]string{"p4de/zb/spot"}, Options{"qos": "p2"}, true},
		"waits":           {allSpot, Options{"qos": "p2", "nodes": "2"}, false},
		"paused":          {allSpot, Options{"qos": "p3", "nodes": "2"}, false},
		"deadline-far":    {allSpot, Options{"qos": "p4", "deadline": "now+12hours", "time": "1:00:00"}, false},
		"deadline-near":   {allSpot, Options{"qos": "p4", "deadline": "now+2hours", "time": "1:00:00"}, true},
		"too-many":        {nil, Options{"qos": "p1", "nodes": "9"}, false},
		"too-many-gpus":   {nil, Options{"qos": "p1", "gpus-per-node": "16"}, false},
		"on-the-premises": {nil, Options{"qos": "p1", "partition": "onprem"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			j, err := c.job.Job(noon)
			require.NoError(t, err)
			f, err := Make(input(t, c.out...), j)
			require.NoError(t, err)
			require.Equal(t, c.served, f.Served())
			var b bytes.Buffer
			require.NoError(t, f.Write(&b, noon))
			path := filepath.Join("testdata", name+".golden")
			if *update {
				require.NoError(t, os.WriteFile(path, b.Bytes(), 0o644))
			}
			want, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, string(want), b.String())
		})
	}
}

func TestPlanForWhatCannotBeSaysWhy(t *testing.T) {
	_, err := Make(input(t), Job{Nodes: 1, QOS: "gold"})
	require.ErrorContains(t, err, `QOS "gold" is in no tier of midair.yaml; there are p0 (tier p0); p1 (tier p1)`)
	_, err = Make(input(t), Job{Nodes: 1, QOS: "p1", Partition: "a100-spot"})
	require.ErrorContains(t, err, `tier p1 does not run in partition "a100-spot"; it runs in onprem, a100-od`)
}

func TestScriptsOptionsAreSbatchs(t *testing.T) {
	for script, want := range map[string]Options{
		"#!/bin/sh\n#SBATCH -N4 -q p2\n#SBATCH --time=1:00:00 # an hour\n\n# text\n#SBATCH --gres=gpu:8\nsrun x\n#SBATCH -N 9\n": {"nodes": "4", "qos": "p2", "time": "1:00:00", "gres": "gpu:8"},
		"#!/bin/sh\n#SBATCH --nodes 2-4 --job-name=x --exclusive\n##SBATCH -q p9\n#SBATCHING\n":                                  {"nodes": "2-4"},
		"#!/bin/sh\n#SBATCH\t--qos=\"p1\"\n": {"qos": "p1"},
		"":                                   {},
	} {
		got, err := ReadScript(strings.NewReader(script))
		require.NoError(t, err, script)
		require.Equal(t, want, got, script)
	}
	_, err := ReadScript(strings.NewReader("#!/bin/sh\n\n#SBATCH --nodes\n"))
	require.EqualError(t, err, "read #SBATCH in line 3: option --nodes has no value")
}

func FuzzReadScript(f *testing.F) {
	f.Add("#!/bin/sh\n#SBATCH -N4 -q p2\n#SBATCH --time=1-2:3:4\n#SBATCH --gres=gpu:a100:8,shard:2 -G9 --deadline=now+2hours\n")
	f.Fuzz(func(t *testing.T, script string) {
		o, err := ReadScript(strings.NewReader(script))
		if err != nil {
			return
		}
		if len(o["nodes"]) > 12 || len(o["nodelist"]) > 12 {
			return // hostlist bounds these itself, and slowly
		}
		if j, err := o.Job(noon); err == nil {
			require.Positive(t, j.Nodes)
			require.GreaterOrEqual(t, j.TimeLimit, time.Duration(0))
		}
	})
}

func TestOptionsBecomeAJob(t *testing.T) {
	for _, c := range []struct {
		o    Options
		want Job
	}{
		{Options{"nodes": "gpu-[1-3]"}, Job{Nodes: 3, Names: []string{"gpu-1", "gpu-2", "gpu-3"}}},
		{Options{"nodes": "2-4", "time": "30"}, Job{Nodes: 2, TimeLimit: 30 * time.Minute}},
		{Options{"time": "1-2"}, Job{Nodes: 1, TimeLimit: 26 * time.Hour}},
		{Options{"time": "1:30"}, Job{Nodes: 1, TimeLimit: 90 * time.Second}},
		{Options{"gpus": "9", "nodes": "2"}, Job{Nodes: 2, GPUs: 5}},
		{Options{"gres": "shard:1,gpu:a100:4"}, Job{Nodes: 1, GPUs: 4}},
		{Options{"gpus-per-node": "a100"}, Job{Nodes: 1, GPUs: 1}},
		{Options{"deadline": "11:00"}, Job{Nodes: 1, Deadline: noon.Add(23 * time.Hour)}},
		{Options{"deadline": "2026-03-02"}, Job{Nodes: 1, Deadline: noon.Add(12 * time.Hour)}},
		{Options{"deadline": "now+90"}, Job{Nodes: 1, Deadline: noon.Add(90 * time.Second)}},
		{Options{"partition": "a,b"}, Job{Nodes: 1}},
	} {
		got, err := c.o.Job(noon)
		require.NoError(t, err, c.o)
		require.Equal(t, c.want, got, c.o)
	}
	for name, o := range map[string]Options{
		"want a number such as 4":    {"nodes": "-"},
		"want one such as 30":        {"time": "soon"},
		"want a time such as 18:00":  {"deadline": "soon"},
		"want a number such as 8, o": {"gpus": "a100:many"},
	} {
		_, err := o.Job(noon)
		require.ErrorContains(t, err, name)
	}
}
