package ledger

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"
)

// Report says what Open had to do.
type Report struct {
	// Created: the ledger holds nothing, because there was none or because it
	// was moved aside. Its instances have to be found by the clouds' tags.
	Created bool
	// MovedAside is where the damaged ledger is now; empty: it was not damaged.
	MovedAside string
}

// Open opens the ledger for writing, creates it with mode 0640 if there is
// none, and brings its schema up to date. The folder must exist.
//
// A damaged file is moved aside to PATH.corrupt-<UTC time>, with its -wal and
// -shm files, loudly, and a new ledger is begun; the Report says so, and the
// caller rebuilds from the clouds' tags. A file that cannot be read or written,
// or a full disk, is an error and never taken for damage. ErrNewer and
// ErrForeign are errors too, and leave the file as it is.
//
// The whole file is checked, which takes about half a second per 100 MB.
func Open(ctx context.Context, path string, log *slog.Logger, now func() time.Time) (*Ledger, Report, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, Report{}, fmt.Errorf("open ledger: %w", err)
	}
	l, r, err := open(ctx, path, log, now)
	if err != nil {
		return nil, r, fmt.Errorf("open ledger %s: %w", path, explain(path, err))
	}
	return l, r, nil
}

func open(ctx context.Context, path string, log *slog.Logger, now func() time.Time) (*Ledger, Report, error) {
	var r Report
	unlock, err := lockFolder(ctx, path)
	if err != nil {
		return nil, r, err
	}
	defer unlock()
	err = check(ctx, path)
	if isDamage(err) {
		if r.MovedAside, err = moveAside(path, err, log, now); err != nil {
			return nil, r, err
		}
		err = ErrAbsent
	}
	if errors.Is(err, ErrAbsent) {
		r.Created = true
		err = create(path)
	}
	if err != nil {
		return nil, r, err
	}
	l := &Ledger{path: path}
	if l.writer, err = connect(path, readWrite, 1); err != nil {
		return nil, r, err
	}
	if l.reader, err = connect(path, readOnly, readers); err != nil {
		return nil, r, errors.Join(err, l.writer.Close())
	}
	if err = useWAL(ctx, l.writer); err == nil {
		err = migrate(ctx, l.writer, path, schema)
	}
	if err == nil {
		l.turn, err = openTurn(path)
	}
	if err != nil {
		return nil, r, errors.Join(err, l.Close())
	}
	return l, r, nil
}

// OpenReadOnly opens the ledger for reading. It creates, migrates and moves
// nothing, and works while the controller writes and while it is down. It gives
// ErrAbsent where there is no ledger, ErrOlder, ErrNewer or ErrForeign where
// it is not one of this midair's, and ErrCorrupt where it cannot be read.
func OpenReadOnly(ctx context.Context, path string) (*Ledger, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open ledger: %w", err)
	}
	l := &Ledger{path: path}
	err = func() error {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return ErrAbsent
		} else if err != nil {
			return err
		}
		if l.reader, err = connect(path, readOnly, readers); err != nil {
			return err
		}
		id, err := identify(ctx, l.reader)
		if err == nil {
			err = id.judge(path, len(schema))
		}
		if err == nil && id.version < len(schema) {
			err = &SchemaError{Path: path, Found: id.version, Known: len(schema)}
		}
		if err != nil {
			return errors.Join(err, l.reader.Close())
		}
		return nil
	}()
	if err != nil {
		return nil, fmt.Errorf("open ledger %s: %w", path, explain(path, err))
	}
	return l, nil
}
