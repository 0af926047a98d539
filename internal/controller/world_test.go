package controller

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/config"
	"github.com/midair-hpc/midair/internal/hold"
	"github.com/midair-hpc/midair/internal/ledger"
	"github.com/midair-hpc/midair/internal/slurm"
	"github.com/midair-hpc/midair/internal/slurm/slurmtest"
	"github.com/midair-hpc/midair/internal/spool"
)

// Offerings of the pools: a has two in cloud east, b one in cloud west.
var (
	aSmall = cloud.Offering{Type: "small", Zone: "za", Market: cloud.Spot}
	aLarge = cloud.Offering{Type: "large", Zone: "za", Market: cloud.OnDemand}
	bOnly  = cloud.Offering{Type: "only", Zone: "zb", Market: cloud.OnDemand}
)

var began = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// stand is a cloud that a test looks into.
type stand interface {
	cloud.Provider
	id() string             // the provider's name
	all() []cloud.Instance  // ever made, as the cloud itself knows them
	boots(node string) bool // instances of this node become nodes
	forgot(id string) bool  // the instance has ended and is not listed
	mend()                  // takes all faults away
	market(*soak)           // something random happens to what is sold,
	calling(*soak)          // to the interface
	befalls(*soak)          // or to an instance
}

// there gives the instances of a cloud that have not ended, stopped ones too.
func there(s stand) []cloud.Instance { return slices.DeleteFunc(s.all(), ended) }

// world is a slurmctld, two clouds and a controller under one clock that only
// the test moves. Provider calls are made when the test lets them.
type world struct {
	t          testing.TB
	ctx        context.Context
	now        time.Time
	conf       *config.Config
	ctld       *slurmtest.Ctld
	east, west *memoryCloud
	stands     []stand // east and west, or what stands in for them
	dir        string
	led        *ledger.Ledger
	c          *Controller
	calls      []func() // provider calls that have been asked for and not made
	ids        int
	records    int
	bubble     bool // the time is testing/synctest's
	beside     bool // calls run in goroutines
	// dropRecords: the hooks fail, as with a full disk.
	dropRecords bool
	// twiceRecords: each request is written twice.
	twiceRecords bool
	slurm        slurm.Client // what the controller talks to; ctld
	// rebuilt is when a lost ledger was whole again: what had ended before may be
	// missing from it.
	rebuilt time.Time
	boot    time.Duration // from create to registering
	rand    func() float64
	crash   func(point string)
	stop    context.CancelFunc // ends the controller's context
	log     *slog.Logger
}

// What tests do to nodes by hand.
var (
	powerUp      = slurm.NodeUpdate{State: "power_up"}
	powerDownNow = slurm.NodeUpdate{State: "power_down_force", Reason: "by hand"}
)

func recordOf(kind spool.Kind, nodes string) spool.Record {
	return spool.Record{Kind: kind, Nodes: nodes}
}

func names(prefix string, n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("%s%d", prefix, i+1)
	}
	return list
}

func testConfig() *config.Config {
	return &config.Config{
		Cluster: "lab",
		Pools: []config.Pool{
			{Name: "a", NodeNames: names("a", 6), Provider: "east", Node: config.NodeSpec{CPUs: 1, MemoryMiB: 1}, Offerings: []cloud.Offering{aSmall, aLarge}},
			{Name: "b", NodeNames: names("b", 3), Provider: "west", Node: config.NodeSpec{CPUs: 1, MemoryMiB: 1}, Offerings: []cloud.Offering{bOnly}},
		},
		Tiers:     []config.Tier{{Name: "p2", QOS: []string{"spot"}}},
		Retry:     config.Retry{First: 10 * time.Second, Max: 5 * time.Minute, Rounds: 3},
		Memory:    config.Memory{First: 20 * time.Second, Max: 2 * time.Minute},
		Reconcile: config.Reconcile{Every: 30 * time.Second, Grace: time.Minute, MaxTerminations: 10},
	}
}

