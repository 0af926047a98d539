package ledger

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// lockWait is how long Open waits for another process that is opening the same
// ledger, which may have a large file to check.
const lockWait = time.Minute

// lockFolder makes processes open the ledgers of a folder one after the other,
// so that none sees a file that is half created or half moved aside. The lock
// is on the folder itself: a process's locks on a file go when it closes any
// descriptor of that file, SQLite's locks included.
func lockFolder(ctx context.Context, path string) (unlock func(), err error) {
	folder := filepath.Dir(path)
	f, err := os.Open(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("its folder %s does not exist: create it, owned by the user that runs midair controller: %w", folder, err)
	}
	if err != nil {
		return nil, fmt.Errorf("open its folder: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, lockWait, fmt.Errorf("another process has been opening it for more than %s", lockWait))
	defer cancel()
	for {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			f.Close()
			return nil, fmt.Errorf("lock its folder %s, which must be on a local file system: %w", folder, err)
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, fmt.Errorf("lock its folder %s: %w", folder, context.Cause(ctx))
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// create makes an empty file, which is an empty database, unless there is one.
// SQLite gives the files beside it the same mode.
func create(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o640)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	// The umask must not keep the group out, which reads the ledger.
	err = f.Chmod(0o640)
	err = errors.Join(err, f.Close())
	if err != nil {
		return err
	}
	return syncFolder(path)
}

// syncFolder makes a file's creation or renaming last.
func syncFolder(path string) error {
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// size gives a file's size, 0 where there is none.
func size(path string) (int64, error) {
	st, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if !st.Mode().IsRegular() {
		return 0, fmt.Errorf("%s is not a regular file", path)
	}
	return st.Size(), nil
}
