package local

import (
	"testing"

	"github.com/midair-hpc/midair/internal/cell/celltest"
)

// envCrash names the step at which a test's process ends itself; see
// TestKillAtAnyStep.
const envCrash = "MIDAIR_TEST_CRASH_AT"

func TestMain(m *testing.M) { celltest.Main(m) }

// realOptions are those of a cloud of real cells.
func realOptions(tb testing.TB, root string) Options {
	tb.Helper()
	o := testOptions(root)
	o.InitPath = celltest.InitPath(tb)
	o.Local.Network = "10.213.0.0/22"
	o.Argv = []string{"/bin/sh", "-c", "echo up as %n, host $(hostname); exec sleep 1000"}
	return o
}
