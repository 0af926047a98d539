// Package ledger is midair's memory on disk: what hooks asked for, what was
// launched, which create calls were made, which instances exist and what they
// cost, what failed and what to keep away from for a while. It is the only
// package that knows SQL.
//
// The ledger is one SQLite file. One process writes it, the controller, and
// any number read it, but two writers do no harm: each write is a transaction
// that waits its turn. What Update has committed survives the death of the
// process and of the machine.
//
// Times keep their nanoseconds and come back in UTC. They must lie between the
// years 1678 and 2262; one outside is stored as the nearest that fits.
package ledger

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// Ledger is an open ledger, safe for concurrent use.
type Ledger struct {
	path   string
	writer *sql.DB // one connection; nil: open for reading only
	turn   turn
	reader *sql.DB
}

// ErrReadOnly is what Update gives on a ledger from OpenReadOnly.
var ErrReadOnly = errors.New("the ledger is open for reading only")

// Close waits for writes and reads under way and closes the files. What has
// been committed is moved from the write-ahead log into the file itself.
func (l *Ledger) Close() error {
	// The writer goes last: the last connection to go does the moving, and
	// readers cannot.
	err := l.reader.Close()
	if l.writer != nil {
		err = errors.Join(err, l.writer.Close())
	}
	if l.turn.file != nil {
		err = errors.Join(err, l.turn.Close())
	}
	if err != nil {
		return fmt.Errorf("close ledger %s: %w", l.path, explain(l.path, err))
	}
	return nil
}

// querier is what reads need of a connection or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// read runs fn on one unchanging view of the ledger, so that what several
// queries give fits together.
func (l *Ledger) read(ctx context.Context, what string, fn func(q querier) error) error {
	err := func() error {
		tx, err := l.reader.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
		if err != nil {
			return err
		}
		defer tx.Rollback()
		return fn(tx)
	}()
	if err != nil {
		return fmt.Errorf("read %s from ledger %s: %w", what, l.path, explain(l.path, err))
	}
	return nil
}
