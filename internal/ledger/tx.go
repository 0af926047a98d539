package ledger

import (
	"context"
	"database/sql"
	"fmt"
)

// Tx is a write transaction, valid inside the function given to Update and for
// one goroutine. Its methods write nothing but to the transaction: all is
// committed or none.
type Tx struct {
	tx    *sql.Tx
	stmts map[string]*sql.Stmt
	err   error // the first that a write gave
}

// Update runs fn in one transaction that excludes other writers and commits it
// to disk. An error from fn, or from any of the Tx's methods even if fn drops
// it, rolls everything back and is returned; so does ctx when it ends before
// the commit. It waits up to 10 s for other processes' writes. fn must not
// call Update of the same Ledger.
func (l *Ledger) Update(ctx context.Context, fn func(tx *Tx) error) error {
	if l.writer == nil {
		return fmt.Errorf("write to ledger %s: %w", l.path, ErrReadOnly)
	}
	if err := l.update(ctx, fn); err != nil {
		return fmt.Errorf("write to ledger %s: %w", l.path, explain(l.path, err))
	}
	return nil
}

func (l *Ledger) update(ctx context.Context, fn func(tx *Tx) error) error {
	t, done, err := l.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	defer t.Rollback()
	tx := &Tx{tx: t, stmts: map[string]*sql.Stmt{}}
	err = fn(tx)
	if ctx.Err() != nil {
		return context.Cause(ctx) // whatever fn met then was "transaction has been rolled back"
	}
	if err != nil {
		return err
	}
	if tx.err != nil {
		return tx.err
	}
	return t.Commit()
}

// begin takes the write lock.
func (l *Ledger) begin(ctx context.Context) (t *sql.Tx, done func(), err error) {
	// The connection first: only one goroutine of a process stands in line.
	conn, err := l.writer.Conn(ctx)
	if err != nil {
		return nil, nil, err
	}
	if err = l.turn.take(ctx); err == nil {
		t, err = conn.BeginTx(ctx, nil)
		l.turn.pass()
	}
	if err != nil {
		conn.Close()
		return nil, nil, err
	}
	return t, func() { conn.Close() }, nil
}

// fail remembers that a write failed, and says which.
func (tx *Tx) fail(format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	if tx.err == nil {
		tx.err = err
	}
	return err
}

// exec runs a statement, prepared once per transaction. It has no context:
// the transaction's ends it, and watching one costs more than most statements.
func (tx *Tx) exec(query string, args ...any) (sql.Result, error) {
	s := tx.stmts[query]
	if s == nil {
		var err error
		if s, err = tx.tx.Prepare(query); err != nil {
			return nil, err
		}
		tx.stmts[query] = s
	}
	return s.Exec(args...)
}

// changed is exec for statements that must hit a row.
func (tx *Tx) changed(query string, args ...any) (bool, error) {
	res, err := tx.exec(query, args...)
	if err != nil {
		return false, err
	}
	n, err := res.RowsAffected()
	return n > 0, err
}
