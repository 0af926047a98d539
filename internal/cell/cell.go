// Package cell runs a process tree that lives and dies as one: its own PID,
// mount, UTS, IPC and network namespaces under a small init. When the init is
// killed the kernel ends every process in it, and with them go its mounts, its
// network interfaces and its host name, so nothing can be left behind.
//
// The local provider's instances are cells, and so is the private machine that
// the test cluster and the demo run in. Cells nest.
package cell

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// InitName is the file name of the program that is PID 1 of every cell.
const InitName = "midair-cellinit"

// File descriptors that Start hands to the init.
const (
	FDSpec     = 3 // read end: the Spec as JSON
	FDNetns    = 4 // the creator's network namespace
	FDReady    = 5 // write end: empty at close means ready, text is the error
	FDLifeline = 6 // read end, if Spec.Lifeline: end of file ends the cell
)

// Network connects a cell to a bridge in its creator's network namespace.
type Network struct {
	Bridge  string       `json:"bridge"`
	Address netip.Prefix `json:"address"` // such as 10.213.0.5/22, on eth0
	Gateway netip.Addr   `json:"gateway"` // default route; the zero Addr: none
}

// Device is a character device that exists before Argv starts.
type Device struct {
	Path         string `json:"path"`
	Major, Minor uint32
}

// Mount is one mount(2), made in the cell's own mount namespace.
type Mount struct {
	Source   string   `json:"source"`
	Target   string   `json:"target"`
	Type     string   `json:"type"` // empty with Bind
	Data     string   `json:"data"`
	Bind     bool     `json:"bind"`
	MakeDirs []string `json:"make_dirs"` // made before mounting
}

// Spec says what is in a cell.
type Spec struct {
	Hostname string   `json:"hostname"`
	Network  *Network `json:"network"` // nil: only loopback
	Mounts   []Mount  `json:"mounts"`
	// Root, if set, becomes the cell's root folder after Mounts; proc and sys
	// are mounted below it. It holds another system's files, such as a chroot
	// with another Slurm version.
	Root    string   `json:"root"`
	Devices []Device `json:"devices"`
	// StartedAt + Delay is when Argv is started; the zero time means now.
	StartedAt time.Time     `json:"started_at"`
	Delay     time.Duration `json:"delay"`
	Argv      []string      `json:"argv"` // empty: the cell only holds
	Env       []string      `json:"env"`
	Log       string        `json:"log"` // the init's and Argv's output, appended; empty: discarded
	// Lifeline ties the cell to its creator: it ends when the creator does,
	// even by kill -9.
	Lifeline bool `json:"lifeline"`
}

// Handle identifies a cell by its init, as seen from the creator's PID
// namespace. PID and start time together are unique until the next boot.
type Handle struct {
	PID       int    `json:"pid"`
	StartTime uint64 `json:"start_time"` // clock ticks since boot, field 22 of /proc/PID/stat

	lifeline *os.File
}

// Start makes a cell and returns when its namespaces, mounts, devices and
// network exist; Argv may start later. The cell is detached: it survives its
// creator unless Spec.Lifeline is set. It needs root.
func Start(ctx context.Context, initPath string, s Spec) (Handle, error) {
	var none Handle
	if s.StartedAt.IsZero() {
		s.StartedAt = time.Now()
	}
	body, err := json.Marshal(s)
	if err != nil {
		return none, fmt.Errorf("encode cell spec: %w", err)
	}
	specR, specW, err := os.Pipe()
	if err != nil {
		return none, fmt.Errorf("start cell %s: %w", s.Hostname, err)
	}
	defer specR.Close()
	defer specW.Close()
	readyR, readyW, err := os.Pipe()
	if err != nil {
		return none, fmt.Errorf("start cell %s: %w", s.Hostname, err)
	}
	defer readyR.Close()
	defer readyW.Close()
	netns, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return none, fmt.Errorf("start cell %s: open own network namespace: %w", s.Hostname, err)
	}
	defer netns.Close()

	cmd := exec.Command(initPath)
	cmd.Env = []string{}
	cmd.Dir = "/"
	cmd.ExtraFiles = []*os.File{specR, netns, readyW}
	var life *os.File
	if s.Lifeline {
		r, w, err := os.Pipe()
		if err != nil {
			return none, fmt.Errorf("start cell %s: %w", s.Hostname, err)
		}
		defer r.Close()
		life = w
		cmd.ExtraFiles = append(cmd.ExtraFiles, r)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setsid:     true,
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC | syscall.CLONE_NEWNET,
	}
	if err := cmd.Start(); err != nil {
		closeFile(life)
		return none, fmt.Errorf("start cell %s: run %s: %w", s.Hostname, initPath, err)
	}
	h := Handle{PID: cmd.Process.Pid, lifeline: life}
	abort := func(err error) (Handle, error) {
		closeFile(life)
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		return none, fmt.Errorf("start cell %s: %w", s.Hostname, err)
	}
	specR.Close()
	readyW.Close()
	if h.StartTime, _, err = procStat(h.PID); err != nil {
		return abort(err)
	}
	if _, err := specW.Write(body); err != nil {
		return abort(fmt.Errorf("hand over the spec: %w", err))
	}
	specW.Close()
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })
	said, err := io.ReadAll(readyR)
	if !stop() {
		return abort(ctx.Err())
	}
	if err != nil {
		return abort(fmt.Errorf("wait for the init: %w", err))
	}
	if string(said) != "ok" {
		if len(said) == 0 {
			said = []byte("the init ended before the cell was ready")
		}
		return abort(errors.New(string(said)))
	}
	// The init is our child as long as we live; reap it when it ends.
	go func() { _ = cmd.Wait() }()
	return h, nil
}

