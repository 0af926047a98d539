package watch

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/spool"
)

// soon bounds waits for what should come at once; a busy machine may need it.
const soon = 30 * time.Second

// start watches without sweeps, unless a test asks for them.
func start(t *testing.T, dir string, sweep time.Duration) (<-chan struct{}, context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	wake, err := Watch(ctx, dir, sweep)
	require.NoError(t, err)
	return wake, cancel
}

func awaken(t *testing.T, wake <-chan struct{}) {
	t.Helper()
	select {
	case _, open := <-wake:
		require.True(t, open)
	case <-time.After(soon):
		t.Fatal("no wake")
	}
}

func write(t *testing.T, dir string) {
	t.Helper()
	_, err := spool.Write(dir, spool.Record{Kind: spool.Resume, At: time.Now(), Nodes: "gpu-1"})
	require.NoError(t, err)
}

func TestRecordWakesWithoutASweep(t *testing.T) {
	dir := t.TempDir()
	wake, _ := start(t, dir, time.Hour)
	awaken(t, wake) // for what was there before
	write(t, dir)
	awaken(t, wake)
}

func TestManyRecordsAreFewWakes(t *testing.T) {
	dir := t.TempDir()
	wake, _ := start(t, dir, time.Hour)
	for range 50 {
		write(t, dir)
	}
	awaken(t, wake)
	require.LessOrEqual(t, len(wake), 1)
}

func TestTemporariesDoNotWake(t *testing.T) {
	dir := t.TempDir()
	wake, _ := start(t, dir, time.Hour)
	awaken(t, wake)
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".new-1"), nil, 0o600))
	select {
	case <-wake:
		t.Fatal("woken by a temporary")
	case <-time.After(50 * time.Millisecond):
	}
}

func TestSweepsWakeAlsoWithoutARecord(t *testing.T) {
	wake, _ := start(t, t.TempDir(), time.Millisecond)
	for range 3 {
		awaken(t, wake)
	}
}

func TestFolderMadeAnewIsWatchedAgain(t *testing.T) {
	for name, vanish := range map[string]func(dir string) error{
		"removed":    os.RemoveAll,
		"moved away": func(dir string) error { return os.Rename(dir, dir+".old") },
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "spool")
			require.NoError(t, os.Mkdir(dir, 0o700))
			w, err := newWatcher(dir)
			require.NoError(t, err)
			ticks, done := make(chan time.Time), make(chan struct{})
			ctx, cancel := context.WithCancel(context.Background())
			go func() { defer close(done); w.run(ctx, ticks) }()
			defer func() { cancel(); <-done }()
			sweep := func() { ticks <- time.Time{}; awaken(t, w.wake) }

			require.NoError(t, vanish(dir))
			sweep()
			require.NoError(t, os.Mkdir(dir, 0o700))
			// The kernel's word of the removal may come after the first sweep.
			for end := time.Now().Add(soon); ; {
				require.True(t, time.Now().Before(end), "the new folder is not watched")
				sweep()
				write(t, dir)
				select {
				case <-w.wake:
					return
				case <-time.After(50 * time.Millisecond):
				}
			}
		})
	}
}

// A folder that is gone for a while only delays: the channel stays open and
// sweeps go on.
func TestMissingFolderDoesNotEndTheWatch(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "spool")
	require.NoError(t, os.Mkdir(dir, 0o700))
	wake, _ := start(t, dir, time.Millisecond)
	require.NoError(t, os.Remove(dir))
	for range 10 {
		awaken(t, wake)
	}
}

func TestWatchEndsWithItsContext(t *testing.T) {
	wake, cancel := start(t, t.TempDir(), time.Millisecond)
	awaken(t, wake)
	cancel()
	deadline := time.After(soon)
	for open := true; open; {
		select {
		case _, open = <-wake:
		case <-deadline:
			t.Fatal("the channel is not closed")
		}
	}
}

func TestWatchNeedsAFolderAndASweep(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	_, err := Watch(t.Context(), missing, time.Second)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, missing)
	_, err = Watch(t.Context(), t.TempDir(), 0)
	require.ErrorContains(t, err, "want more than 0")
}
