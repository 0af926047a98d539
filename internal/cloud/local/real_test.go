package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"

	"github.com/midair-hpc/midair/internal/cell"
	"github.com/midair-hpc/midair/internal/cell/celltest"
	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/cloud/cells"
)

// realLab opens a cloud of real cells and destroys it at the end, checking that
// nothing is left.
func realLab(t testing.TB, change func(*Options)) *Provider {
	o := realOptions(t, filepath.Join(t.TempDir(), "cloud"))
	if change != nil {
		change(&o)
	}
	p, err := Open(o)
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := p.Destroy(context.Background())
		require.NoError(t, err)
		require.NoError(t, p.Close())
		require.NoDirExists(t, o.Local.Root)
		_, err = netlink.LinkByName(cells.BridgeName(o.Local.Root))
		require.ErrorAs(t, err, &netlink.LinkNotFoundError{})
		require.Empty(t, celltest.Inits(t), "processes are left")
	})
	return p
}

func mustLaunch(t testing.TB, p *Provider, r cloud.LaunchRequest) []cloud.Instance {
	t.Helper()
	res, err := p.Launch(context.Background(), r)
	require.NoError(t, err)
	require.Empty(t, res.Shortfalls)
	return res.Instances
}

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, 20*time.Second, 5*time.Millisecond, what)
}

func console(t testing.TB, p *Provider, id string) string {
	t.Helper()
	text, err := p.Console(context.Background(), id)
	require.NoError(t, err)
	return text
}

func TestRealInstanceRunsItsCommandUnderItsNameAfterTheBootDelay(t *testing.T) {
	p := realLab(t, func(o *Options) { o.Local.BootDelay = 300 * time.Millisecond })
	began := time.Now()
	i := mustLaunch(t, p, request("a", 1))[0]
	require.NotContains(t, console(t, p, i.ID), "up as")
	eventually(t, "the command runs", func() bool { return strings.Contains(console(t, p, i.ID), "up as a-001, host a-001") })
	require.GreaterOrEqual(t, time.Since(began), 300*time.Millisecond)
	var dev syscall.Stat_t
	require.NoError(t, syscall.Stat(filepath.Join(p.root, "dev", "nvidia0"), &dev))
	require.Equal(t, uint32(syscall.S_IFCHR), dev.Mode&syscall.S_IFMT)
	out, err := exec.Command("/bin/bash", "-c", "exec 3<>/dev/tcp/"+i.Addr+"/9").CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "Connection refused", "the instance's network answers")
}

func TestRealInstanceWithTheNoRegisterFaultRunsNothing(t *testing.T) {
	p := realLab(t, func(o *Options) { o.Local.BootDelay = 10 * time.Millisecond })
	require.NoError(t, WriteFaults(p.root, Faults{NoRegister: []string{"a-001"}}))
	list := mustLaunch(t, p, request("a", 2))
	eventually(t, "the other instance is up", func() bool { return strings.Contains(console(t, p, list[1].ID), "up as") })
	require.NotContains(t, console(t, p, list[0].ID), "up as")
	require.Contains(t, console(t, p, list[0].ID), "slurmd is not started")
}

func TestRealInstanceThatIsKilledHasVanished(t *testing.T) {
	p := realLab(t, nil)
	i := mustLaunch(t, p, request("a", 1))[0]
	var h cell.Handle
	require.NoError(t, p.settled(context.Background(), func(v *view, _ time.Time) error {
		h = v.records[i.ID].Process.Handle
		return nil
	}))
	require.NoError(t, h.Kill())
	eventually(t, "it has vanished", func() bool {
		list, err := p.List(context.Background(), "lab")
		require.NoError(t, err)
		return list[0].State == cloud.Terminated && list[0].StateCause == "vanished"
	})
}

