package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/cell"
	"github.com/midair-hpc/midair/internal/cloud"
)

func TestInstanceIsTaggedAddressedAndBootsAfterItsDelay(t *testing.T) {
	l := newLab(t)
	res := l.launch(request("a", 1))
	require.Empty(t, res.Shortfalls)
	require.Len(t, res.Instances, 1)
	i := res.Instances[0]
	require.Regexp(t, regexp.MustCompile(`^i-[0-9a-f]{17}$`), i.ID)
	require.Equal(t, "10.213.4.2", i.Addr)
	require.Equal(t, cloud.Pending, i.State)
	require.Equal(t, map[string]string{
		cloud.TagCluster: "lab", cloud.TagNode: "a-001", cloud.TagGeneration: "1", cloud.TagLaunch: "launch-a",
		cloud.TagToken: "a", cloud.TagPool: "spot", cloud.TagUser: "alice",
	}, i.Tags)
	require.Equal(t, i, l.one())

	s := l.cells.specs()[0]
	require.Equal(t, "a-001", s.Hostname)
	require.Equal(t, "10.213.4.2/24", s.Network.Address.String())
	require.Equal(t, "10.213.4.1", s.Network.Gateway.String())
	require.Equal(t, []string{"/usr/sbin/slurmd", "-D", "-b", "-N", "a-001"}, s.Argv)
	require.Equal(t, []cell.Device{{Path: filepath.Join(l.root, "dev", "nvidia0"), Major: 1, Minor: 3}}, s.Devices)
	require.True(t, s.StartedAt.Equal(i.CreatedAt))
	require.Equal(t, 2*time.Second, s.Delay)

	l.clock.forward(2 * time.Second)
	require.Equal(t, cloud.Running, l.one().State)
}

func TestSlurmdIsGivenTheConfiguredSlurmConf(t *testing.T) {
	o := testOptions(t.TempDir())
	o.SlurmConf = "/etc/slurm-lab/slurm.conf"
	p, err := Open(o)
	require.NoError(t, err)
	require.Equal(t, []string{"/usr/sbin/slurmd", "-D", "-b", "-N", "n1", "-f", "/etc/slurm-lab/slurm.conf"}, p.slurmd.Command("n1"))
}

func TestSameTokenGivesTheSameInstancesAlsoInAnotherProcessAndAfterTheirEnd(t *testing.T) {
	l := newLab(t)
	first := l.launch(request("a", 3))
	require.Equal(t, first, l.launch(request("a", 3)))
	require.Equal(t, first, l.again().launch(request("a", 3)))
	l.terminate(first.Instances[0].ID)
	second := l.again().launch(request("a", 3))
	require.Equal(t, ids(first.Instances), ids(second.Instances))
	require.Len(t, l.cells.specs(), 2)
}

func TestSameTokenGivesTheSameShortfall(t *testing.T) {
	l := newLab(t)
	l.faults(Faults{Stock: map[string]int{spot.Key(): 1}})
	first := l.launch(request("a", 3))
	l.faults(Faults{})
	require.Equal(t, first, l.launch(request("a", 3)))
}

func TestKnownTokenWithAnotherRequestIsRefused(t *testing.T) {
	l := newLab(t)
	l.launch(request("a", 2))
	other := request("a", 2)
	other.Nodes[1].Generation = 2
	for name, r := range map[string]cloud.LaunchRequest{
		"fewer nodes": request("a", 1), "another offering": request("a", 2, onDemand), "another generation": other, "all or nothing": together(request("a", 2)),
	} {
		t.Run(name, func(t *testing.T) {
			e := l.refused(r)
			require.Equal(t, cloud.Config, e.Class)
			require.False(t, e.Ambiguous)
		})
	}
	require.Len(t, l.list(), 2)
}

func TestRequestThatMakesNoSenseIsRefused(t *testing.T) {
	twice := request("a", 2)
	twice.Nodes[1].Name = twice.Nodes[0].Name
	long := request("a", 1)
	long.Nodes[0].Name = string(make([]byte, 65))
	none := request("a", 1)
	none.Offerings = nil
	unknown := cloud.Offering{Type: "x", Zone: "z", Market: cloud.Spot}
	market := cloud.Offering{Type: "g1.large", Zone: "z", Market: cloud.Spot}
	for name, r := range map[string]cloud.LaunchRequest{"no such type": request("a", 1, spot, unknown), "not on this market": request("a", 1, market), "no token": request("", 1), "no nodes": request("a", 0), "no offerings": none, "a node twice": twice, "no host name": long} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			require.Equal(t, cloud.Config, l.refused(r).Class)
			require.Empty(t, l.list())
		})
	}
}

func TestTokenMayBeAnyText(t *testing.T) {
	l := newLab(t)
	r := request("a", 1)
	r.Token = "../../etc/passwd\x00 " + string(make([]byte, 300))
	first := l.launch(r)
	require.Equal(t, first, l.again().launch(r))
}

