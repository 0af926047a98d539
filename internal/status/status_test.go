package status_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/config"
	"github.com/midair-hpc/midair/internal/ledger"
	"github.com/midair-hpc/midair/internal/slurm"
	"github.com/midair-hpc/midair/internal/status"
)

// noon is in a zone of its own, so that the texts are the same everywhere.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.FixedZone("lab", 5*3600+1800))

// books is a ledger of fixed content.
type books struct {
	open      []ledger.Launch
	ofJob     map[int][]ledger.Launch
	failures  map[int][]ledger.Failure
	instances []ledger.Instance
	memory    []ledger.MemoryEntry
}

func (b books) OpenLaunches(context.Context) ([]ledger.Launch, error) { return b.open, nil }
func (b books) RecentLaunches(context.Context, int) ([]ledger.Launch, error) {
	return b.open, nil
}
func (b books) LaunchesOfJob(_ context.Context, id int) ([]ledger.Launch, error) {
	return b.ofJob[id], nil
}
func (b books) FailuresOfJob(_ context.Context, id, _ int) ([]ledger.Failure, error) {
	return b.failures[id], nil
}
func (b books) LiveInstances(context.Context) ([]ledger.Instance, error) { return b.instances, nil }
func (b books) InstancesOfLaunch(_ context.Context, launch string) ([]ledger.Instance, error) {
	var of []ledger.Instance
	for _, i := range b.instances {
		if i.Launch == launch {
			of = append(of, i)
		}
	}
	return of, nil
}
func (b books) Memory(context.Context) ([]ledger.MemoryEntry, error) { return b.memory, nil }

// queue is a Slurm of fixed content.
type queue struct {
	nodes []slurm.Node
	jobs  []slurm.Job
}

func (q queue) Nodes(context.Context, ...string) ([]slurm.Node, error) { return q.nodes, nil }
func (q queue) ActiveJobs(context.Context) ([]slurm.Job, error)        { return q.jobs, nil }
func (q queue) Jobs(_ context.Context, ids ...int) ([]slurm.Job, error) {
	var found []slurm.Job
	for _, j := range q.jobs {
		for _, id := range ids {
			if j.ID == id {
				found = append(found, j)
			}
		}
	}
	return found, nil
}

// failing is a ledger that cannot be read, silent a Slurm that does not answer.
type failing struct {
	books
	err error
}

func (f failing) LiveInstances(context.Context) ([]ledger.Instance, error) { return nil, f.err }
func (f failing) LaunchesOfJob(context.Context, int) ([]ledger.Launch, error) {
	return nil, f.err
}

type silent struct {
	queue
	err error
}

func (s silent) Nodes(context.Context, ...string) ([]slurm.Node, error) { return nil, s.err }
func (s silent) Jobs(context.Context, ...int) ([]slurm.Job, error)      { return nil, s.err }