func TestRealSixtyInstancesStartTogether(t *testing.T) {
	p := realLab(t, nil)
	began := time.Now()
	list := mustLaunch(t, p, request("a", 60))
	t.Logf("60 instances were there after %s", time.Since(began))
	require.Len(t, celltest.Inits(t), 60)
	began = time.Now()
	require.NoError(t, p.Terminate(context.Background(), ids(list)))
	t.Logf("60 instances were terminated after %s", time.Since(began))
	eventually(t, "all are gone", func() bool { return len(celltest.Inits(t)) == 0 })
	t.Logf("60 instances were gone after %s", time.Since(began))
}

func TestNetworkThatTheMachineUsesIsRefused(t *testing.T) {
	p := realLab(t, nil)
	mustLaunch(t, p, request("a", 1))
	o := realOptions(t, filepath.Join(t.TempDir(), "other"))
	o.Local.Network = "10.213.2.0/24"
	other, err := Open(o)
	require.NoError(t, err)
	_, err = other.Launch(context.Background(), request("a", 1))
	e := cloud.AsError(err)
	require.Equal(t, cloud.Config, e.Class)
	require.Contains(t, e.Message, "overlaps 10.213.0.1/22 of interface "+cells.BridgeName(p.root))
}

func TestMissingCellInitIsAConfigError(t *testing.T) {
	o := realOptions(t, t.TempDir())
	o.InitPath = "/nonexistent/midair-cellinit"
	p, err := Open(o)
	require.NoError(t, err)
	_, err = p.Launch(context.Background(), request("a", 1))
	e := cloud.AsError(err)
	require.Equal(t, cloud.Config, e.Class)
	require.Contains(t, e.Message, "/nonexistent/midair-cellinit cannot be run")
}

// TestKillAtAnyStep kills a process in the midst of Launch. Afterwards there is
// nothing, or the instances that List shows and that the token gives, and no
// cell that nobody knows.
func TestKillAtAnyStep(t *testing.T) {
	if at := os.Getenv(envCrash); at != "" {
		launchAndDie(t, at)
	}
	for step, there := range map[string]int{stepRecords: 0, stepToken: 3, stepStarted: 3, stepRecorded: 3} {
		t.Run(step, func(t *testing.T) {
			p := realLab(t, quickBoot)
			cmd := exec.Command(os.Args[0], "-test.run=^TestKillAtAnyStep$")
			cmd.Env = append(os.Environ(), envCrash+"="+step+" "+p.root)
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			require.True(t, errors.As(err, &exit), "%v", err)
			require.Equal(t, syscall.SIGKILL, exit.Sys().(syscall.WaitStatus).Signal(), string(out))

			list, err := p.List(context.Background(), "lab")
			require.NoError(t, err)
			require.Len(t, list, there)
			got := mustLaunch(t, p, request("a", 3))
			require.Len(t, got, 3)
			if there > 0 {
				require.Equal(t, ids(list), ids(got))
			}
			for _, i := range got {
				require.True(t, i.Live())
				eventually(t, "it runs", func() bool { return strings.Contains(console(t, p, i.ID), "up as "+i.Node) })
			}
			eventually(t, "no other cell is there", func() bool { return len(celltest.Inits(t)) == 3 })
			require.Equal(t, "10.213.0.2 10.213.0.3 10.213.0.4", fmt.Sprint(got[0].Addr, " ", got[1].Addr, " ", got[2].Addr))
		})
	}
}

func quickBoot(o *Options) { o.Local.BootDelay = 50 * time.Millisecond }

func launchAndDie(t *testing.T, at string) {
	step, root, _ := strings.Cut(at, " ")
	o := realOptions(t, root)
	quickBoot(&o)
	p, err := Open(o)
	require.NoError(t, err)
	p.reached = func(s string) {
		if s == step {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	_, err = p.Launch(context.Background(), request("a", 3))
	require.NoError(t, err)
}

func TestKilledLaunchCanBeDestroyed(t *testing.T) {
	p := realLab(t, nil)
	cmd := exec.Command(os.Args[0], "-test.run=^TestKillAtAnyStep$")
	cmd.Env = append(os.Environ(), envCrash+"="+stepStarted+" "+p.root)
	require.Error(t, cmd.Run())
	// realLab's cleanup finds the cell that nobody knows.
}
