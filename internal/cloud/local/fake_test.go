package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/cell"
	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/config"
)

// fakeCells are cells that are only remembered.
type fakeCells struct {
	mu      sync.Mutex
	live    map[int]cell.Spec
	pids    int
	refuse  func(cell.Spec) error // why a cell cannot be started
	removed bool
}

func newFakeCells() *fakeCells { return &fakeCells{live: map[int]cell.Spec{}} }

func (f *fakeCells) Prepare() error { return nil }

func (f *fakeCells) Start(ctx context.Context, s cell.Spec) (process, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refuse != nil {
		if err := f.refuse(s); err != nil {
			return process{}, err
		}
	}
	if err := ctx.Err(); err != nil {
		return process{}, err
	}
	for _, other := range f.live {
		if other.Network.Address == s.Network.Address {
			return process{}, fmt.Errorf("address %s is in use", s.Network.Address)
		}
	}
	f.pids++
	f.live[f.pids] = s
	return process{Handle: cell.Handle{PID: f.pids}}, nil
}

func (f *fakeCells) Alive(p process) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, ok := f.live[p.PID]
	return ok
}

func (f *fakeCells) Kill(p process) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.live, p.PID)
	return nil
}

func (f *fakeCells) Wait(context.Context, process) error { return nil }

func (f *fakeCells) Sweep(consoles []string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for pid, s := range f.live {
		if slices.Contains(consoles, s.Log) {
			delete(f.live, pid)
		}
	}
	return nil
}

func (f *fakeCells) Remove() error {
	f.removed = true
	return nil
}

func (f *fakeCells) specs() []cell.Spec {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []cell.Spec
	for _, s := range f.live {
		all = append(all, s)
	}
	return all
}

// clock is a clock that tests move.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func newClock() *clock { return &clock{t: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) forward(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

var testTypes = []config.LocalType{
	{Name: "g1.small", CPUs: 4, MemoryMiB: 8192, GPUs: 1, Prices: map[cloud.Market]cloud.MicroUSD{cloud.Spot: 400_000, cloud.OnDemand: 1_200_000}},
	{Name: "g1.large", CPUs: 16, MemoryMiB: 65536, GPUs: 4, Prices: map[cloud.Market]cloud.MicroUSD{cloud.OnDemand: 4_000_000}},
}

var (
	spot     = cloud.Offering{Type: "g1.small", Zone: "zone-a", Market: cloud.Spot}
	onDemand = cloud.Offering{Type: "g1.small", Zone: "zone-a", Market: cloud.OnDemand}
	large    = cloud.Offering{Type: "g1.large", Zone: "zone-b", Market: cloud.OnDemand}
)

func testOptions(root string) Options {
	return Options{
		Name:  "here",
		Local: config.Local{Root: root, Network: "10.213.4.0/24", BootDelay: 2 * time.Second, Slurmd: "/usr/sbin/slurmd", Types: testTypes},
		Log:   slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
}

// lab is a provider whose cells and clock are the test's.
type lab struct {
	*Provider
	t     *testing.T
	cells *fakeCells
	clock *clock
	root  string
}

func newLab(t *testing.T) *lab {
	return labAt(t, t.TempDir(), newFakeCells(), newClock())
}

// labAt opens a provider as another process would, over the same cloud.
func labAt(t *testing.T, root string, cells *fakeCells, clock *clock) *lab {
	o := testOptions(root)
	o.Now = clock.now
	p, err := Open(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	p.cells = cells
	return &lab{Provider: p, t: t, cells: cells, clock: clock, root: root}
}

func (l *lab) again() *lab { return labAt(l.t, l.root, l.cells, l.clock) }

func (l *lab) faults(f Faults) {
	l.t.Helper()
	require.NoError(l.t, WriteFaults(l.root, f))
}

func (l *lab) launch(r cloud.LaunchRequest) cloud.LaunchResult {
	l.t.Helper()
	res, err := l.Launch(context.Background(), r)
	require.NoError(l.t, err)
	return res
}

func (l *lab) refused(r cloud.LaunchRequest) *cloud.Error {
	l.t.Helper()
	_, err := l.Launch(context.Background(), r)
	var e *cloud.Error
	require.True(l.t, errors.As(err, &e), "%v", err)
	return e
}

func (l *lab) list() []cloud.Instance {
	l.t.Helper()
	list, err := l.List(context.Background(), "lab")
	require.NoError(l.t, err)
	return list
}

func (l *lab) one() cloud.Instance {
	l.t.Helper()
	list := l.list()
	require.Len(l.t, list, 1)
	return list[0]
}

func (l *lab) terminate(ids ...string) {
	l.t.Helper()
	require.NoError(l.t, l.Terminate(context.Background(), ids))
}

func request(token string, nodes int, offerings ...cloud.Offering) cloud.LaunchRequest {
	r := cloud.LaunchRequest{Token: token, Cluster: "lab", Pool: "spot", Offerings: offerings, CPUs: 4, MemoryMiB: 8000, GPUs: 1}
	if len(offerings) == 0 {
		r.Offerings = []cloud.Offering{spot}
	}
	for n := range nodes {
		r.Nodes = append(r.Nodes, cloud.NodeRequest{Name: fmt.Sprintf("%s-%03d", token, n+1), Generation: 1, Launch: "launch-" + token,
			Tags: map[string]string{cloud.TagUser: "alice"}})
	}
	return r
}

func together(r cloud.LaunchRequest) cloud.LaunchRequest {
	r.AllOrNothing = true
	return r
}

func ids(list []cloud.Instance) []string {
	var all []string
	for _, i := range list {
		all = append(all, i.ID)
	}
	slices.Sort(all)
	return all
}
