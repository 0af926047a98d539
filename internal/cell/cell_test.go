package cell_test

import (
	"context"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/vishvananda/netlink"

	"github.com/midair-hpc/midair/internal/cell"
)

var initPath string

func TestMain(m *testing.M) {
	if os.Getenv("MIDAIR_CELL_CHILD") != "" {
		os.Exit(m.Run()) // the parent test has built the init
	}
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "midair-cell-")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		initPath = filepath.Join(dir, cell.InitName)
		cmd := exec.Command("go", "build", "-o", initPath, "./midair-cellinit")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			panic(string(out))
		}
		return m.Run()
	}())
}

func needRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("making namespaces needs root")
	}
}

func start(t *testing.T, s cell.Spec) cell.Handle {
	needRoot(t)
	h, err := cell.Start(context.Background(), initPath, s)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, h.Kill()) })
	return h
}

func run(t *testing.T, h cell.Handle, argv ...string) string {
	t.Helper()
	out, err := h.Command(context.Background(), argv...).CombinedOutput()
	require.NoError(t, err, string(out))
	return strings.TrimSpace(string(out))
}

func waitGone(t *testing.T, h cell.Handle) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	require.NoError(t, h.Wait(ctx))
	require.False(t, h.Alive())
}

func TestCellHasOwnHostNameProcessesAndNetwork(t *testing.T) {
	h := start(t, cell.Spec{Hostname: "gpu-001"})
	require.True(t, h.Alive())
	require.Equal(t, "gpu-001", run(t, h, "/bin/hostname"))
	require.Contains(t, run(t, h, "/usr/bin/readlink", "/proc/1/exe"), cell.InitName)
	require.Contains(t, run(t, h, "/sbin/ip", "-o", "addr", "show", "lo"), "127.0.0.1")
}

func TestKillEndsEverythingInside(t *testing.T) {
	h := start(t, cell.Spec{Hostname: "gpu-001", Argv: []string{"/bin/sh", "-c", "setsid sleep 1000 & exec sleep 1000"}})
	cmd := h.Command(context.Background(), "/bin/sleep", "1000")
	require.NoError(t, cmd.Start())
	require.NoError(t, h.Kill())
	waitGone(t, h)
	require.Error(t, cmd.Wait(), "a command that entered the cell ends with it")
	require.NoError(t, h.Kill(), "killing a cell that is gone is no error")
}

func TestMainProcessStartsAfterTheDelayAndLogs(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	began := time.Now()
	h := start(t, cell.Spec{Hostname: "n", StartedAt: began, Delay: 300 * time.Millisecond, Log: log, Argv: []string{"/bin/echo", "up"}})
	require.Eventually(t, func() bool {
		b, _ := os.ReadFile(log)
		return strings.Contains(string(b), "main process ended")
	}, 10*time.Second, 5*time.Millisecond)
	require.GreaterOrEqual(t, time.Since(began), 300*time.Millisecond)
	b, err := os.ReadFile(log)
	require.NoError(t, err)
	require.Contains(t, string(b), "up\n")
	require.True(t, h.Alive(), "a machine stays up when its main process ends")
}

func TestCellsReachEachOtherOverTheBridge(t *testing.T) {
	needRoot(t)
	const br = "mda-celltest"
	gw := netip.MustParsePrefix("10.213.255.1/24")
	require.NoError(t, cell.EnsureBridge(br, gw))
	require.NoError(t, cell.EnsureBridge(br, gw), "making it again changes nothing")
	t.Cleanup(func() { require.NoError(t, cell.RemoveBridge(br)); require.NoError(t, cell.RemoveBridge(br)) })
	net := func(a string) *cell.Network {
		return &cell.Network{Bridge: br, Address: netip.MustParsePrefix(a), Gateway: gw.Addr()}
	}
	a := start(t, cell.Spec{Hostname: "a", Network: net("10.213.255.2/24")})
	start(t, cell.Spec{Hostname: "b", Network: net("10.213.255.3/24")})
	run(t, a, "/bin/bash", "-c", "(echo >/dev/tcp/10.213.255.3/9) 2>&1 | grep -q 'Connection refused'")
	run(t, a, "/bin/bash", "-c", "(echo >/dev/tcp/10.213.255.1/9) 2>&1 | grep -q 'Connection refused'")
}

func TestNetworkPairVanishesWithTheCell(t *testing.T) {
	needRoot(t)
	const br = "mda-celltest2"
	gw := netip.MustParsePrefix("10.213.254.1/24")
	require.NoError(t, cell.EnsureBridge(br, gw))
	t.Cleanup(func() { require.NoError(t, cell.RemoveBridge(br)) })
	plugged := func() int {
		b, err := netlink.LinkByName(br)
		require.NoError(t, err)
		links, err := netlink.LinkList()
		require.NoError(t, err)
		n := 0
		for _, l := range links {
			if l.Attrs().MasterIndex == b.Attrs().Index {
				n++
			}
		}
		return n
	}
	h := start(t, cell.Spec{Hostname: "a", Network: &cell.Network{Bridge: br, Address: netip.MustParsePrefix("10.213.254.2/24"), Gateway: gw.Addr()}})
	require.Equal(t, 1, plugged())
	require.NoError(t, h.Kill())
	require.Eventually(t, func() bool { return plugged() == 0 }, 10*time.Second, 10*time.Millisecond)
}

func TestFailureInsideIsReportedAndLeavesNothing(t *testing.T) {
	needRoot(t)
	_, err := cell.Start(context.Background(), initPath, cell.Spec{Hostname: "n", Network: &cell.Network{Bridge: "mda-absent", Address: netip.MustParsePrefix("10.213.253.2/24")}})
	require.ErrorContains(t, err, "find bridge mda-absent")
}

func TestPrivateMountsAreInvisibleOutside(t *testing.T) {
	dir := t.TempDir()
	h := start(t, cell.Spec{Hostname: "n", Mounts: []cell.Mount{
		{Source: "tmpfs", Target: dir, Type: "tmpfs"},
		{Source: "overlay", Target: "/etc", Type: "overlay", Data: "lowerdir=/etc,upperdir=" + dir + "/u,workdir=" + dir + "/w", MakeDirs: []string{dir + "/u", dir + "/w"}},
	}})
	run(t, h, "/bin/sh", "-c", "echo hello >/etc/midair-cell-test")
	require.NoFileExists(t, "/etc/midair-cell-test")
	require.FileExists(t, h.Path("/etc/midair-cell-test"))
}

func TestCellWithLifelineEndsWithItsCreator(t *testing.T) {
	needRoot(t)
	if os.Getenv("MIDAIR_CELL_CHILD") != "" {
		h, err := cell.Start(context.Background(), os.Getenv("MIDAIR_CELL_CHILD"), cell.Spec{Hostname: "n", Lifeline: true})
		if err != nil {
			panic(err)
		}
		os.Stdout.WriteString(run(t, h, "/bin/hostname") + "\n")
		select {}
	}
	cmd := exec.Command(os.Args[0], "-test.run=TestCellWithLifelineEndsWithItsCreator")
	cmd.Env = append(os.Environ(), "MIDAIR_CELL_CHILD="+initPath)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	buf := make([]byte, 2)
	_, err = out.Read(buf)
	require.NoError(t, err)
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	// The pipe that the cell's commands inherited closes when all are gone.
	require.Eventually(t, func() bool {
		ps, err := exec.Command("pgrep", "-f", "^"+initPath).Output()
		return err != nil && len(ps) == 0
	}, 10*time.Second, 20*time.Millisecond)
}
