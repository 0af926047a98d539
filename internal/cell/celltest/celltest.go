// Package celltest lets tests make real cells: in namespaces of their own, so
// that whatever a failing test leaves behind ends with it.
package celltest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/midair-hpc/midair/internal/cell"
)

// envInit names the built cell init; it is set in the private machine.
const envInit = "MIDAIR_TEST_CELLINIT"

// Main is a package's TestMain. It runs the tests in PID, network and mount
// namespaces of their own if it may.
func Main(m *testing.M) {
	if os.Geteuid() != 0 || os.Getenv(envInit) != "" {
		os.Exit(m.Run())
	}
	code, err := runPrivately()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

// InitPath is the cell init. A test that may not make cells is skipped.
func InitPath(tb testing.TB) string {
	tb.Helper()
	path := os.Getenv(envInit)
	if path == "" {
		tb.Skip("making namespaces needs root")
	}
	return path
}

// Inits gives the PIDs of all cells in this private machine.
func Inits(tb testing.TB) []string {
	tb.Helper()
	procs, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil {
		tb.Fatal(err)
	}
	var pids []string
	for _, exe := range procs {
		if to, err := os.Readlink(exe); err == nil && filepath.Base(to) == cell.InitName {
			pids = append(pids, strings.Split(exe, "/")[2])
		}
	}
	return pids
}

func runPrivately() (int, error) {
	dir, err := os.MkdirTemp("", "midair-cells-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	init := filepath.Join(dir, cell.InitName)
	build := exec.Command("go", "build", "-o", init, "github.com/midair-hpc/midair/internal/cell/midair-cellinit")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return 1, fmt.Errorf("build %s: %w\n%s", cell.InitName, err, out)
	}
	cmd := exec.Command("/bin/sh", append([]string{"-c", `mount --make-rprivate / && mount -t proc proc /proc && exec "$0" "$@"`}, os.Args...)...)
	cmd.Env = append(os.Environ(), envInit+"="+init)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWNS,
		Pdeathsig:  syscall.SIGKILL,
	}
	err = cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return max(1, exit.ExitCode()), nil
	}
	if err != nil {
		return 1, err
	}
	return 0, nil
}
