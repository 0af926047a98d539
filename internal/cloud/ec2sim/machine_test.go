package ec2sim_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/cloud/ec2sim"
)

// rememberedMachines are machines that are only remembered.
type rememberedMachines struct {
	mu      sync.Mutex
	made    int
	live    map[string]ec2sim.Machine // by handle
	refuse  error
	hold    chan struct{} // End waits for it
	removed bool
	ended   []string
}

func newMachines() *rememberedMachines {
	return &rememberedMachines{live: map[string]ec2sim.Machine{}}
}

func (r *rememberedMachines) Boot(_ context.Context, m ec2sim.Machine) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refuse != nil {
		return "", r.refuse
	}
	r.made++
	handle := fmt.Sprint(r.made)
	for _, other := range r.live {
		if other.ID == m.ID {
			return "", fmt.Errorf("%s has a machine already", m.ID)
		}
	}
	r.live[handle] = m
	return handle, nil
}

func (r *rememberedMachines) End(ctx context.Context, id, handle string) error {
	if r.hold != nil {
		select {
		case <-r.hold:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = append(r.ended, id)
	for h, m := range r.live {
		if h == handle || (handle == "" && m.ID == id) {
			delete(r.live, h)
		}
	}
	return nil
}

func (r *rememberedMachines) Alive(handle string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.live[handle]
	return ok
}

func (r *rememberedMachines) Console(id string) (string, error) { return "login: " + id + "\n", nil }

func (r *rememberedMachines) Remove() error {
	r.removed = true
	return nil
}

func (r *rememberedMachines) nodes() map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := map[string]string{}
	for _, m := range r.live {
		all[m.Node] = m.Addr.String()
	}
	return all
}

func (r *rememberedMachines) crash() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.live)
}

func withMachines(m ec2sim.Machines) func(*ec2sim.Options) {
	return func(o *ec2sim.Options) { o.Machines = m }
}

func soon(t testing.TB, what func() bool, why string) {
	t.Helper()
	require.Eventually(t, what, 10*time.Second, time.Millisecond, why)
}

func (l *lab) name(id, node string) {
	l.t.Helper()
	l.call("CreateTags", "ResourceId.1", id, "Tag.1.Key", cloud.TagNode, "Tag.1.Value", node).ok(l.t)
}

func TestMachineBootsWhenItRunsAndIsNamed(t *testing.T) {
	m := newMachines()
	l := newLab(t, withMachines(m), func(o *ec2sim.Options) { o.Lag.Tags, o.Delays.Boot = 5*time.Second, time.Minute })
	is := l.run("MinCount", "3", "MaxCount", "3").ok(t).Instances
	l.name(is[0].ID, "n-1") // before it runs
	l.forward(10 * time.Second)
	l.name(is[1].ID, "n-2") // after
	l.forward(59 * time.Second)
	l.Settle()
	require.Empty(t, m.nodes())
	l.forward(time.Second)
	l.Settle()
	soon(t, func() bool { return len(m.nodes()) == 1 }, "one runs and is named")
	require.Equal(t, map[string]string{"n-1": is[0].Addr}, m.nodes())
	l.forward(5 * time.Second)
	l.Settle()
	soon(t, func() bool { return len(m.nodes()) == 2 }, "the tag of the other is seen by now")
	l.forward(time.Hour)
	l.Settle()
	require.Len(t, m.nodes(), 2, "without a name it waits")
}

func TestInstanceHasEndedWhenItsMachineHas(t *testing.T) {
	m := newMachines()
	m.hold = make(chan struct{})
	l := newLab(t, withMachines(m))
	id := l.run().ok(t).Instances[0].ID
	l.name(id, "n-1")
	l.forward(time.Minute)
	l.Settle()
	soon(t, func() bool { return len(m.nodes()) == 1 }, "it boots")
	soon(t, func() bool { return l.Sim.Instances()[0].Machine }, "it is recorded")
	l.call("TerminateInstances", "InstanceId.1", id).ok(t)
	l.forward(time.Hour)
	require.Equal(t, "shutting-down", l.state(id))
	close(m.hold)
	soon(t, func() bool { return l.state(id) == "terminated" }, "its machine is gone")
	require.Empty(t, m.nodes())
}