// newWorld starts everything. x1 is a node that Slurm has and midair.yaml not.
func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, now: began, conf: testConfig(), boot: 2 * time.Second, rand: func() float64 { return 0 },
		crash: func(string) {}, log: slog.New(slog.DiscardHandler), dir: tempDir(t)}
	if os.Getenv("MIDAIR_TEST_LOG") != "" {
		w.log = slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				a.Value = slog.StringValue(w.clock().Format("15:04:05"))
			}
			return a
		}}))
	}
	w.ctx = context.WithoutCancel(t.Context())
	require.NoError(t, os.Mkdir(w.spool(), 0o750))
	clock := w.clock
	w.east, w.west = newCloud("east", clock), newCloud("west", clock)
	w.stands = []stand{w.east, w.west}
	w.ctld = slurmtest.New(slurmtest.Options{
		Now: clock, ResumeTimeout: 3 * time.Minute, SuspendTime: 30 * time.Second, SuspendTimeout: 10 * time.Second,
		SlurmdTimeout: 5 * time.Minute, RequeueDelay: 121 * time.Second,
		Hooks: slurmtest.Hooks{
			Resume:  func(nodes, file string) { w.record(spool.Record{Kind: spool.Resume, Nodes: nodes, ResumeFile: file}) },
			Suspend: func(nodes string) { w.record(spool.Record{Kind: spool.Suspend, Nodes: nodes}) },
			Fail:    func(nodes string) { w.record(spool.Record{Kind: spool.Fail, Nodes: nodes}) },
		},
	}, slices.Concat(names("a", 6), names("b", 3), []string{"x1"})...)
	w.slurm = w.ctld
	w.start()
	t.Cleanup(func() { w.stop(); w.led.Close() })
	return w
}

