package local

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/cloud"
)

func TestLostAnswersTakeEffectAndAreCounted(t *testing.T) {
	l := newLab(t)
	l.faults(Faults{LoseAnswer: 2})
	for range 2 {
		e := l.refused(request("a", 2))
		require.True(t, e.Ambiguous)
		require.Equal(t, cloud.Unknown, e.Class)
	}
	there := l.list()
	require.Len(t, there, 2)
	require.Equal(t, ids(there), ids(l.launch(request("a", 2)).Instances))
	f, err := ReadFaults(l.root)
	require.NoError(t, err)
	require.Equal(t, Faults{}, f)
}

func TestUnknownCodesCreateNothingAndAreCounted(t *testing.T) {
	l := newLab(t)
	l.launch(request("a", 1))
	l.faults(Faults{Unknown: 1})
	l.launch(request("a", 1)) // what exists is not denied
	e := l.refused(request("b", 1))
	require.Equal(t, cloud.Unknown, e.Class)
	require.Equal(t, "InternalError", e.Code)
	require.False(t, e.Ambiguous)
	require.Len(t, l.list(), 1)
	require.Len(t, l.launch(request("b", 1)).Instances, 1)
}

func TestThrottlingMeetsEveryCallAndIsCounted(t *testing.T) {
	l := newLab(t)
	ctx := context.Background()
	id := l.launch(request("a", 1)).Instances[0].ID
	calls := []func() error{
		func() error { _, err := l.Launch(ctx, request("b", 1)); return err },
		func() error { _, err := l.List(ctx, "lab"); return err },
		func() error { return l.Terminate(ctx, []string{id}) },
		func() error { _, err := l.Quotes(ctx, []cloud.Offering{spot}); return err },
		func() error { _, err := l.Console(ctx, id); return err },
	}
	l.faults(Faults{Throttle: len(calls)})
	for _, call := range calls {
		e := cloud.AsError(call())
		require.NotNil(t, e)
		require.Equal(t, cloud.Throttled, e.Class)
		require.Equal(t, "RequestLimitExceeded", e.Code)
		require.False(t, e.Ambiguous)
	}
	require.Len(t, l.list(), 1)
	require.Equal(t, cloud.Pending, l.one().State)
}

func TestUnauthorizedMeetsEveryCall(t *testing.T) {
	l := newLab(t)
	l.launch(request("a", 1))
	l.faults(Faults{Unauthorized: true})
	e := l.refused(request("b", 1))
	require.Equal(t, cloud.Unauthorized, e.Class)
	require.Equal(t, "UnauthorizedOperation", e.Code)
	require.False(t, e.Ambiguous)
	require.True(t, l.refused(request("a", 1)).Ambiguous, "its instances exist")
	_, err := l.List(context.Background(), "lab")
	require.Equal(t, cloud.Unauthorized, cloud.AsError(err).Class)
	all, err := l.All(context.Background())
	require.NoError(t, err)
	require.Len(t, all, 1)
}

func TestNoRegisterBootsWithoutSlurmd(t *testing.T) {
	for _, key := range []string{"a-001", spot.Key()} {
		t.Run(key, func(t *testing.T) {
			l := newLab(t)
			l.faults(Faults{NoRegister: []string{key}})
			id := l.launch(request("a", 1)).Instances[0].ID
			require.Empty(t, l.cells.specs()[0].Argv)
			l.clock.forward(time.Minute)
			require.Equal(t, cloud.Running, l.one().State)
			text, err := l.Console(context.Background(), id)
			require.NoError(t, err)
			require.Contains(t, text, "slurmd is not started")
			require.NotEmpty(t, l.launch(request("b", 1, onDemand)))
		})
	}
}

func TestVanishHappensOnceAtOnceOrAfterRunning(t *testing.T) {
	l := newLab(t)
	l.faults(Faults{Vanish: map[string]Duration{"a-001": Duration(30 * time.Second)}})
	l.launch(request("a", 2))
	l.clock.forward(31 * time.Second)
	for _, i := range l.list() {
		require.Equal(t, cloud.Running, i.State)
	}
	l.clock.forward(time.Second)
	state := map[string]string{}
	for _, i := range l.list() {
		state[i.Node] = string(i.State) + " " + i.StateCause
	}
	require.Equal(t, map[string]string{"a-001": "terminated vanished", "a-002": "running "}, state)
	require.Len(t, l.cells.specs(), 1)

	l.faults(Faults{Vanish: map[string]Duration{"b-001": 0}})
	require.Equal(t, cloud.Terminated, l.launch(request("b", 1)).Instances[0].State)
	next := request("c", 1)
	next.Nodes[0].Name = "b-001"
	require.Equal(t, cloud.Pending, l.launch(next).Instances[0].State, "the fault was met")
}

func TestVanishByInstanceID(t *testing.T) {
	l := newLab(t)
	id := l.launch(request("a", 1)).Instances[0].ID
	l.faults(Faults{Vanish: map[string]Duration{id: 0}})
	require.Equal(t, cloud.Terminated, l.one().State)
}

func TestSlowDeleteKeepsInstancesShuttingDown(t *testing.T) {
	l := newLab(t)
	l.faults(Faults{SlowDelete: Duration(3 * time.Minute), Stock: map[string]int{spot.Key(): 1}})
	id := l.launch(request("a", 1)).Instances[0].ID
	l.terminate(id)
	ended := l.clock.now()
	l.clock.forward(3*time.Minute - time.Second)
	i := l.one()
	require.Equal(t, cloud.ShuttingDown, i.State)
	require.Equal(t, ended, i.EndedAt, "it is not billed any more")
	require.Len(t, l.cells.specs(), 1, "it runs on")
	require.Len(t, l.launch(request("b", 1)).Shortfalls, 1, "it takes up capacity")
	l.clock.forward(time.Second)
	require.Equal(t, cloud.Terminated, l.list()[0].State)
	require.Empty(t, l.cells.specs())
}