func TestStoppedInstanceBootsAgainAsTheSameNode(t *testing.T) {
	m := newMachines()
	l := newLab(t, withMachines(m))
	id := l.run().ok(t).Instances[0].ID
	l.name(id, "n-1")
	up := func() {
		l.forward(time.Minute)
		l.Settle()
		soon(t, func() bool { return len(m.nodes()) == 1 && l.Sim.Instances()[0].Machine }, "it boots")
	}
	up()
	l.call("StopInstances", "InstanceId.1", id).ok(t)
	l.forward(time.Minute)
	soon(t, func() bool { return l.state(id) == "stopped" }, "it stops")
	require.Empty(t, m.nodes())
	l.call("StartInstances", "InstanceId.1", id).ok(t)
	up()
	require.Contains(t, m.nodes(), "n-1")
}

func TestMachineThatEndsByItselfEndsItsInstance(t *testing.T) {
	for _, tt := range []struct {
		name, state string
		args        []string
	}{
		{"as the template says", "shutting-down", nil},
		{"as EC2 does if nothing is said", "stopping", []string{"InstanceInitiatedShutdownBehavior", "stop"}},
		{"spot", "shutting-down", []string{"InstanceInitiatedShutdownBehavior", "stop", "InstanceMarketOptions.MarketType", "spot"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := newMachines()
			l := newLab(t, withMachines(m))
			id := l.run(tt.args...).ok(t).Instances[0].ID
			l.name(id, "n-1")
			l.forward(time.Minute)
			l.Settle()
			soon(t, func() bool { return l.Sim.Instances()[0].Machine }, "it boots")
			m.crash()
			soon(t, func() bool { return l.state(id) == tt.state }, "it is noticed")
			require.Equal(t, "Client.InstanceInitiatedShutdown", l.call("DescribeInstances").Described[0].Reason)
		})
	}
}

func TestMachineThatCannotBeMadeEndsItsInstance(t *testing.T) {
	m := newMachines()
	m.refuse = errors.New("no bridge")
	l := newLab(t, withMachines(m))
	id := l.run().ok(t).Instances[0].ID
	l.name(id, "n-1")
	l.forward(time.Minute)
	l.Settle()
	soon(t, func() bool { return l.state(id) != "running" }, "it ends")
	require.Equal(t, "Server.InternalError", l.call("DescribeInstances").Described[0].Reason)
}

func TestFaultNoBootMakesInstancesThatNeverBecomeNodes(t *testing.T) {
	m := newMachines()
	l := newLab(t, withMachines(m))
	l.fault(ec2sim.Fault{NoBoot: true, Type: "p5.48xlarge", Times: 1})
	is := l.run("MinCount", "2", "MaxCount", "2").ok(t).Instances
	l.name(is[0].ID, "n-1")
	l.name(is[1].ID, "n-2")
	l.forward(time.Hour)
	l.Settle()
	soon(t, func() bool { return len(m.nodes()) == 1 }, "the other boots")
	require.Contains(t, m.nodes(), "n-2")
	require.Equal(t, "running", l.state(is[0].ID))
}

