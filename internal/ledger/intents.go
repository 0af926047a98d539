package ledger

import (
	"context"
	"encoding/json"
	"time"

	"github.com/midair-hpc/midair/internal/cloud"
)

// offeringJSON is how an intent's offerings are stored.
type offeringJSON struct {
	Type   string       `json:"type"`
	Zone   string       `json:"zone"`
	Market cloud.Market `json:"market"`
}

// AddIntents records create calls that are about to be made. A token that is on
// record already is ErrExists: its call has been made before, and making it
// again under a new purpose would give old instances.
func (tx *Tx) AddIntents(intents []Intent) error {
	for _, in := range intents {
		offerings := make([]offeringJSON, len(in.Offerings))
		for i, o := range in.Offerings {
			offerings[i] = offeringJSON(o)
		}
		o, err := json.Marshal(offerings)
		if err != nil {
			return tx.fail("record create call %s: %w", in.Token, err)
		}
		n, err := json.Marshal(in.Nodes)
		if err != nil {
			return tx.fail("record create call %s: %w", in.Token, err)
		}
		_, err = tx.exec(`INSERT INTO intents (token, provider, pool, offerings, nodes, all_or_nothing, open, created_at, closed_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			in.Token, in.Provider, in.Pool, string(o), string(n), in.AllOrNothing, in.Open, nanos(in.CreatedAt), nanos(in.ClosedAt))
		if isDuplicate(err) {
			return tx.fail("record create call %s: %w", in.Token, ErrExists)
		}
		if err != nil {
			return tx.fail("record create call %s: %w", in.Token, err)
		}
	}
	return nil
}

// CloseIntent records that the outcome of a create call is known since at. One
// that is closed already keeps its time; one not on record is an error.
func (tx *Tx) CloseIntent(token string, at time.Time) error {
	hit, err := tx.changed(`UPDATE intents SET closed_at = iif(open, ?, closed_at), open = 0 WHERE token = ?`, nanos(at), token)
	if err != nil {
		return tx.fail("close create call %s: %w", token, err)
	}
	if !hit {
		return tx.fail("close create call %s: it is not on record", token)
	}
	return nil
}

// KnownIntents tells which of the tokens are on record, open or closed.
func (l *Ledger) KnownIntents(ctx context.Context, tokens []string) (map[string]bool, error) {
	return l.known(ctx, "create calls", `SELECT token FROM intents WHERE token IN (SELECT value FROM json_each(?))`, tokens)
}

// OpenIntents gives the create calls whose outcome is not known, oldest first.
func (l *Ledger) OpenIntents(ctx context.Context) ([]Intent, error) {
	type row struct {
		Intent
		offerings []offeringJSON
	}
	var intents []Intent
	err := l.read(ctx, "open create calls", func(q querier) error {
		rows, err := collect(ctx, q, func(r *row) []any {
			return []any{&r.Token, &r.Provider, &r.Pool, document{&r.offerings}, document{&r.Nodes}, &r.AllOrNothing, &r.Open, stamp{&r.CreatedAt}, stamp{&r.ClosedAt}}
		}, `SELECT token, provider, pool, offerings, nodes, all_or_nothing, open, created_at, closed_at FROM intents WHERE open = 1 ORDER BY created_at, seq`)
		for _, r := range rows {
			for _, o := range r.offerings {
				r.Offerings = append(r.Offerings, cloud.Offering(o))
			}
			intents = append(intents, r.Intent)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return intents, nil
}