func TestSlowDeleteEndsWithoutBeingAsked(t *testing.T) {
	o := testOptions(t.TempDir())
	p, err := Open(o)
	require.NoError(t, err)
	cells := newFakeCells()
	p.cells = cells
	require.NoError(t, WriteFaults(o.Local.Root, Faults{SlowDelete: Duration(50 * time.Millisecond)}))
	res, err := p.Launch(context.Background(), request("a", 1))
	require.NoError(t, err)
	require.NoError(t, p.Terminate(context.Background(), ids(res.Instances)))
	require.Len(t, cells.specs(), 1)
	require.Eventually(t, func() bool { return len(cells.specs()) == 0 }, 10*time.Second, 5*time.Millisecond)
	// The alarm's last write is done when the lock is free.
	_, err = p.All(context.Background())
	require.NoError(t, err)
	require.NoError(t, p.Close())
}

func TestListLagHidesYoungInstances(t *testing.T) {
	l := newLab(t)
	l.faults(Faults{ListLag: Duration(5 * time.Second)})
	l.launch(request("a", 1))
	l.clock.forward(4 * time.Second)
	require.Empty(t, l.list())
	l.clock.forward(time.Second)
	require.Len(t, l.list(), 1)
}

func TestBootDelayOfAnOffering(t *testing.T) {
	l := newLab(t)
	l.faults(Faults{BootDelay: map[string]Duration{spot.Key(): Duration(time.Minute)}})
	l.launch(request("a", 1))
	l.faults(Faults{})
	require.Equal(t, time.Minute, l.cells.specs()[0].Delay)
	l.clock.forward(59 * time.Second)
	require.Equal(t, cloud.Pending, l.one().State)
	l.clock.forward(time.Second)
	require.Equal(t, cloud.Running, l.one().State)
}

func TestHangingAndSlowCreateCallsTakeEffectFirst(t *testing.T) {
	for name, f := range map[string]Faults{"hang": {Hang: true}, "slow": {CreateDelay: Duration(time.Hour)}} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			l.faults(f)
			ctx, cancel := context.WithCancel(context.Background())
			answer := make(chan error)
			go func() {
				_, err := l.Launch(ctx, request("a", 2))
				answer <- err
			}()
			require.Eventually(t, func() bool { return len(l.cells.specs()) == 2 }, 10*time.Second, time.Millisecond)
			cancel()
			require.True(t, cloud.AsError(<-answer).Ambiguous)
			l.faults(Faults{})
			require.Len(t, l.launch(request("a", 2)).Instances, 2)
			require.Len(t, l.cells.specs(), 2)
		})
	}
}

func TestBadFaultsFileIsNamedAndCanBeCleared(t *testing.T) {
	l := newLab(t)
	l.launch(request("a", 1))
	for _, text := range []string{"{", `{"stok":{}}`, `{"stock":{"g1":1}}`, `{"stock":{"a/b/spot":-1}}`, `{"slow_delete":"3"}`, `{"throttle":-1}`, `{} {}`} {
		require.NoError(t, os.WriteFile(faultsPath(l.root), []byte(text), 0o644))
		_, err := l.List(context.Background(), "lab")
		e := cloud.AsError(err)
		require.NotNil(t, e, text)
		require.Equal(t, cloud.Config, e.Class)
		require.Contains(t, e.Message, faultsPath(l.root))
		require.Error(t, UpdateFaults(l.root, func(*Faults) {}))
	}
	require.NoError(t, WriteFaults(l.root, Faults{}))
	require.Len(t, l.list(), 1)
}

func TestFaultsThatCannotBeMeantAreNotWritten(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, WriteFaults(root, Faults{Throttle: 3}))
	require.ErrorContains(t, WriteFaults(root, Faults{NoRegister: nil, SpecMismatch: []string{"g1"}}), "type/zone/market")
	require.ErrorContains(t, UpdateFaults(root, func(f *Faults) { f.MaxInstances = -1 }), "quota is negative")
	f, err := ReadFaults(root)
	require.NoError(t, err)
	require.Equal(t, Faults{Throttle: 3}, f)
}

func TestClearFaultsByName(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, WriteFaults(root, Faults{Throttle: 3, SlowDelete: Duration(time.Minute), Hang: true}))
	require.NoError(t, ClearFaults(root, "slow-delete", "hang"))
	f, err := ReadFaults(root)
	require.NoError(t, err)
	require.Equal(t, Faults{Throttle: 3}, f)
	require.ErrorContains(t, ClearFaults(root, "nonsense"), `no fault "nonsense"`)
}

func FuzzFaultsFile(f *testing.F) {
	f.Add([]byte(`{"stock":{"g1.small/zone-a/spot":0},"vanish":{"n1":"30s"},"lose_answer":2}`))
	f.Add([]byte(`{"boot_delay":{"g1/z/spot":"1h"},"hang":true}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		faults, err := parseFaults(b)
		if err != nil {
			return
		}
		root := t.TempDir()
		require.NoError(t, WriteFaults(root, faults))
		again, err := ReadFaults(root)
		require.NoError(t, err)
		require.NoError(t, WriteFaults(root, again))
		twice, err := ReadFaults(root)
		require.NoError(t, err)
		require.Equal(t, again, twice)
	})
}
