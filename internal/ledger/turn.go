package ledger

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// turn lets processes write one after the other. SQLite's own waiting only
// looks now and then whether the lock is free, so that a process that starts a
// transaction right after another would keep everybody out for good. Who waits
// for SQLite's lock holds the turn, and the one who has just written needs the
// turn to write again.
//
// It is for fairness only: correctness rests on SQLite's lock, and where the
// turn cannot be had writers do without. The lock is on the log, which SQLite
// itself never locks.
type turn struct{ file *os.File }

func openTurn(path string) (turn, error) {
	f, err := os.Open(path + "-wal")
	if err != nil {
		return turn{}, fmt.Errorf("open its log: %w", err)
	}
	return turn{f}, nil
}

func (t turn) take(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, busyTimeout, errNoTurn)
	defer cancel()
	for unix.Flock(int(t.file.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		select {
		case <-ctx.Done():
			if err := context.Cause(ctx); !errors.Is(err, errNoTurn) {
				return err
			}
			return nil
		case <-time.After(2 * time.Millisecond):
		}
	}
	return nil
}

// errNoTurn ends the wait for a turn, not the write.
var errNoTurn = errors.New("no turn")

func (t turn) pass() { unix.Flock(int(t.file.Fd()), unix.LOCK_UN) }

func (t turn) Close() error { return t.file.Close() }
