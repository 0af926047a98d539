package cell

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// RunInit is PID 1 of a cell: it reads its Spec, makes the inside, reports
// ready, starts Argv when its time has come, and reaps until it is ended. It
// returns when the creator of a cell with a lifeline is gone or on SIGTERM.
func RunInit() error {
	if os.Getpid() != 1 {
		return errors.New("midair-cellinit is started by midair as PID 1 of a cell, not by hand")
	}
	ready := os.NewFile(FDReady, "ready")
	s, log, err := makeInside()
	if err != nil {
		_, _ = io.WriteString(ready, err.Error())
		return err
	}
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	end := make(chan struct{})
	if s.Lifeline {
		go func() {
			_, _ = io.Copy(io.Discard, os.NewFile(FDLifeline, "lifeline"))
			close(end)
		}()
	}
	if _, err := io.WriteString(ready, "ok"); err != nil {
		return fmt.Errorf("report ready: %w", err)
	}
	ready.Close()

	var start <-chan time.Time
	if len(s.Argv) > 0 {
		start = time.After(time.Until(s.StartedAt.Add(s.Delay)))
	}
	main := 0
	for {
		select {
		case <-start:
			if main, err = startMain(s, log); err != nil {
				slog.New(slog.NewTextHandler(log, nil)).Error("start main process", "err", err)
			}
		case <-children:
			reap(main, log)
		case <-stop:
			return nil
		case <-end:
			return nil
		}
	}
}

// makeInside does everything that must be there before the cell is ready.
func makeInside() (Spec, *os.File, error) {
	var s Spec
	if err := json.NewDecoder(os.NewFile(FDSpec, "spec")).Decode(&s); err != nil {
		return s, nil, fmt.Errorf("read spec: %w", err)
	}
	hostNet := netns.NsHandle(FDNetns)
	for _, fd := range []int{FDNetns, FDReady, FDLifeline} {
		unix.CloseOnExec(fd)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return s, nil, fmt.Errorf("make mounts private: %w", err)
	}
	for _, m := range s.Mounts {
		if err := mount(m); err != nil {
			return s, nil, err
		}
	}
	if s.Root != "" && s.Root != "/" {
		if err := enterRoot(s.Root); err != nil {
			return s, nil, err
		}
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return s, nil, fmt.Errorf("mount /proc: %w", err)
	}
	if err := unix.Sethostname([]byte(s.Hostname)); err != nil {
		return s, nil, fmt.Errorf("set host name %s: %w", s.Hostname, err)
	}
	log, err := openLog(s.Log)
	if err != nil {
		return s, nil, err
	}
	if err := makeDevices(s.Devices); err != nil {
		return s, nil, err
	}
	return s, log, connect(s.Network, hostNet)
}

func openLog(path string) (*os.File, error) {
	if path == "" {
		path = os.DevNull
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o640)
	if err != nil {
		return nil, fmt.Errorf("open cell log: %w", err)
	}
	return f, nil
}

func mount(m Mount) error {
	for _, d := range m.MakeDirs {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return fmt.Errorf("mount %s: %w", m.Target, err)
		}
	}
	var flags uintptr
	if m.Bind {
		flags = unix.MS_BIND
	}
	if err := unix.Mount(m.Source, m.Target, m.Type, flags, m.Data); err != nil {
		return fmt.Errorf("mount %s (%s %s) on %s: %w", m.Source, m.Type, m.Data, m.Target, err)
	}
	return nil
}

// enterRoot changes the root folder. The new root must be a mount point of its
// own, or tools that make their mounts private below it fail.
func enterRoot(root string) error {
	if err := unix.Mount("sysfs", filepath.Join(root, "sys"), "sysfs", 0, ""); err != nil {
		return fmt.Errorf("mount sys below %s: %w", root, err)
	}
	if err := unix.Chroot(root); err != nil {
		return fmt.Errorf("change root to %s: %w", root, err)
	}
	if err := os.Chdir("/"); err != nil {
		return fmt.Errorf("change root to %s: %w", root, err)
	}
	return nil
}