func lab(t *testing.T) (*config.Config, books, queue) {
	cfg, err := config.Parse("midair.yaml", []byte(`cluster: lab
providers: {east: {kind: local, types: {g1: {cpus: 4, memory: 8G, prices: {spot: 0.40 USD}}}}}
pools: [{name: spot, nodes: "s-[1-4]", provider: east, node: {cpus: 4, memory: 7G}, offerings: [{types: [g1], zones: [za, zb], markets: [spot]}]}]
tiers: [{name: p2, qos: [p2], partitions: [spot]}]
`))
	require.NoError(t, err)
	g1 := cloud.Offering{Type: "g1", Zone: "za", Market: cloud.Spot}
	booting := ledger.Launch{ID: "l-2", JobID: 8, Tier: "p2", State: ledger.Launching, CreatedAt: noon.Add(-5 * time.Second),
		Nodes: []ledger.LaunchNode{{Node: "s-2", InstanceID: "i-2"}, {Node: "s-3"}}}
	why := "out-of-stock: both offerings of pool spot are passed over"
	b := books{
		open: []ledger.Launch{booting},
		ofJob: map[int][]ledger.Launch{
			7: {{ID: "l-1", JobID: 7, State: ledger.Ready, CreatedAt: noon.Add(-time.Hour), EndedAt: noon.Add(-time.Hour + 93*time.Second), Nodes: []ledger.LaunchNode{{Node: "s-1"}}}},
			8: {booting},
			9: {{ID: "l-0", JobID: 9, State: ledger.Failed, Class: cloud.OutOfStock, Message: why, RetryAt: noon.Add(time.Minute), CreatedAt: noon.Add(-time.Minute), Nodes: []ledger.LaunchNode{{Node: "s-3"}, {Node: "s-4"}}}},
			5: {{ID: "l-9", JobID: 5, State: ledger.Ready, CreatedAt: noon.Add(-time.Hour), EndedAt: noon.Add(-time.Hour + time.Second), Nodes: []ledger.LaunchNode{{Node: "s-1"}}}},
		},
		failures: map[int][]ledger.Failure{9: {{At: noon.Add(-time.Minute), Offering: g1.Key(), Class: cloud.OutOfStock, Code: "InsufficientInstanceCapacity", Message: "no spot capacity for g1 in za"}}},
		instances: []ledger.Instance{
			{Provider: "east", ID: "i-1", Node: "s-1", Launch: "l-1", Offering: g1, Addr: "10.0.0.2", Price: 400000, State: ledger.Live, CreatedAt: noon.Add(-25 * time.Hour)},
			{Provider: "east", ID: "i-2", Node: "s-2", Launch: "l-2", Offering: g1, Addr: "10.0.0.3", Price: 400000, State: ledger.Live, CreatedAt: noon.Add(-4 * time.Second)},
		},
		memory: []ledger.MemoryEntry{
			{Provider: "east", Offering: g1, Class: cloud.OutOfStock, Failures: 2, Until: noon.Add(90 * time.Second)},
			{Provider: "east", Offering: cloud.Offering{Type: "g1", Zone: "zb", Market: cloud.Spot}, Class: cloud.Quota, Failures: 1, Until: noon.Add(-time.Second)},
		},
	}
	q := queue{
		nodes: []slurm.Node{
			{Name: "s-1", State: slurm.ParseStates("ALLOCATED+CLOUD")},
			{Name: "s-2", State: slurm.ParseStates("ALLOCATED+CLOUD+POWERING_UP")},
			{Name: "s-3", State: slurm.ParseStates("IDLE+CLOUD+POWERED_DOWN"), Reason: "midair: " + why},
			{Name: "s-4", State: slurm.ParseStates("IDLE+CLOUD+POWERED_DOWN")},
		},
		jobs: []slurm.Job{
			{ID: 6, State: "PENDING", Reason: "Priority", User: "dan", QOS: "p2"},
			{ID: 7, State: "RUNNING", User: "alice", QOS: "p2", Nodes: "s-1"},
			{ID: 8, State: "CONFIGURING", User: "bob", QOS: "p2", Nodes: "s-[2-3]"},
			{ID: 9, State: "PENDING", Reason: "BeginTime", User: "carol", QOS: "p2", Comment: "midair: " + why, EligibleTime: noon.Add(time.Minute)},
			{ID: 10, State: "PENDING", Reason: "JobHeldUser", User: "carol", QOS: "p2", Comment: "mine", AdminComment: "midair: " + why + "; held"},
		},
	}
	return cfg, b, q
}

func TestStatusForPeople(t *testing.T) {
	cfg, b, q := lab(t)
	v, err := status.Gather(t.Context(), cfg, b, q, noon)
	require.NoError(t, err)
	v.Controller = status.ControllerUp{Running: true, PID: 412}
	var out bytes.Buffer
	require.NoError(t, v.Table(&out, status.Format{}, noon))
	require.Equal(t, `cluster lab, controller running, process 412

POOL  PROVIDER  NODES  UP  BOOTING  DOWN  OFF  USD/H  NODELIST
spot  east      4      1   1        0     2    0.80   s-[1-4]

NODE  POOL  STATE                        INSTANCE  OFFERING    ADDRESS   AGE         REASON
s-1   spot  ALLOCATED+CLOUD              i-1       g1/za/spot  10.0.0.2  1-01:00:00
s-2   spot  ALLOCATED+CLOUD+POWERING_UP  i-2       g1/za/spot  10.0.0.3  0:04
s-3   spot  IDLE+CLOUD+POWERED_DOWN                                                  midair: out-of-stock: both offerings of pool spot are passed over

LAUNCH  JOBID  TIER  STATE      BOUGHT  AGE   NODELIST  WHY
l-2     8      p2    launching  1/2     0:05  s-[2-3]

JOBID  USER   QOS  TIER  STATE        STARTS   NODELIST  WHY
8      bob    p2   p2    CONFIGURING           s-[2-3]
9      carol  p2   p2    PENDING      in 1:00            out-of-stock: both offerings of pool spot are passed over
10     carol  p2   p2    PENDING                         out-of-stock: both offerings of pool spot are passed over; held

OFFERING    PROVIDER  CLASS         FAILURES  AGAIN IN
g1/za/spot  east      out-of-stock  2         1:30
`, out.String())
}

