package ledger

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math"
	"time"
	"unicode/utf8"
)

// nanos is how a time is stored.
func nanos(t time.Time) int64 {
	switch y := t.Year(); {
	case t.IsZero():
		return 0
	case y < 1678:
		return math.MinInt64
	case y > 2261:
		return math.MaxInt64
	}
	return t.UnixNano()
}

// stamp reads a stored time into the time it points at.
type stamp struct{ t *time.Time }

// Scan implements sql.Scanner.
func (s stamp) Scan(v any) error {
	n, ok := v.(int64)
	if !ok {
		return fmt.Errorf("read a time: %T is not an integer", v)
	}
	*s.t = time.Time{}
	if n != 0 {
		*s.t = time.Unix(0, n).UTC()
	}
	return nil
}

// document reads stored JSON into what it points at.
type document struct{ v any }

// Scan implements sql.Scanner.
func (d document) Scan(v any) error {
	s, ok := v.(string)
	if !ok {
		return fmt.Errorf("read JSON: %T is not text", v)
	}
	return json.Unmarshal([]byte(s), d.v)
}

// list makes names one argument for `IN (SELECT value FROM json_each(?))`, of
// any length.
func list(names []string) (string, error) {
	for _, n := range names {
		if !utf8.ValidString(n) {
			return "", fmt.Errorf("name %q is not UTF-8", n)
		}
	}
	b, err := json.Marshal(names)
	return string(b), err
}

// one runs a query that gives one row, into dest.
func one(ctx context.Context, q querier, dest []any, query string, args ...any) error {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	if !rows.Next() {
		if err := rows.Err(); err != nil {
			return err
		}
		return sql.ErrNoRows
	}
	if err := rows.Scan(dest...); err != nil {
		return err
	}
	return rows.Close()
}

// collect runs a query and reads all its rows; dest gives where the columns of
// a row go.
func collect[T any](ctx context.Context, q querier, dest func(*T) []any, query string, args ...any) ([]T, error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var all []T
	for rows.Next() {
		var v T
		if err := rows.Scan(dest(&v)...); err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, rows.Err()
}
