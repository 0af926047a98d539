package local

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// The locks are the kernel's: a process that is killed lets go of them. Both
// belong to the open file, so they exclude goroutines as well as processes.

// lockEvery is the pause between two tries for a lock that another process has.
const lockEvery = 2 * time.Millisecond

// lockFile takes the lock of a whole file, which may be removed and made again
// by its holders.
func lockFile(ctx context.Context, path string) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
		if err != nil {
			return nil, fmt.Errorf("open lock: %w", err)
		}
		err = try(ctx, func() error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) })
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
		mine, err1 := f.Stat()
		there, err2 := os.Stat(path)
		if err1 == nil && err2 == nil && os.SameFile(mine, there) {
			return f, nil
		}
		f.Close()
		if err := errors.Join(err1, err2); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
	}
}

// lockToken takes the lock of one token: a byte of the file, so that there are
// no files to clean up.
func lockToken(ctx context.Context, path, token string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	l := tokenByte(token)
	if err := try(ctx, func() error { return unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &l) }); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock token %s: %w", token, err)
	}
	return f, nil
}

// tokenBusy reports whether somebody holds the lock of a token.
func tokenBusy(path, token string) (bool, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return false, fmt.Errorf("open lock: %w", err)
	}
	defer f.Close()
	l := tokenByte(token)
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &l); err != nil {
		return false, fmt.Errorf("ask for the lock of token %s: %w", token, err)
	}
	return l.Type != unix.F_UNLCK, nil
}

func tokenByte(token string) unix.Flock_t {
	sum := sha256.Sum256([]byte(token))
	at := int64(binary.BigEndian.Uint64(sum[:]) >> 2)
	return unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: at, Len: 1}
}

func try(ctx context.Context, lock func() error) error {
	for {
		err := lock()
		if err == nil || (!errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EACCES) && !errors.Is(err, unix.EINTR)) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(lockEvery):
		}
	}
}