func TestOneSectionWithChosenColumns(t *testing.T) {
	cfg, b, q := lab(t)
	v, err := status.Gather(t.Context(), cfg, b, q, noon)
	require.NoError(t, err)
	v.Only([]string{"s-2"})
	var out bytes.Buffer
	require.NoError(t, v.Table(&out, status.Format{Sections: []string{"nodes"}, Columns: []string{"node", "Instance"}, NoHeader: true}, noon))
	require.Equal(t, "s-2  i-2\n", out.String())
	require.ErrorContains(t, v.Table(&out, status.Format{Sections: []string{"nodes"}, Columns: []string{"nod"}}, noon), `no column "nod": nodes has node, pool`)
	require.ErrorContains(t, v.Table(&out, status.Format{Sections: []string{"x"}}, noon), `no section "x": there are pools`)
	require.ErrorContains(t, v.Table(&out, status.Format{Columns: []string{"node"}}, noon), "name one of")
	require.ErrorContains(t, v.Table(&out, status.Format{Sections: []string{"pools", "x"}}, noon), `no section "x"`)
	require.Equal(t, "s-2  i-2\n", out.String(), "an error prints nothing before it")
}

func TestOnlyKeepsWhatHasTheNodesNamed(t *testing.T) {
	cfg, b, q := lab(t)
	v, err := status.Gather(t.Context(), cfg, b, q, noon)
	require.NoError(t, err)
	v.Only([]string{"s-2"})
	var out bytes.Buffer
	require.NoError(t, v.Table(&out, status.Format{}, noon))
	require.Equal(t, `cluster lab, controller not running on this host

POOL  PROVIDER  NODES  UP  BOOTING  DOWN  OFF  USD/H  NODELIST
spot  east      4      1   1        0     2    0.80   s-[1-4]

NODE  POOL  STATE                        INSTANCE  OFFERING    ADDRESS   AGE   REASON
s-2   spot  ALLOCATED+CLOUD+POWERING_UP  i-2       g1/za/spot  10.0.0.3  0:04

LAUNCH  JOBID  TIER  STATE      BOUGHT  AGE   NODELIST  WHY
l-2     8      p2    launching  1/2     0:05  s-[2-3]

JOBID  USER  QOS  TIER  STATE        STARTS  NODELIST  WHY
8      bob   p2   p2    CONFIGURING          s-[2-3]

OFFERING    PROVIDER  CLASS         FAILURES  AGAIN IN
g1/za/spot  east      out-of-stock  2         1:30
`, out.String())
	v.Only([]string{"elsewhere"})
	text, err := json.Marshal(v)
	require.NoError(t, err)
	require.NotContains(t, string(text), "null")
}

func TestTheJSONFormIsStable(t *testing.T) {
	cfg, b, q := lab(t)
	v, err := status.Gather(t.Context(), cfg, b, q, noon)
	require.NoError(t, err)
	v.Only([]string{"s-2"})
	text, err := json.Marshal(v)
	require.NoError(t, err)
	require.JSONEq(t, `{"cluster": "lab", "controller": {"running": false},
		"pools": [{"name": "spot", "provider": "east", "nodes": "s-[1-4]", "total": 4, "up": 1, "booting": 1, "down": 0, "off": 2, "usd_per_hour": 0.8}],
		"nodes": [{"name": "s-2", "pool": "spot", "state": "ALLOCATED+CLOUD+POWERING_UP", "instance": "i-2", "offering": "g1/za/spot", "address": "10.0.0.3", "since": "2026-03-01T11:59:56+05:30"}],
		"launches": [{"id": "l-2", "job_id": 8, "tier": "p2", "nodes": "s-[2-3]", "bought": 1, "total": 2, "state": "launching", "since": "2026-03-01T11:59:55+05:30"}],
		"jobs": [{"id": 8, "user": "bob", "qos": "p2", "tier": "p2", "state": "CONFIGURING", "nodes": "s-[2-3]"}],
		"passed_over": [{"provider": "east", "offering": "g1/za/spot", "class": "out-of-stock", "failures": 2, "until": "2026-03-01T12:01:30+05:30"}]}`, string(text))

	w, err := status.Explain(t.Context(), cfg, b, q, 9)
	require.NoError(t, err)
	text, err = json.Marshal(w)
	require.NoError(t, err)
	require.JSONEq(t, `{"job_id": 9, "rounds": 1, "max_rounds": 5,
		"answer": "waits for another try (1 of 5 have failed): out-of-stock: both offerings of pool spot are passed over",
		"job": {"id": 9, "user": "carol", "qos": "p2", "tier": "p2", "state": "PENDING", "start_at": "2026-03-01T12:01:00+05:30", "why": "out-of-stock: both offerings of pool spot are passed over"},
		"launches": [{"id": "l-0", "at": "2026-03-01T11:59:00+05:30", "nodes": "s-[3-4]", "state": "failed", "class": "out-of-stock", "why": "out-of-stock: both offerings of pool spot are passed over"}],
		"failures": [{"at": "2026-03-01T11:59:00+05:30", "offering": "g1/za/spot", "class": "out-of-stock", "code": "InsufficientInstanceCapacity", "message": "no spot capacity for g1 in za"}]}`, string(text))

	w, err = status.Explain(t.Context(), cfg, nil, q, 6)
	require.NoError(t, err)
	text, err = json.Marshal(w)
	require.NoError(t, err)
	require.JSONEq(t, `{"job_id": 6, "rounds": 0, "max_rounds": 5, "launches": [], "failures": [], "answer": "waits in Slurm's queue (Priority); midair has not been asked for nodes",
		"job": {"id": 6, "user": "dan", "qos": "p2", "tier": "p2", "state": "PENDING"}}`, string(text))
}