func closeFile(f *os.File) {
	if f != nil {
		f.Close()
	}
}

// Alive reports whether the cell's init runs. A zombie and another process
// with a recycled PID do not count.
func (h Handle) Alive() bool {
	start, state, err := procStat(h.PID)
	return err == nil && start == h.StartTime && state != 'Z' && state != 'X'
}

// Kill ends the cell and everything in it. It is no error if it is gone.
func (h Handle) Kill() error {
	if h.PID <= 1 {
		return fmt.Errorf("kill cell: %d is not a cell's PID", h.PID)
	}
	// The pidfd pins the process between the check and the signal.
	fd, err := unix.PidfdOpen(h.PID, 0)
	if err == unix.ESRCH {
		return nil
	}
	if err != nil {
		return fmt.Errorf("kill cell %d: %w", h.PID, err)
	}
	defer unix.Close(fd)
	if !h.Alive() {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && err != unix.ESRCH {
		return fmt.Errorf("kill cell %d: %w", h.PID, err)
	}
	return nil
}

// Wait returns when the cell's init has ended or ctx is done.
func (h Handle) Wait(ctx context.Context) error {
	fd, err := unix.PidfdOpen(h.PID, 0)
	if err == unix.ESRCH {
		return nil
	}
	if err != nil {
		return fmt.Errorf("wait for cell %d: %w", h.PID, err)
	}
	defer unix.Close(fd)
	for h.Alive() {
		if err := ctx.Err(); err != nil {
			return err
		}
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		if _, err := unix.Poll(p, 100); err != nil && err != unix.EINTR {
			return fmt.Errorf("wait for cell %d: %w", h.PID, err)
		}
	}
	return nil
}

// Command prepares a command that runs inside the cell, in all its namespaces
// and below its root. It uses util-linux's nsenter.
func (h Handle) Command(ctx context.Context, argv ...string) *exec.Cmd {
	args := append([]string{"-t", strconv.Itoa(h.PID), "-m", "-u", "-i", "-n", "-p", "-r", "-w", "--"}, argv...)
	return exec.CommandContext(ctx, "/usr/bin/nsenter", args...)
}

// Path gives the path by which a file of the cell can be reached from outside.
func (h Handle) Path(p string) string {
	return fmt.Sprintf("/proc/%d/root%s", h.PID, p)
}

// procStat reads start time and state of a process. The command name in
// /proc/PID/stat may hold spaces and parentheses; the fields follow the last
// one (man 5 proc).
func procStat(pid int) (start uint64, state byte, err error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0, fmt.Errorf("read state of process %d: %w", pid, err)
	}
	s := string(b)
	i := strings.LastIndexByte(s, ')')
	if i < 0 {
		return 0, 0, fmt.Errorf("read state of process %d: unexpected text", pid)
	}
	f := strings.Fields(s[i+1:])
	if len(f) < 20 {
		return 0, 0, fmt.Errorf("read state of process %d: %d fields", pid, len(f))
	}
	start, err = strconv.ParseUint(f[19], 10, 64)
	if err != nil {
		return 0, 0, fmt.Errorf("read start time of process %d: %w", pid, err)
	}
	return start, f[0][0], nil
}
