package local

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/midair-hpc/midair/internal/cell"
)

const (
	envInit  = "MIDAIR_TEST_CELLINIT" // the built cell init; set in the private machine
	envCrash = "MIDAIR_TEST_CRASH_AT" // see TestKillAtAnyStep
)

// TestMain runs the tests in PID, network and mount namespaces of their own if
// it may, so that whatever a failing test leaves behind ends with it.
func TestMain(m *testing.M) {
	if os.Geteuid() != 0 || os.Getenv(envInit) != "" {
		os.Exit(m.Run())
	}
	code, err := runPrivately()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

func runPrivately() (int, error) {
	dir, err := os.MkdirTemp("", "midair-local-")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	init := filepath.Join(dir, cell.InitName)
	build := exec.Command("go", "build", "-o", init, "../../cell/midair-cellinit")
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

// realOptions are those of a cloud of real cells.
func realOptions(tb testing.TB, root string) Options {
	tb.Helper()
	o := testOptions(root)
	o.InitPath = os.Getenv(envInit)
	if o.InitPath == "" {
		tb.Skip("making namespaces needs root")
	}
	o.Local.Network = "10.213.0.0/22"
	o.Argv = []string{"/bin/sh", "-c", "echo up as %n, host $(hostname); exec sleep 1000"}
	return o
}
