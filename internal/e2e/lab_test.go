// Package e2e holds midair's promises against a real Slurm: every test starts a
// private cluster, submits jobs as users do, and breaks something.
package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/ledger"
	"github.com/midair-hpc/midair/internal/testcluster"
)

// yaml is the lab's midair.yaml. Boots are short and idle nodes go soon, so
// that a test sees a node's whole life.
const yaml = `cluster: lab
providers:
  lab:
    kind: local
    boot_delay: 300ms
    types:
      g1: {cpus: 1, memory: 1G, prices: {on-demand: 1.20 USD, spot: 0.40 USD}}
      g2: {cpus: 1, memory: 1G, prices: {on-demand: 1.50 USD, spot: 0.55 USD}}
pools:
  - name: od
    nodes: od-[1-8]
    provider: lab
    node: {cpus: 1, memory: 500M}
    offerings: [{types: [g1, g2], zones: [za], markets: [on-demand]}]
    suspend_time: 3s
    resume_timeout: RESUME_TIMEOUT
    suspend_timeout: 2s
  - name: spot
    nodes: spot-[001-320]
    provider: lab
    node: {cpus: 1, memory: 500M}
    offerings: [{types: [g1, g2], zones: [za, zb], markets: [spot]}]
    suspend_time: 3s
    resume_timeout: RESUME_TIMEOUT
    suspend_timeout: 2s
tiers:
  - {name: p0, qos: [p0], partitions: [onprem]}
  - {name: p1, qos: [p1], partitions: [od]}
  - {name: p2, qos: [p2], partitions: [spot]}
retry: {first: 1s, max: 20s, rounds: 3}
capacity_memory: {first: 2s, max: 10s}
reconcile: {every: 2s, grace: 4s, max_terminations: 50}
`

type lab struct {
	*testcluster.Cluster
	t   *testing.T
	ctx context.Context
	sim bool // its cloud is the stand-in for AWS
}

type labOptions struct {
	resumeTimeout string
	noController  bool
	yaml          string // instead of the lab's
	fragment      string
	sim           []string // with it, the cloud is the stand-in for AWS, started with these arguments
}

func startLab(t *testing.T, o labOptions) *lab {
	t.Helper()
	if testing.Short() {
		t.Skip("real Slurm is left out of short runs")
	}
	if os.Geteuid() != 0 {
		t.Skip("a private cluster needs root")
	}
	programs := os.Getenv("MIDAIR_PROGRAMS")
	if programs == "" {
		t.Skip("MIDAIR_PROGRAMS names no folder with built programs: use make test")
	}
	if o.resumeTimeout == "" {
		o.resumeTimeout = "60s"
	}
	if o.yaml == "" {
		o.yaml = yaml
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	c, err := testcluster.Start(ctx, testcluster.Options{
		Programs: programs,
		Root:     os.Getenv("MIDAIR_SLURM_ROOT"),
		Midair:   strings.ReplaceAll(o.yaml, "RESUME_TIMEOUT", o.resumeTimeout),
		Fragment: o.fragment,
	})
	require.NoError(t, err)
	l := &lab{Cluster: c, t: t, ctx: ctx, sim: o.sim != nil}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(c.Logs(120))
		}
		c.Stop()
	})
	if l.sim {
		require.NoError(t, c.StartEC2Sim(ctx, simCredentials, o.sim...))
	}
	if !o.noController {
		l.controller()
	}
	return l
}

func (l *lab) controller(env ...string) *testcluster.Daemon {
	l.t.Helper()
	d, err := l.StartController(l.ctx, env...)
	require.NoError(l.t, err)
	return d
}

// run runs a command as root on the cluster's machine.
func (l *lab) run(argv ...string) string {
	l.t.Helper()
	out, err := l.Run(l.ctx, argv...)
	require.NoError(l.t, err)
	return out
}

// submit submits a batch job of alice's that runs the script.
func (l *lab) submit(qos string, nodes int, script string, more ...string) int {
	l.t.Helper()
	args := append([]string{"--qos=" + qos, fmt.Sprintf("--nodes=%d", nodes), "--ntasks-per-node=1", "--mem=100", "--time=5", "--output=/dev/null", "--wrap=" + script}, more...)
	id, err := l.Sbatch(l.ctx, "alice", args...)
	require.NoError(l.t, err)
	return id
}