func makeDevices(devices []Device) error {
	for _, d := range devices {
		if err := os.MkdirAll(filepath.Dir(d.Path), 0o755); err != nil {
			return fmt.Errorf("make device %s: %w", d.Path, err)
		}
		err := unix.Mknod(d.Path, unix.S_IFCHR|0o666, int(unix.Mkdev(d.Major, d.Minor)))
		if err != nil && err != unix.EEXIST {
			return fmt.Errorf("make device %s: %w", d.Path, err)
		}
	}
	return nil
}

// connect brings up loopback and, with a Network, eth0 on the creator's bridge.
// The host's end of the pair vanishes with this namespace.
func connect(n *Network, hostNet netns.NsHandle) error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("find lo: %w", err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return fmt.Errorf("bring up lo: %w", err)
	}
	if n == nil {
		return nil
	}
	var r [5]byte
	if _, err := rand.Read(r[:]); err != nil {
		return fmt.Errorf("name the network pair: %w", err)
	}
	peer := "mv" + hex.EncodeToString(r[:])
	veth := &netlink.Veth{
		LinkAttrs:     netlink.LinkAttrs{Name: "eth0"},
		PeerName:      peer,
		PeerNamespace: netlink.NsFd(int(hostNet)),
	}
	if err := netlink.LinkAdd(veth); err != nil {
		return fmt.Errorf("make network pair %s: %w", peer, err)
	}
	host, err := netlink.NewHandleAt(hostNet)
	if err != nil {
		return fmt.Errorf("reach the creator's network: %w", err)
	}
	defer host.Close()
	br, err := host.LinkByName(n.Bridge)
	if err != nil {
		return fmt.Errorf("find bridge %s: %w", n.Bridge, err)
	}
	end, err := host.LinkByName(peer)
	if err != nil {
		return fmt.Errorf("find %s: %w", peer, err)
	}
	if err := host.LinkSetMaster(end, br); err != nil {
		return fmt.Errorf("plug %s into %s: %w", peer, n.Bridge, err)
	}
	if err := host.LinkSetUp(end); err != nil {
		return fmt.Errorf("bring up %s: %w", peer, err)
	}
	eth, err := netlink.LinkByName("eth0")
	if err != nil {
		return fmt.Errorf("find eth0: %w", err)
	}
	addr, err := netlink.ParseAddr(n.Address.String())
	if err != nil {
		return fmt.Errorf("set address %s: %w", n.Address, err)
	}
	if err := netlink.AddrAdd(eth, addr); err != nil {
		return fmt.Errorf("set address %s: %w", n.Address, err)
	}
	if err := netlink.LinkSetUp(eth); err != nil {
		return fmt.Errorf("bring up eth0: %w", err)
	}
	if n.Gateway.IsValid() {
		if err := netlink.RouteAdd(&netlink.Route{LinkIndex: eth.Attrs().Index, Gw: net.IP(n.Gateway.AsSlice())}); err != nil {
			return fmt.Errorf("set default route %s: %w", n.Gateway, err)
		}
	}
	return nil
}

func startMain(s Spec, log *os.File) (int, error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, err
	}
	defer null.Close()
	p, err := os.StartProcess(s.Argv[0], s.Argv, &os.ProcAttr{
		Dir: "/", Env: s.Env, Files: []*os.File{null, log, log},
		Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return 0, fmt.Errorf("run %s: %w", s.Argv[0], err)
	}
	pid := p.Pid
	// Reaped below with everything else.
	_ = p.Release()
	return pid, nil
}

// reap collects every ended process. The cell goes on when its main process
// ends, as a machine does; the log says so.
func reap(main int, log *os.File) {
	for {
		var ws unix.WaitStatus
		pid, err := unix.Wait4(-1, &ws, unix.WNOHANG, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
		if pid == main {
			slog.New(slog.NewTextHandler(log, nil)).Warn("main process ended", "exit", ws.ExitStatus(), "signal", int(ws.Signal()))
		}
	}
}
