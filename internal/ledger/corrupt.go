package ledger

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"time"

	sqlite3 "modernc.org/sqlite/lib"
)

// beside lists what SQLite keeps beside a database.
var beside = [...]string{"-wal", "-shm", "-journal"}

// check looks at the file before anything is written: nil for a sound ledger,
// ErrAbsent for none or an empty one, an error of isDamage for a damaged one.
func check(ctx context.Context, path string) error {
	// The log first: its database always has content before it has a log, so
	// the other order could find fault with one that is just being created.
	wal, err := size(path + "-wal")
	if err != nil {
		return err
	}
	n, err := size(path)
	if err != nil {
		return err
	}
	if n == 0 && wal > 0 {
		// SQLite would delete the log, and with it what it holds.
		return fmt.Errorf("%w: %s has %d bytes but the ledger itself is gone or empty", ErrCorrupt, path+"-wal", wal)
	}
	if n == 0 {
		return ErrAbsent
	}
	// Looking read-only leaves a damaged file and its log as they are: closing
	// a connection that may write would apply the log.
	err = examine(ctx, path, readOnly)
	if primary(code(err)) == sqlite3.SQLITE_READONLY {
		// An interrupted change has to be undone before the file can be read.
		err = examine(ctx, path, readWrite)
	}
	return err
}

func examine(ctx context.Context, path string, m mode) (err error) {
	db, err := connect(path, m, 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	id, err := identify(ctx, db)
	if err != nil {
		return err
	}
	if err := id.judge(path, len(schema)); err != nil {
		return err
	}
	found, err := collect(ctx, db, func(s *string) []any { return []any{s} }, `PRAGMA quick_check(5)`)
	if err != nil {
		return err
	}
	if len(found) != 1 || found[0] != "ok" {
		return fmt.Errorf("%w: quick_check says %q", ErrCorrupt, found)
	}
	return nil
}

// moveAside renames the ledger and the files beside it, without replacing any
// other, and gives its new path.
func moveAside(path string, damage error, log *slog.Logger, now func() time.Time) (string, error) {
	stem := path + ".corrupt-" + now().UTC().Format("20060102T150405Z")
	to := stem
	for n := 2; taken(to); n++ {
		to = fmt.Sprintf("%s-%d", stem, n)
	}
	// The ledger itself goes first: stopped half-way, this leaves a log without
	// a ledger, which is found the next time. The other way round would leave a
	// ledger that has lost its latest transactions and looks sound.
	for _, suffix := range append([]string{""}, beside[:]...) {
		if err := os.Rename(path+suffix, to+suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("move it aside, since it is damaged (%v): %w", damage, err)
		}
	}
	if err := syncFolder(path); err != nil {
		return "", fmt.Errorf("move it aside, since it is damaged (%v): %w", damage, err)
	}
	log.Error("the ledger is damaged: it has been moved aside and a new one is begun; instances are found again by the clouds' tags, what was on record only there is not",
		"ledger", path, "moved_to", to, "err", damage)
	return to, nil
}

func taken(path string) bool {
	for _, suffix := range append([]string{""}, beside[:]...) {
		if _, err := os.Lstat(path + suffix); !errors.Is(err, fs.ErrNotExist) {
			return true
		}
	}
	return false
}