// job gives one field of a job as squeue prints it; empty when it is gone.
func (l *lab) job(id int, format string) string {
	out, err := l.Run(l.ctx, "squeue", "-h", "-t", "all", "-j", fmt.Sprint(id), "-o", format)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(out)
}

// within waits for something that must come true.
func (l *lab) within(d time.Duration, what string, ok func() bool) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.ctx, d)
	defer cancel()
	require.NoError(l.t, testcluster.WaitFor(ctx, what, func(context.Context) (bool, error) { return ok(), nil }))
}

func (l *lab) state(id int, states ...string) {
	l.t.Helper()
	l.within(60*time.Second, fmt.Sprintf("job %d to be %v", id, states), func() bool {
		s := l.job(id, "%T")
		for _, want := range states {
			if s == want {
				return true
			}
		}
		return false
	})
}

type instance struct {
	ID, Node, State string
	Offering        json.RawMessage
	Tags            map[string]string
}

// instances lists what the cloud has.
func (l *lab) instances() []instance {
	l.t.Helper()
	kind := "local"
	if l.sim {
		kind = "ec2sim"
	}
	var list []instance
	require.NoError(l.t, json.Unmarshal([]byte(l.run("midair", kind, "ls", "--json")), &list))
	for k := range list {
		if list[k].Node == "" {
			list[k].Node = list[k].Tags[cloud.TagNode]
		}
	}
	return list
}

func (l *lab) live() []instance {
	var live []instance
	for _, i := range l.instances() {
		if i.State != "terminated" {
			live = append(live, i)
		}
	}
	return live
}

// ledger gives a copy of the cluster's ledger: SQLite resolves links, and the
// way into the cluster's files is one.
func (l *lab) ledger() *ledger.Ledger {
	l.t.Helper()
	dir := l.t.TempDir()
	for _, f := range []string{"ledger.db", "ledger.db-wal"} {
		text, err := os.ReadFile(l.Path(testcluster.LedgerDir + "/" + f))
		if os.IsNotExist(err) {
			continue
		}
		require.NoError(l.t, err)
		require.NoError(l.t, os.WriteFile(filepath.Join(dir, f), text, 0o600))
	}
	led, _, err := ledger.Open(l.ctx, filepath.Join(dir, "ledger.db"), slog.New(slog.DiscardHandler), time.Now)
	require.NoError(l.t, err)
	return led
}

// settles waits until every bought node is gone and checks what must hold
// after any fault: no instance leaked, none bought twice for one generation of
// a node, all on record as ended, no node left down.
func (l *lab) settles() {
	l.t.Helper()
	l.within(60*time.Second, "all instances to be gone", func() bool { return len(l.live()) == 0 })
	l.within(30*time.Second, "all nodes to be powered down and in service", func() bool {
		out, err := l.Run(l.ctx, "sinfo", "-h", "-N", "-p", "od,spot", "-o", "%T")
		if err != nil {
			return false
		}
		for _, s := range strings.Fields(out) {
			if s != "idle~" {
				return false
			}
		}
		return true
	})
	l.within(10*time.Second, "the ledger to have every instance ended and every launch closed", func() bool {
		led := l.ledger()
		defer led.Close()
		live, err := led.LiveInstances(l.ctx)
		require.NoError(l.t, err)
		open, err := led.OpenLaunches(l.ctx)
		require.NoError(l.t, err)
		intents, err := led.OpenIntents(l.ctx)
		require.NoError(l.t, err)
		return len(live)+len(open)+len(intents) == 0
	})
	led := l.ledger()
	defer led.Close()
	all, err := led.Instances(l.ctx, time.Time{})
	require.NoError(l.t, err)
	onRecord := map[string]bool{}
	times := map[string]int{}
	for _, i := range all {
		onRecord[i.ID] = true
		times[fmt.Sprintf("%s generation %d", i.Node, i.Generation)]++
	}
	for k, n := range times {
		require.Equal(l.t, 1, n, "%s was bought %d times", k, n)
	}
	for _, i := range l.instances() {
		require.True(l.t, onRecord[i.ID], "instance %s of node %s is not on record", i.ID, i.Node)
	}
}

func (l *lab) fault(args ...string) {
	l.t.Helper()
	l.run(append([]string{"midair", "local", "fault"}, args...)...)
}

// spoolFile lists the request spool's records.
func (l *lab) spoolFiles() []string {
	files, err := filepath.Glob(l.Path(testcluster.SpoolDir + "/[0-9]*"))
	require.NoError(l.t, err)
	return files
}
