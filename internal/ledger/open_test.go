package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func mustOpen(t testing.TB, path string) (*Ledger, Report) {
	t.Helper()
	l, r, err := Open(t.Context(), path, quiet, clock)
	require.NoError(t, err)
	return l, r
}

func TestOpenCreatesOnceAndKeeps(t *testing.T) {
	path := filepath.Join(t.TempDir(), "odd name?#%20 [1].db")
	l, r := mustOpen(t, path)
	require.Equal(t, Report{Created: true}, r)
	update(t, l, func(tx *Tx) error { return tx.AddLaunches([]Launch{aLaunch("L1", 1, 2, noon)}) })
	require.NoError(t, l.Close())

	l, r = mustOpen(t, path)
	require.Equal(t, Report{}, r)
	open, err := l.OpenLaunches(t.Context())
	require.NoError(t, err)
	require.Equal(t, []Launch{aLaunch("L1", 1, 2, noon)}, open)
	require.NoError(t, l.Close())
	names, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	for _, n := range names {
		require.Contains(t, []string{filepath.Base(path), filepath.Base(path) + "-wal", filepath.Base(path) + "-shm"}, n.Name())
	}
}

func TestFilesAreForOwnerAndGroup(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077))
	path := filepath.Join(t.TempDir(), "ledger.db")
	l, _ := mustOpen(t, path)
	defer l.Close()
	for _, suffix := range []string{"", "-wal", "-shm"} {
		st, err := os.Stat(path + suffix)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o640), st.Mode(), suffix)
	}
}

// A power cut must not undo a commit, and writers must wait for each other.
func TestEveryConnectionIsSetUp(t *testing.T) {
	l := fresh(t)
	for name, db := range map[string]*sql.DB{"writer": l.writer, "reader": l.reader} {
		for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "busy_timeout": "10000", "foreign_keys": "1"} {
			var got string
			require.NoError(t, one(t.Context(), db, []any{&got}, "PRAGMA "+pragma))
			require.Equal(t, want, got, "%s of the %s", pragma, name)
		}
	}
	_, err := l.reader.ExecContext(t.Context(), `DELETE FROM launches`)
	require.ErrorContains(t, err, "readonly")
}

func TestFolderMustExist(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "nowhere")
	_, _, err := Open(t.Context(), filepath.Join(folder, "ledger.db"), quiet, clock)
	require.ErrorIs(t, err, os.ErrNotExist)
	require.ErrorContains(t, err, "its folder "+folder+" does not exist: create it")
	_, _, err = Open(t.Context(), t.TempDir(), quiet, clock)
	require.ErrorContains(t, err, "is not a regular file")
}

func TestEmptyFileIsANewLedger(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	require.NoError(t, os.WriteFile(path, nil, 0o640)) // a crash right after its creation
	l, r := mustOpen(t, path)
	require.Equal(t, Report{Created: true}, r)
	require.NoError(t, l.Close())
}

func TestOpenReadOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	_, err := OpenReadOnly(t.Context(), path)
	require.ErrorIs(t, err, ErrAbsent)
	require.NoFileExists(t, path)
	require.NoError(t, os.WriteFile(path, nil, 0o640))
	_, err = OpenReadOnly(t.Context(), path)
	require.ErrorIs(t, err, ErrAbsent)

	w, _ := mustOpen(t, path)
	defer w.Close()
	r, err := OpenReadOnly(t.Context(), path)
	require.NoError(t, err)
	defer r.Close()
	update(t, w, func(tx *Tx) error { return tx.AddLaunches([]Launch{aLaunch("L1", 1, 2, noon)}) })
	open, err := r.OpenLaunches(t.Context())
	require.NoError(t, err)
	require.Len(t, open, 1, "it sees what is committed after it was opened")
	require.ErrorIs(t, r.Update(t.Context(), func(tx *Tx) error { return nil }), ErrReadOnly)
}

// asNobody runs fn with the file permissions of a user that owns nothing.
func asNobody(t *testing.T, fn func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		fn()
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		// The thread is not given back: it ends with the goroutine.
		runtime.LockOSThread()
		_, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0)
		if err := errors.Join(unix.Setfsgid(65534), unix.Setfsuid(65534)); err != nil || errno != 0 {
			t.Errorf("become nobody: %v, %v", err, errno)
			return
		}
		fn()
	}()
	<-done
}

// People who may read the ledger but own nothing there ask midair why their job
// waits, also while the controller is down.
func TestReaderNeedsNoWritePermission(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to take another user's permissions")
	}
	folder := t.TempDir()
	path := filepath.Join(folder, "ledger.db")
	for p := folder; len(p) > len(os.TempDir()); p = filepath.Dir(p) {
		require.NoError(t, os.Chmod(p, 0o755))
	}
	w, _ := mustOpen(t, path)
	update(t, w, func(tx *Tx) error { return tx.AddLaunches([]Launch{aLaunch("L1", 1, 2, noon)}) })
	for _, running := range []bool{true, false} {
		if !running {
			require.NoError(t, w.Close())
		}
		for _, suffix := range []string{"", "-wal", "-shm"} {
			require.NoError(t, os.Chmod(path+suffix, 0o644)) // "others" stand for the group
		}
		var open []Launch
		var err error
		asNobody(t, func() {
			var r *Ledger
			if r, err = OpenReadOnly(t.Context(), path); err != nil {
				return
			}
			defer r.Close()
			open, err = r.OpenLaunches(t.Context())
		})
		require.NoError(t, err, "controller running: %v", running)
		require.Len(t, open, 1)
	}
}

