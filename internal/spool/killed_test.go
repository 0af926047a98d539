package spool_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/spool"
)

// envWriter makes the test program write records into a folder until it is
// killed.
const envWriter = "MIDAIR_TEST_WRITER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(envWriter); dir != "" {
		for {
			r := spool.Record{Kind: spool.Resume, At: time.Now(), Nodes: strings.Repeat("n", 100_000)}
			if _, err := spool.Write(dir, r); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
		}
	}
	os.Exit(m.Run())
}

func TestKilledWriterLeavesOnlyWholeRecords(t *testing.T) {
	dir := t.TempDir()
	for round := range 8 {
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), envWriter+"="+dir)
		cmd.Stderr = os.Stderr
		require.NoError(t, cmd.Start())
		enough := func() bool { return len(filesIn(t, dir)) > 3*(round+1) }
		require.Eventually(t, enough, time.Minute, time.Millisecond)
		require.NoError(t, cmd.Process.Kill())
		require.Error(t, cmd.Wait())
		for _, r := range read(t, dir) {
			require.Len(t, r.Nodes, 100_000)
		}
	}
}