// tempDir is in memory where there is such a place: the tests commit often.
func tempDir(t testing.TB) string {
	dir, err := os.MkdirTemp("/dev/shm", "controller")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func (w *world) clock() time.Time {
	if w.bubble {
		return time.Now()
	}
	return w.now
}

// tick lets time go by and nothing happen.
func (w *world) tick(d time.Duration) {
	if w.bubble {
		time.Sleep(d)
		w.now = time.Now()
		return
	}
	w.now = w.now.Add(d)
}

func (w *world) spool() string { return filepath.Join(w.dir, "spool") }

func (w *world) record(r spool.Record) {
	if w.dropRecords {
		return
	}
	for n := 0; n == 0 || n == 1 && w.twiceRecords; n++ {
		w.records++ // so that records of one moment keep their order
		r.At = w.clock().Add(time.Duration(w.records))
		_, err := spool.Write(w.spool(), r)
		require.NoError(w.t, err)
	}
}

// start starts a controller on the ledger's file.
func (w *world) start() {
	led, report, err := ledger.Open(w.ctx, filepath.Join(w.dir, "ledger.db"), w.log, w.clock)
	require.NoError(w.t, err)
	w.led = led
	ctx, stop := context.WithCancel(w.ctx)
	w.stop = stop
	providers := map[string]cloud.Provider{}
	for _, s := range w.stands {
		providers[s.id()] = s
	}
	w.c, err = New(ctx, Options{
		Config: w.conf, Ledger: led, Slurm: w.slurm, Providers: providers,
		SpoolDir: w.spool(), Log: w.log, Now: w.clock, Rand: func() float64 { return w.rand() },
		NewID: func() string { w.ids++; return fmt.Sprintf("l-%05d", w.ids) },
		Crash: func(p string) { w.crash(p) },
		Go: func(call func()) {
			if w.beside {
				go call()
				return
			}
			w.calls = append(w.calls, call)
		},
		Adopt: report.Created && w.ids > 0, Rebuilt: report.MovedAside != "",
	})
	require.NoError(w.t, err)
}

// kill ends the controller as kill -9 does. Calls it has asked for may reach
// the cloud; nobody hears the answers.
func (w *world) kill() {
	w.stop()
	require.NoError(w.t, w.led.Close())
	w.c = nil
}

func (w *world) restart() {
	w.kill()
	w.calls = nil
	w.start()
}

// step is one turn of the controller's loop, with the answers that have come.
func (w *world) step() {
	for w.receive() {
	}
	w.c.Step(w.ctx)
}

// receive hands the controller one answer, as Run does.
func (w *world) receive() bool {
	select {
	case r := <-w.c.results:
		w.c.bought(w.ctx, w.c.drainResults(r))
	case t := <-w.c.ended:
		w.c.terminated(w.ctx, t)
	case l := <-w.c.lists:
		w.c.listed(w.ctx, l)
	case k := <-w.c.named:
		w.c.wereNamed(k)
	case q := <-w.c.questions:
		w.c.waiters[q] = true
		w.c.nextJobs = time.Time{}
	default:
		return false
	}
	return true
}

// answer makes the provider calls that have been asked for.
func (w *world) answer() {
	for len(w.calls) > 0 {
		call := w.calls[0]
		w.calls = w.calls[1:]
		call()
		for w.receive() {
		}
	}
}

// turn lets everything happen that happens now.
func (w *world) turn() {
	w.ctld.Tick()
	w.slurmds()
	w.ctld.Tick()
	w.step()
	w.answer()
	w.step()
	w.answer()
}

// slurmds has the instances that have booted register, and tells slurmctld of
// those that are gone.
func (w *world) slurmds() {
	list := w.ctld.PeekNodes()
	byAddr := map[string]bool{}
	for _, m := range w.stands {
		for _, i := range m.all() {
			if !i.Live() {
				continue
			}
			byAddr[i.Addr] = true
			if boot := i.CreatedAt.Add(w.boot); !boot.After(w.clock()) && m.boots(i.Node) {
				w.ctld.Register(slurmtest.Registration{Node: i.Node, Addr: i.Addr, Boot: i.CreatedAt})
			}
		}
	}
	for _, n := range list {
		if !byAddr[n.Addr] {
			w.ctld.Silence(n.Name)
		}
	}
}

// pass lets time go by in steps of a second.
func (w *world) pass(d time.Duration) {
	for end := w.now.Add(d); w.now.Before(end); {
		w.tick(time.Second)
		w.turn()
	}
}

// pass0 lets time go by without a controller.
func (w *world) pass0(d time.Duration) {
	for end := w.now.Add(d); w.now.Before(end); {
		w.tick(time.Second)
		w.ctld.Tick()
		w.slurmds()
	}
}

// until lets time go by until something is true.
func (w *world) until(limit time.Duration, what string, done func() bool) {
	w.t.Helper()
	for end := w.now.Add(limit); !done(); {
		if w.now.After(end) {
			require.Fail(w.t, "not within "+limit.String()+": "+what, "%s", w.describe())
		}
		w.tick(time.Second)
		w.turn()
	}
}

func (w *world) submit(j slurmtest.Job) int {
	if j.Duration == 0 {
		j.Duration = 20 * time.Second
	}
	if j.QOS == "" {
		j.QOS = "spot"
	}
	if j.On == nil {
		j.On = names("a", 6)
	}
	if j.Nodes == 0 {
		j.Nodes = 1
	}
	return w.ctld.Submit(j)
}

func (w *world) completed(id int) func() bool {
	return func() bool { return w.job(id).State == "COMPLETED" }
}

// describe says where everything is, for failures, when it is printed.
func (w *world) describe() fmt.Stringer { return description{w} }

type description struct{ w *world }

func (d description) String() string {
	w := d.w
	var b strings.Builder
	for _, n := range w.ctld.PeekNodes() {
		fmt.Fprintln(&b, "node", n.Name, n.State, n.Addr, n.Reason)
	}
	for id := 1; ; id++ {
		j := w.job(id)
		if j.ID == 0 {
			break
		}
		fmt.Fprintln(&b, "job", id, j.State, j.Nodes, j.Reason, j.Comment, "start", j.StartTime.Format("15:04:05"))
	}
	for _, l := range w.c.ordered() {
		fmt.Fprintf(&b, "launch %+v parked %v refused %v\n", l.Launch, l.parked, l.refused)
	}
	for _, in := range w.c.intents {
		fmt.Fprintf(&b, "intent %+v in flight %v\n", in.Intent, in.inFlight)
	}
	for _, i := range w.c.instances {
		fmt.Fprintf(&b, "on record %s %s gen %d %s %s\n", i.ID, i.Node, i.Generation, i.State, i.EndCause)
	}
	for _, m := range w.stands {
		for _, i := range there(m) {
			fmt.Fprintf(&b, "there %s %s gen %d %s\n", i.ID, i.Node, i.Generation, i.State)
		}
	}
	return b.String() + w.now.Format("now 15:04:05")
}

// ask is a hook that waits for a job's nodes.
func (w *world) ask(id int, nodes string) (answer chan hold.Outcome, hangUp func()) {
	ctx, cancel := context.WithCancel(w.ctx)
	answer = make(chan hold.Outcome, 1)
	before := len(w.c.questions)
	go func() {
		a, err := w.c.Question(ctx, hold.Question{JobID: id, Nodes: nodes})
		if err == nil {
			answer <- a.Outcome
		}
	}()
	require.Eventually(w.t, func() bool { return len(w.c.questions) > before }, 5*time.Second, time.Millisecond)
	return answer, cancel
}