func TestErrorsOfLedgerAndSlurmSayWhatWasAsked(t *testing.T) {
	cfg, b, q := lab(t)
	broken := errors.New("disk full")
	_, err := status.Gather(t.Context(), cfg, failing{b, broken}, q, noon)
	require.EqualError(t, err, "read instances from the ledger: disk full")
	_, err = status.Explain(t.Context(), cfg, failing{b, broken}, q, 9)
	require.EqualError(t, err, "read launches of job 9 from the ledger: disk full")
	_, err = status.Gather(t.Context(), cfg, b, silent{q, broken}, noon)
	require.EqualError(t, err, "ask Slurm for the pools' nodes: disk full")
	_, err = status.Explain(t.Context(), cfg, b, silent{q, broken}, 9)
	require.EqualError(t, err, "ask Slurm for job 9: disk full")
}

func TestStatusWithoutALedger(t *testing.T) {
	cfg, _, q := lab(t)
	v, err := status.Gather(t.Context(), cfg, nil, q, noon)
	require.NoError(t, err)
	text, err := json.Marshal(v)
	require.NoError(t, err)
	require.NotContains(t, string(text), "null", "programs get empty lists")
}

func TestWhy(t *testing.T) {
	cfg, b, q := lab(t)
	for name, c := range map[string]struct {
		job  int
		want string
	}{
		"put back": {9, `job 9 (user carol, qos p2, tier p2) is PENDING
waits for another try (1 of 5 have failed): out-of-stock: both offerings of pool spot are passed over
next try in 1:00

launches, newest first:
  2026-03-01 11:59:00  failed    s-[3-4]  out-of-stock: both offerings of pool spot are passed over

what went wrong, newest first:
  2026-03-01 11:59:00  out-of-stock  g1/za/spot  no spot capacity for g1 in za (InsufficientInstanceCapacity)
`},
		"held": {10, `job 10 (user carol, qos p2, tier p2) is PENDING
held: out-of-stock: both offerings of pool spot are passed over; held
`},
		"booting": {8, `job 8 (user bob, qos p2, tier p2) is CONFIGURING
its nodes s-[2-3] are being bought or are booting

launches, newest first:
  2026-03-01 11:59:55  launching s-[2-3]
`},
		"running": {7, `job 7 (user alice, qos p2, tier p2) is RUNNING
running on nodes that midair had ready after 93.0 s

launches, newest first:
  2026-03-01 11:00:00  ready     s-1  after 93.0 s
`},
		"in the queue": {6, `job 6 (user dan, qos p2, tier p2) is PENDING
waits in Slurm's queue (Priority); midair has not been asked for nodes
`},
		"forgotten by Slurm": {5, `job 5
Slurm has forgotten the job; this is what midair did for it

launches, newest first:
  2026-03-01 11:00:00  ready     s-1  after 1.0 s
`},
	} {
		t.Run(name, func(t *testing.T) {
			w, err := status.Explain(t.Context(), cfg, b, q, c.job)
			require.NoError(t, err)
			var out bytes.Buffer
			w.Text(&out, noon)
			require.Equal(t, c.want, out.String())
		})
	}
	_, err := status.Explain(t.Context(), cfg, b, q, 4711)
	require.ErrorIs(t, err, status.ErrNothing)
}

func TestDurationIsWrittenAsSlurmDoes(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0:00", 0: "0:00", 59 * time.Second: "0:59", 59*time.Second + 500*time.Millisecond: "1:00", 61 * time.Second: "1:01",
		time.Hour - time.Second: "59:59", time.Hour: "1:00:00", 24*time.Hour - time.Second: "23:59:59", 24 * time.Hour: "1-00:00:00", 400 * 24 * time.Hour: "400-00:00:00",
		25*time.Hour + time.Minute + time.Second: "1-01:01:01",
	} {
		require.Equal(t, want, status.Duration(d))
	}
}
