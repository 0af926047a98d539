package ledger

import "context"

// AddRequests records hooks' requests as taken. One that is on record already
// is left as it is.
func (tx *Tx) AddRequests(requests []Request) error {
	for _, r := range requests {
		if _, err := tx.exec(`INSERT INTO requests (name, kind, nodes, at) VALUES (?, ?, ?, ?) ON CONFLICT (name) DO NOTHING`,
			r.Name, r.Kind, r.Nodes, nanos(r.At)); err != nil {
			return tx.fail("record request %s: %w", r.Name, err)
		}
	}
	return nil
}

// KnownRequests tells which of the names have been taken before.
func (l *Ledger) KnownRequests(ctx context.Context, names []string) (map[string]bool, error) {
	return l.known(ctx, "requests", `SELECT name FROM requests WHERE name IN (SELECT value FROM json_each(?))`, names)
}

func (l *Ledger) known(ctx context.Context, what, query string, names []string) (map[string]bool, error) {
	known := map[string]bool{}
	err := l.read(ctx, what, func(q querier) error {
		arg, err := list(names)
		if err != nil {
			return err
		}
		found, err := collect(ctx, q, func(s *string) []any { return []any{s} }, query, arg)
		for _, n := range found {
			known[n] = true
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return known, nil
}