func TestUnreadableIsNeverMovedAside(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "ledger.db")
	for p := folder; len(p) > len(os.TempDir()); p = filepath.Dir(p) {
		require.NoError(t, os.Chmod(p, 0o777))
	}
	l, _ := mustOpen(t, path)
	require.NoError(t, l.Close())
	for _, suffix := range []string{"", "-wal", "-shm"} {
		require.NoError(t, os.Chmod(path+suffix, 0o666)) // "others" stand for the owner
	}
	for name, c := range map[string]struct {
		mode os.FileMode
		file string
	}{
		"file":          {0, path},
		"file to write": {0o444, path},
		"log":           {0, path + "-wal"},
		"log to write":  {0o444, path + "-wal"},
		"folder":        {0, folder},
		"folder list":   {0o311, folder},
	} {
		t.Run(name, func(t *testing.T) {
			st, err := os.Stat(c.file)
			require.NoError(t, err)
			require.NoError(t, os.Chmod(c.file, c.mode))
			defer os.Chmod(c.file, st.Mode().Perm())
			var r Report
			asNobody(t, func() {
				if l, r, err = Open(t.Context(), path, quiet, clock); err == nil {
					l.Close()
				}
			})
			require.Error(t, err)
			require.Empty(t, r)
			require.NotErrorIs(t, err, ErrCorrupt)
			require.ErrorContains(t, err, path)
			t.Log(err)
		})
	}
	var r Report
	asNobody(t, func() {
		var err error
		if l, r, err = Open(t.Context(), path, quiet, clock); err != nil {
			t.Error(err)
			return
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	require.Empty(t, r)
}

func TestFullDiskIsNeverMovedAside(t *testing.T) {
	folder := t.TempDir()
	if err := unix.Mount("tmpfs", folder, "tmpfs", 0, "size=256k"); err != nil {
		t.Skipf("needs to mount a small file system: %v", err)
	}
	t.Cleanup(func() { require.NoError(t, unix.Unmount(folder, 0)) })
	path := filepath.Join(folder, "ledger.db")
	fill := filepath.Join(folder, "fill")
	full := func() {
		f, err := os.Create(fill)
		require.NoError(t, err)
		defer f.Close()
		for {
			if _, err := f.Write(make([]byte, 512)); err != nil {
				require.ErrorIs(t, err, syscall.ENOSPC)
				return
			}
		}
	}
	full()
	_, r, err := Open(t.Context(), path, quiet, clock)
	require.Error(t, err)
	require.Empty(t, r.MovedAside)
	t.Log(err)

	require.NoError(t, os.Remove(fill))
	l, _ := mustOpen(t, path)
	update(t, l, func(tx *Tx) error { return tx.AddLaunches([]Launch{aLaunch("L1", 1, 1, noon)}) })
	full()
	big := func(tx *Tx) error { return tx.AddLaunches([]Launch{aLaunch("L2", 1, 2000, noon)}) }
	err = l.Update(t.Context(), big)
	require.ErrorContains(t, err, "make room on the file system")
	require.NoError(t, l.Close())
	if l, r, err = Open(t.Context(), path, quiet, clock); err == nil {
		require.NoError(t, l.Close())
	} else {
		t.Log(err)
		require.NotErrorIs(t, err, ErrCorrupt)
	}
	require.Empty(t, r)

	require.NoError(t, os.Remove(fill))
	l, r = mustOpen(t, path)
	require.Empty(t, r)
	open, err := l.OpenLaunches(t.Context())
	require.NoError(t, err)
	require.Equal(t, []Launch{aLaunch("L1", 1, 1, noon)}, open)
	require.NoError(t, l.Close())
}

func TestOpenAtTheSameTime(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	var all sync.WaitGroup
	var mu sync.Mutex
	created := 0
	for i := range 8 {
		all.Go(func() {
			l, r, err := Open(t.Context(), path, quiet, clock)
			if err == nil {
				err = l.Update(t.Context(), func(tx *Tx) error { return tx.AddLaunches([]Launch{aLaunch(fmt.Sprint("L", i), i, 1, noon)}) })
				defer l.Close()
			}
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Errorf("opener %d: %v", i, err)
			}
			if r.Created {
				created++
			}
		})
	}
	all.Wait()
	require.Equal(t, 1, created)
	l, _ := mustOpen(t, path)
	defer l.Close()
	open, err := l.OpenLaunches(t.Context())
	require.NoError(t, err)
	require.Len(t, open, 8)
}

func TestOpenEndsWithItsContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	unlock, err := lockFolder(t.Context(), path) // another process checks a large ledger
	require.NoError(t, err)
	defer unlock()
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error)
	go func() {
		_, _, err := Open(ctx, path, quiet, clock)
		result <- err
	}()
	cancel()
	require.ErrorIs(t, <-result, context.Canceled)
}
