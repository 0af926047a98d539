package main

import (
	"encoding/json"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/ledger"
)

func TestStatusReadsSlurmThroughItsCommands(t *testing.T) {
	s := newSite(t, []string{aNode("n-1", "IDLE+CLOUD"), aNode("n-2", "ALLOCATED+CLOUD+POWERING_UP"), aNode("n-3", "IDLE+CLOUD+POWERED_DOWN")},
		[]string{aJob(8, "CONFIGURING", "None", "(null)", "n-2"), aJob(9, "PENDING", "BeginTime", "midair: quota: the limit is 2 instances", "")})
	out, err := s.run("status")
	require.NoError(t, err)
	require.Equal(t, `cluster lab, controller not running on this host

POOL  PROVIDER  NODES  UP  BOOTING  DOWN  OFF  USD/H  NODELIST
p     here      3      1   1        0     1    0.00   n-[1-3]

NODE  POOL  STATE                        INSTANCE  OFFERING  ADDRESS   AGE  REASON
n-1   p     IDLE+CLOUD                                       10.0.0.1
n-2   p     ALLOCATED+CLOUD+POWERING_UP                      10.0.0.1

JOBID  USER  QOS  TIER  STATE        STARTS  NODELIST  WHY
8      ada   p2   p2    CONFIGURING          n-2
9      ada   p2   p2    PENDING                        quota: the limit is 2 instances
`, out)
}

func TestStatusOptionsAreThoseOfSinfo(t *testing.T) {
	s := newSite(t, []string{aNode("n-1", "IDLE+CLOUD"), aNode("n-2", "DOWN+CLOUD")}, nil)
	const head = "NODE  STATE\n"
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-o", "node,state", "nodes"}, head + "n-1   IDLE+CLOUD\nn-2   DOWN+CLOUD\n"},
		{[]string{"-h", "-o", "node,state", "nodes"}, "n-1  IDLE+CLOUD\nn-2  DOWN+CLOUD\n"},
		{[]string{"--noheader", "--format", "NODE", "nodes"}, "n-1\nn-2\n"},
		{[]string{"-ho", "state", "-n", "n-2", "nodes"}, "DOWN+CLOUD\n"},
		{[]string{"-w", "n-[1,3]", "-h", "-o", "node", "nodes"}, "n-1\n"},
		{[]string{"-h", "-n", "n-3", "-o", "node", "nodes"}, ""},
		{[]string{"-n", "n-3", "-o", "node", "nodes"}, "NODE\n"},
	} {
		out, err := s.run(append([]string{"status"}, c.args...)...)
		require.NoError(t, err, c.args)
		require.Equal(t, c.want, out, c.args)
	}
}

func TestStatusAsJSONBeforeThereIsAnything(t *testing.T) {
	out, err := newSite(t, nil, nil).run("status", "--json")
	require.NoError(t, err)
	require.JSONEq(t, `{"cluster": "lab", "controller": {"running": false}, "nodes": [], "launches": [], "jobs": [], "passed_over": [],
		"pools": [{"name": "p", "provider": "here", "nodes": "n-[1-3]", "total": 3, "up": 0, "booting": 0, "down": 0, "off": 3, "usd_per_hour": 0}]}`, out)
}

func TestWhyTellsOfAJobThatSlurmHasForgotten(t *testing.T) {
	s := newSite(t, nil, []string{aJob(6, "PENDING", "Priority", "(null)", "")})
	out, err := s.run("why", "6")
	require.NoError(t, err)
	require.Equal(t, "job 6 (user ada, qos p2, tier p2) is PENDING\nwaits in Slurm's queue (Priority); midair has not been asked for nodes\n", out)

	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	led, _, err := ledger.Open(t.Context(), filepath.Join(s.dir, "ledger.db"), slog.New(slog.DiscardHandler), time.Now)
	require.NoError(t, err)
	require.NoError(t, led.Update(t.Context(), func(tx *ledger.Tx) error {
		return tx.AddLaunches([]ledger.Launch{{ID: "l-1", JobID: 5, State: ledger.Failed, Class: cloud.Quota, Message: "quota: full", CreatedAt: at, EndedAt: at.Add(time.Second),
			Nodes: []ledger.LaunchNode{{Node: "n-1", Generation: 1, Pool: "p", Provider: "here"}}}})
	}))
	require.NoError(t, led.Close())
	out, err = s.run("why", "5")
	require.NoError(t, err)
	require.Contains(t, out, "job 5\nSlurm has forgotten the job; this is what midair did for it\n")
	require.Contains(t, out, "failed    n-1  quota: full\n")

	out, err = s.run("why", "--json", "5")
	require.NoError(t, err)
	var w map[string]any
	require.NoError(t, json.Unmarshal([]byte(out), &w))
	require.NotContains(t, w, "job")
	require.Equal(t, []any{}, w["failures"])
	require.Equal(t, "quota", w["launches"].([]any)[0].(map[string]any)["class"])
}

func TestDryRunShowsThePlanAndDoesNothing(t *testing.T) {
	s := newSite(t, []string{aNode("n-1", "IDLE+CLOUD+POWERED_DOWN"), aNode("n-2", "DOWN+CLOUD+POWERED_DOWN") + "Reason=ResumeTimeout reached [slurm@2026-03-01T12:00:00]"}, nil)
	out, err := s.run("reconcile", "--dry-run")
	require.NoError(t, err)
	require.Equal(t, "resume      n-2: it is down and powered down\n", out)
	out, err = s.run("reconcile", "-n", "--json")
	require.NoError(t, err)
	require.JSONEq(t, `{"deferred": 0, "actions": [{"action": "resume", "node": "n-2", "why": "it is down and powered down"}]}`, out)

	out, err = newSite(t, []string{aNode("n-1", "IDLE+CLOUD+POWERED_DOWN")}, nil).run("reconcile", "--dry-run", "--json")
	require.NoError(t, err)
	require.JSONEq(t, `{"deferred": 0, "actions": []}`, out)
}