func TestCloudSurvivesARestart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	m := newMachines()
	l := newLab(t, withMachines(m), func(o *ec2sim.Options) { o.StateDir = dir })
	is := l.run("MinCount", "4", "MaxCount", "4", "ClientToken", "t").ok(t).Instances
	fleet := l.fleet("2", cloud.Spot, []string{"p5.48xlarge/" + subnetB}, "ClientToken", "f").ok(t)
	for k, i := range is[:3] {
		l.name(i.ID, fmt.Sprintf("n-%d", k))
	}
	l.forward(time.Minute)
	l.Settle()
	soon(t, func() bool { return len(m.nodes()) == 3 && l.Sim.Instances()[2].Machine }, "they boot")
	l.call("TerminateInstances", "InstanceId.1", is[0].ID).ok(t)
	must(t, l.SetCapacity(offering("p5.48xlarge", "a", cloud.OnDemand), 4))
	must(t, l.SetQuota("L-DB2E81BA", 8))
	must(t, l.Deny("GetConsoleOutput"))
	l.fault(ec2sim.Fault{Action: "CreateTags", Error: "InternalError"})
	soon(t, func() bool { return l.Sim.Instances()[1].Machine && l.Sim.Instances()[0].Machine }, "all is recorded")
	before, status := l.Sim.Instances(), l.Status()
	must(t, l.Close())

	// The second one is ended while nobody looks; its end is noticed.
	m.mu.Lock()
	for h, machine := range m.live {
		if machine.Node == "n-1" {
			delete(m.live, h)
		}
	}
	m.mu.Unlock()
	now := l.now
	l2 := newLab(t, withMachines(m), func(o *ec2sim.Options) { o.StateDir, o.Now, o.Seed = dir, now, 99 })
	l2.clock = l.clock
	require.Equal(t, before, l2.Sim.Instances())
	after := l2.Status()
	after.Calls, status.Calls = nil, nil
	require.Equal(t, status, after)
	require.Equal(t, is[0].ID, l2.run("MinCount", "4", "MaxCount", "4", "ClientToken", "t").ok(t).Instances[0].ID)
	require.Equal(t, fleet.fleetIDs(), l2.fleet("2", cloud.Spot, []string{"p5.48xlarge/" + subnetB}, "ClientToken", "f").ok(t).fleetIDs())
	l2.run().fails(t, 500, "InsufficientInstanceCapacity")
	l2.forward(time.Minute)
	soon(t, func() bool { return l2.state(is[0].ID) == "terminated" }, "what was ending ends")
	soon(t, func() bool { return l2.state(is[1].ID) != "running" }, "a machine that has ended is noticed")
	require.Equal(t, "running", l2.state(is[2].ID))
	i := l2.run().ok(t).Instances[0]
	for _, other := range before {
		require.NotEqual(t, other.ID, i.ID)
	}

	n, err := l2.Destroy(context.Background())
	must(t, err)
	require.Equal(t, 5, n)
	require.Empty(t, m.nodes())
	require.True(t, m.removed)
	_, err = os.Stat(dir)
	require.True(t, os.IsNotExist(err), "%v", err)
}

// A process that is killed between starting a machine and writing it down has
// not lost it.
func TestMachineThatWasNotWrittenDownIsEnded(t *testing.T) {
	dir := t.TempDir()
	m := newMachines()
	l := newLab(t, func(o *ec2sim.Options) { o.StateDir = dir })
	id := l.run().ok(t).Instances[0].ID
	l.forward(time.Minute)
	l.call("TerminateInstances", "InstanceId.1", id).ok(t)
	must(t, l.Close())
	// As it is written while the end of the machine is awaited.
	path := filepath.Join(dir, "instances", id+".json")
	b, err := os.ReadFile(path)
	must(t, err)
	must(t, os.WriteFile(path, []byte(jsonSet(t, b, "NextAt", "0001-01-01T00:00:00Z")), 0o644))
	m.live["x"] = ec2sim.Machine{ID: id, Node: "n-1"}
	l2 := newLab(t, withMachines(m), func(o *ec2sim.Options) { o.StateDir, o.Now = dir, l.now })
	soon(t, func() bool { return l2.state(id) == "terminated" }, "it ends")
	require.Empty(t, m.nodes())
}

// jsonSet changes one field of a JSON object.
func jsonSet(t *testing.T, text []byte, key string, value any) string {
	t.Helper()
	var m map[string]any
	require.NoError(t, json.Unmarshal(text, &m))
	require.Contains(t, m, key)
	m[key] = value
	b, err := json.Marshal(m)
	require.NoError(t, err)
	return string(b)
}