func TestCapacityDecidesWhatIsLaunched(t *testing.T) {
	stock := func(n int) Faults { return Faults{Stock: map[string]int{spot.Key(): n}} }
	big := request("a", 2, spot, large)
	big.CPUs = 16
	for _, tt := range []struct {
		name   string
		faults Faults
		r      cloud.LaunchRequest
		got    map[cloud.Offering]int
		short  map[cloud.Offering]int
		class  cloud.Class
		code   string
	}{
		{"no stock", stock(0), request("a", 2), nil, map[cloud.Offering]int{spot: 2}, cloud.OutOfStock, "InsufficientInstanceCapacity"},
		{"part of it", stock(2), request("a", 3), map[cloud.Offering]int{spot: 2}, map[cloud.Offering]int{spot: 1}, cloud.OutOfStock, "InsufficientInstanceCapacity"},
		{"not all, so nothing", stock(2), together(request("a", 3)), nil, map[cloud.Offering]int{spot: 3}, cloud.OutOfStock, "InsufficientInstanceCapacity"},
		{"the rest from the next", stock(2), request("a", 3, spot, onDemand), map[cloud.Offering]int{spot: 2, onDemand: 1}, map[cloud.Offering]int{spot: 1}, cloud.OutOfStock, "InsufficientInstanceCapacity"},
		{"all from the next", stock(2), together(request("a", 3, spot, onDemand)), map[cloud.Offering]int{onDemand: 3}, map[cloud.Offering]int{spot: 3}, cloud.OutOfStock, "InsufficientInstanceCapacity"},
		{"instance quota", Faults{MaxInstances: 2}, request("a", 3), map[cloud.Offering]int{spot: 2}, map[cloud.Offering]int{spot: 1}, cloud.Quota, "InstanceLimitExceeded"},
		{"vCPU quota", Faults{MaxCPUs: 11}, request("a", 3), map[cloud.Offering]int{spot: 2}, map[cloud.Offering]int{spot: 1}, cloud.Quota, "VcpuLimitExceeded"},
		{"type too small", Faults{}, big, map[cloud.Offering]int{large: 2}, map[cloud.Offering]int{spot: 2}, cloud.SpecMismatch, ""},
		{"told to be too small", Faults{SpecMismatch: []string{spot.Key()}}, request("a", 1), nil, map[cloud.Offering]int{spot: 1}, cloud.SpecMismatch, ""},
		{"more than addresses", Faults{}, request("a", 255), map[cloud.Offering]int{spot: 253}, map[cloud.Offering]int{spot: 2}, cloud.OutOfStock, "InsufficientFreeAddressesInSubnet"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := newLab(t)
			l.faults(tt.faults)
			res := l.launch(tt.r)
			var got map[cloud.Offering]int
			for _, i := range res.Instances {
				if got == nil {
					got = map[cloud.Offering]int{}
				}
				got[i.Offering]++
			}
			short := map[cloud.Offering]int{}
			for _, s := range res.Shortfalls {
				short[s.Offering] += s.Nodes
				require.Equal(t, tt.class, s.Err.Class)
				require.Equal(t, tt.code, s.Err.Code)
				require.NotEmpty(t, s.Err.Message)
				require.NotRegexp(t, `\.$`, s.Err.Message)
			}
			require.Equal(t, tt.got, got)
			require.Equal(t, tt.short, short)
			require.Len(t, l.cells.specs(), len(res.Instances))
		})
	}
}

func TestCapacityComesBackWhenInstancesEnd(t *testing.T) {
	l := newLab(t)
	l.faults(Faults{Stock: map[string]int{spot.Key(): 1}})
	first := l.launch(request("a", 1))
	require.Len(t, l.launch(request("b", 1)).Shortfalls, 1)
	l.terminate(first.Instances[0].ID)
	require.Empty(t, l.launch(request("c", 1)).Shortfalls)
}

func TestManyProcessesAtOnceBuyOnceAndShareNoAddress(t *testing.T) {
	l := newLab(t)
	var wg sync.WaitGroup
	for n := range 24 {
		p := l
		if n%3 > 0 {
			p = l.again()
		}
		wg.Go(func() {
			res, err := p.Launch(context.Background(), request(fmt.Sprintf("t%d", n%8), 4))
			if err != nil || len(res.Instances) != 4 || len(res.Shortfalls) > 0 {
				t.Errorf("launch: %v %v", err, res.Shortfalls)
			}
		})
	}
	wg.Wait()
	addrs := map[string]bool{}
	for _, i := range l.list() {
		addrs[i.Addr] = true
	}
	require.Len(t, addrs, 32)
	require.Len(t, l.cells.specs(), 32)
}

