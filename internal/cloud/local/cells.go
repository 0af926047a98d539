package local

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/midair-hpc/midair/internal/cell"
	"github.com/midair-hpc/midair/internal/cloud"
)

// cells runs what instances are made of.
type cells interface {
	// prepare makes what all cells need. It is called before every launch.
	prepare() error
	start(ctx context.Context, s cell.Spec) (process, error)
	alive(p process) bool
	// kill ends a cell; it is no error if it is gone.
	kill(p process) error
	// wait returns when a killed cell has ended.
	wait(ctx context.Context, p process) error
	// sweep ends the cells that write to one of these consoles: what a process
	// started that was killed before it could record it.
	sweep(consoles []string) error
	// remove takes away what prepare made.
	remove() error
}

// namespaces are real cells, on a bridge of their own.
type namespaces struct {
	initPath string
	bridge   string
	network  netip.Prefix
	machine  func() (string, error) // see machine
}

// bridgeName gives each root a bridge of its own. Names of network interfaces
// have at most 15 characters.
func bridgeName(root string) string {
	sum := sha256.Sum256([]byte(root))
	return "mda-" + hex.EncodeToString(sum[:4])
}

func addressOn(n netip.Prefix, a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, n.Bits()) }

func (c *namespaces) prepare() error {
	if os.Geteuid() != 0 {
		return &cloud.Error{Class: cloud.Unauthorized, Code: "UnauthorizedOperation", Message: "making local instances needs root"}
	}
	if err := unix.Access(c.initPath, unix.X_OK); err != nil {
		return &cloud.Error{Class: cloud.Config, Message: fmt.Sprintf("%s cannot be run (%v); install it beside midair", c.initPath, err), Err: err}
	}
	if err := c.checkNetwork(); err != nil {
		return err
	}
	return cell.EnsureBridge(c.bridge, addressOn(c.network, gateway(c.network)))
}

// checkNetwork refuses a network that this machine already uses for something
// else: neither would work.
func (c *namespaces) checkNetwork() error {
	links, err := net.Interfaces()
	if err != nil {
		return fmt.Errorf("list network interfaces: %w", err)
	}
	for _, l := range links {
		if l.Name == c.bridge {
			// Another launch has just made it.
			return nil
		}
	}
	for _, l := range links {
		addrs, err := l.Addrs()
		if err != nil {
			// It has just gone.
			continue
		}
		for _, a := range addrs {
			n, err := netip.ParsePrefix(a.String())
			if err == nil && n.Masked().Overlaps(c.network) {
				return &cloud.Error{Class: cloud.Config,
					Message: fmt.Sprintf("network %s of the local cloud overlaps %s of interface %s; choose another in midair.yaml", c.network, n, l.Name)}
			}
		}
	}
	return nil
}

func (c *namespaces) start(ctx context.Context, s cell.Spec) (process, error) {
	m, err := c.machine()
	if err != nil {
		return process{}, err
	}
	h, err := cell.Start(ctx, c.initPath, s)
	return process{Handle: h, Machine: m}, err
}

func (c *namespaces) alive(p process) bool {
	m, err := c.machine()
	// If this machine does not say who it is, the instance gets the benefit of
	// the doubt: an end is never taken back.
	return err != nil || (p.Machine == m && p.Alive())
}

func (c *namespaces) kill(p process) error {
	m, err := c.machine()
	if err != nil || p.Machine != m {
		return err
	}
	return p.Kill()
}

func (c *namespaces) wait(ctx context.Context, p process) error {
	m, err := c.machine()
	if err != nil || p.Machine != m {
		return err
	}
	return p.Wait(ctx)
}

func (c *namespaces) remove() error { return cell.RemoveBridge(c.bridge) }

// machine names this boot and PID namespace, outside of which a PID and a
// start time say nothing.
func machine() (string, error) {
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("identify the machine: %w", err)
	}
	ns, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return "", fmt.Errorf("identify the machine: %w", err)
	}
	return strings.TrimSpace(string(boot)) + " " + ns, nil
}

func (c *namespaces) sweep(consoles []string) error {
	var want []os.FileInfo
	for _, path := range consoles {
		if info, err := os.Stat(path); err == nil {
			want = append(want, info)
		}
	}
	if len(want) == 0 {
		return nil
	}
	procs, err := os.ReadDir("/proc")
	if err != nil {
		return fmt.Errorf("look for lost cells: %w", err)
	}
	var errs []error
	for _, e := range procs {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			errs = append(errs, c.sweepOne(pid, want))
		}
	}
	return errors.Join(errs...)
}

func (c *namespaces) sweepOne(pid int, want []os.FileInfo) error {
	// The descriptor pins the process while we look at it.
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	if !c.isInit(pid) || !holds(pid, want) {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && err != unix.ESRCH {
		return fmt.Errorf("end lost cell %d: %w", pid, err)
	}
	return nil
}

// isInit reports whether a process may be a cell's init: it runs that program
// as PID 1 of a PID namespace below ours.
func (c *namespaces) isInit(pid int) bool {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	status, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(status)) {
		if ids, ok := strings.CutPrefix(line, "NSpid:"); ok {
			f := strings.Fields(ids)
			return len(f) > 1 && f[len(f)-1] == "1"
		}
	}
	return false
}

// holds reports whether a process has one of these files open.
func holds(pid int, want []os.FileInfo) bool {
	dir := filepath.Join("/proc", strconv.Itoa(pid), "fd")
	fds, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	for _, fd := range fds {
		info, err := os.Stat(filepath.Join(dir, fd.Name()))
		if err != nil {
			continue
		}
		for _, w := range want {
			if os.SameFile(w, info) {
				return true
			}
		}
	}
	return false
}
