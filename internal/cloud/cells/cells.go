// Package cells makes the machines of clouds that are on this machine, the local
// one and the EC2 stand-in: each is a cell with an address on a bridge of its
// cloud, in which a slurmd runs.
package cells

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
	"sync"

	"golang.org/x/sys/unix"

	"github.com/midair-hpc/midair/internal/cell"
	"github.com/midair-hpc/midair/internal/cloud"
)

// Process is the cell of an instance. Machine tells boots and PID namespaces
// apart, in which the handle's numbers mean something else.
type Process struct {
	cell.Handle
	Machine string `json:"machine"`
}

// Cells are the machines of one cloud, on a bridge of their own. They are
// processes, so they outlive whoever made them, but not a reboot.
type Cells struct {
	root     string
	initPath string
	bridge   string
	network  netip.Prefix
	machine  func() (string, error) // see machine
}

// New gives the cells of the cloud that is kept in root. It touches neither disk
// nor network.
func New(root, initPath string, network netip.Prefix) *Cells {
	return &Cells{root: root, initPath: initPath, bridge: BridgeName(root), network: network, machine: sync.OnceValues(machine)}
}

// BridgeName gives each root a bridge of its own. Names of network interfaces
// have at most 15 characters.
func BridgeName(root string) string {
	sum := sha256.Sum256([]byte(root))
	return "mda-" + hex.EncodeToString(sum[:4])
}

// Gateway is a network's first address, which is the bridge's.
func Gateway(n netip.Prefix) netip.Addr { return n.Masked().Addr().Next() }

func addressOn(n netip.Prefix, a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, n.Bits()) }

// Prepare makes what all cells need. It is called before cells are started.
func (c *Cells) Prepare() error {
	if os.Geteuid() != 0 {
		return &cloud.Error{Class: cloud.Unauthorized, Code: "UnauthorizedOperation", Message: "making local instances needs root"}
	}
	if err := unix.Access(c.initPath, unix.X_OK); err != nil {
		return &cloud.Error{Class: cloud.Config, Message: fmt.Sprintf("%s cannot be run (%v); install it beside midair", c.initPath, err), Err: err}
	}
	if err := c.checkNetwork(); err != nil {
		return err
	}
	return cell.EnsureBridge(c.bridge, addressOn(c.network, Gateway(c.network)))
}

// checkNetwork refuses a network that this machine already uses for something
// else: neither would work.
func (c *Cells) checkNetwork() error {
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

// Start makes a cell.
func (c *Cells) Start(ctx context.Context, s cell.Spec) (Process, error) {
	m, err := c.machine()
	if err != nil {
		return Process{}, err
	}
	h, err := cell.Start(ctx, c.initPath, s)
	return Process{Handle: h, Machine: m}, err
}

// Alive reports whether a cell still runs.
func (c *Cells) Alive(p Process) bool {
	m, err := c.machine()
	// If this machine does not say who it is, the instance gets the benefit of
	// the doubt: an end is never taken back.
	return err != nil || (p.Machine == m && p.Alive())
}

// Kill ends a cell; it is no error if it is gone.
func (c *Cells) Kill(p Process) error {
	m, err := c.machine()
	if err != nil || p.Machine != m {
		return err
	}
	return p.Kill()
}

// Wait returns when a killed cell has ended.
func (c *Cells) Wait(ctx context.Context, p Process) error {
	m, err := c.machine()
	if err != nil || p.Machine != m {
		return err
	}
	return p.Wait(ctx)
}

// Remove takes away what Prepare made.
func (c *Cells) Remove() error { return cell.RemoveBridge(c.bridge) }

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

// Sweep ends the cells that write to one of these consoles: what a process
// started that was killed before it could record it.
func (c *Cells) Sweep(consoles []string) error {
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

func (c *Cells) sweepOne(pid int, want []os.FileInfo) error {
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
func (c *Cells) isInit(pid int) bool {
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