func TestCellThatCannotStartIsAShortfall(t *testing.T) {
	bad := func(s cell.Spec) error {
		if s.Hostname == "a-002" {
			return errors.New("no room for another network")
		}
		return nil
	}
	for _, tt := range []struct {
		r    cloud.LaunchRequest
		left int
	}{{request("a", 3), 2}, {together(request("a", 3)), 0}} {
		t.Run(fmt.Sprintf("%d are left", tt.left), func(t *testing.T) {
			l := newLab(t)
			l.cells.refuse = bad
			res := l.launch(tt.r)
			require.Len(t, res.Instances, tt.left)
			require.Len(t, res.Shortfalls, 1)
			require.Equal(t, 3-tt.left, res.Shortfalls[0].Nodes)
			require.Equal(t, cloud.Unknown, res.Shortfalls[0].Err.Class)
			require.Contains(t, res.Shortfalls[0].Err.Message, "no room for another network")
			require.Len(t, l.cells.specs(), tt.left, "all or nothing")
			require.Len(t, l.list(), tt.left)
			l.cells.refuse = nil
			again := l.launch(tt.r)
			require.Equal(t, ids(res.Instances), ids(again.Instances))
			require.Len(t, again.Shortfalls, 1)
		})
	}
}

func TestInterruptedLaunchIsAmbiguousAndTheTokenResumesIt(t *testing.T) {
	l := newLab(t)
	ctx, cancel := context.WithCancel(context.Background())
	n := 0
	l.cells.refuse = func(cell.Spec) error {
		if n++; n == 3 {
			cancel()
		}
		return nil
	}
	_, err := l.Launch(ctx, request("a", 6))
	require.True(t, cloud.AsError(err).Ambiguous)
	require.Len(t, l.list(), 6, "the create call has taken effect")
	before := l.list()
	l.cells.refuse = nil
	res := l.again().launch(request("a", 6))
	require.Equal(t, ids(before), ids(res.Instances))
	require.Len(t, l.cells.specs(), 6)
}

func TestLaunchThatNobodyResumesEnds(t *testing.T) {
	l := newLab(t)
	ctx, cancel := context.WithCancel(context.Background())
	l.cells.refuse = func(cell.Spec) error { cancel(); return nil }
	_, err := l.Launch(ctx, request("a", 1))
	require.Error(t, err)
	l.clock.forward(startGrace - time.Second)
	require.Equal(t, cloud.Pending, l.one().State)
	busy, err := lockToken(context.Background(), l.reg.tokenLockPath(), "a")
	require.NoError(t, err)
	l.clock.forward(time.Second)
	require.Equal(t, cloud.Pending, l.one().State, "its token is being worked on")
	busy.Close()
	i := l.one()
	require.Equal(t, cloud.Terminated, i.State)
	require.Equal(t, "its start was interrupted", i.StateCause)
	require.Equal(t, i, l.launch(request("a", 1)).Instances[0], "the token still gives it")
}

func TestInstanceTerminatedWhileItStartsIsEnded(t *testing.T) {
	l := newLab(t)
	l.reached = func(step string) {
		if step == stepStarted {
			l.again().terminate(ids(l.again().list())...)
		}
	}
	res := l.launch(request("a", 1))
	require.Equal(t, cloud.Terminated, res.Instances[0].State)
	require.Empty(t, l.cells.specs())
}

func TestRecordsWithoutATokenAreForgotten(t *testing.T) {
	l := newLab(t)
	func() {
		defer func() { require.NotNil(t, recover()) }()
		l.reached = func(step string) {
			if step == stepRecords {
				panic("killed")
			}
		}
		_, _ = l.Launch(context.Background(), request("a", 3))
	}()
	l = l.again()
	files, err := os.ReadDir(filepath.Join(l.root, "instances"))
	require.NoError(t, err)
	require.Len(t, files, 3)
	require.Empty(t, l.list())
	res := l.launch(request("a", 3))
	require.Equal(t, "10.213.4.2", res.Instances[0].Addr, "no address is leaked")
	require.Len(t, l.list(), 3)
}

func TestOddTokenDoesNotHideInstances(t *testing.T) {
	l := newLab(t)
	ctx, cancel := context.WithCancel(context.Background())
	l.cells.refuse = func(cell.Spec) error { cancel(); return nil }
	_, err := l.Launch(ctx, request("a", 1))
	require.Error(t, err)
	l.cells.refuse = nil
	l.launch(request("b", 1))
	require.NoError(t, os.WriteFile(l.reg.tokenPath("a"), []byte("{"), 0o644))
	require.Len(t, l.list(), 2)
	_, err = l.Launch(context.Background(), request("a", 1))
	require.True(t, cloud.AsError(err).Ambiguous, "what the token has bought is not known")
	l.clock.forward(startGrace)
	require.Equal(t, cloud.Terminated, l.list()[0].State)
	require.Equal(t, cloud.Running, l.list()[1].State)
}
