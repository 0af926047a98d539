package ledger

import (
	"errors"
	"fmt"
	"os"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

var (
	// ErrAbsent: there is no ledger at the path, or an empty file.
	ErrAbsent = errors.New("there is no ledger yet")
	// ErrNewer: a newer midair has written the ledger.
	ErrNewer = errors.New("the ledger is from a newer midair")
	// ErrOlder: an older midair has written the ledger, and it is not migrated
	// here because it is opened for reading only.
	ErrOlder = errors.New("the ledger is from an older midair")
	// ErrForeign: the file is a SQLite database of another program.
	ErrForeign = errors.New("the file is not a midair ledger")
	// ErrCorrupt: the file is no SQLite database, or a damaged one.
	ErrCorrupt = errors.New("the ledger is damaged")
	// ErrExists: a launch's id or a create call's token is on record already.
	ErrExists = errors.New("on record already")
)

// SchemaError says that a ledger's schema is not the one this midair knows. It
// is ErrNewer or ErrOlder.
type SchemaError struct {
	Path         string
	Found, Known int // schema versions
}

func (e *SchemaError) Error() string {
	if e.Found > e.Known {
		return fmt.Sprintf("ledger %s has schema version %d and this midair knows versions up to %d: install the midair that wrote it or a newer one, or move the file aside to rebuild from the cloud's tags", e.Path, e.Found, e.Known)
	}
	return fmt.Sprintf("ledger %s has schema version %d and this midair wants version %d: start midair controller, which brings it up to date", e.Path, e.Found, e.Known)
}

// Is makes errors.Is tell ErrNewer from ErrOlder.
func (e *SchemaError) Is(target error) bool {
	return target == ErrNewer && e.Found > e.Known || target == ErrOlder && e.Found < e.Known
}

// code gives SQLite's extended result code, 0 where err is not SQLite's.
func code(err error) int {
	var e *sqlite.Error
	if errors.As(err, &e) {
		return e.Code()
	}
	return 0
}

// primary strips the extension from a result code.
func primary(code int) int { return code & 0xff }

// isDamage reports whether err says that the file's content is wrong, as
// opposed to its permissions, the disk or another process.
func isDamage(err error) bool {
	switch primary(code(err)) {
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return true
	}
	return errors.Is(err, ErrCorrupt)
}

func isDuplicate(err error) bool {
	c := code(err)
	return c == sqlite3.SQLITE_CONSTRAINT_UNIQUE || c == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY
}

// explain adds to SQLite's error what to do about it.
func explain(path string, err error) error {
	switch primary(code(err)) {
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return fmt.Errorf("%w: %w: restart midair controller, which moves it aside and rebuilds it from the cloud's tags", ErrCorrupt, err)
	case sqlite3.SQLITE_FULL:
		return fmt.Errorf("%w: make room on the file system of %s", err, path)
	case sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM:
		return fmt.Errorf("%w: user %d needs access to %s, %[3]s-wal and %[3]s-shm, and to their folder", err, os.Geteuid(), path)
	case sqlite3.SQLITE_BUSY:
		return fmt.Errorf("%w: another process has been writing for more than %s", err, busyTimeout)
	}
	return err
}
