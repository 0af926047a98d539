package ledger

import "time"

// PruneBefore deletes requests and failures from before t, and create calls
// closed before t. Launches and instances stay: they are the money's record. A
// request must not be pruned while its spool file may still lie there, nor a
// create call while its token may be made again: both would be taken for new.
func (tx *Tx) PruneBefore(t time.Time) error {
	for _, query := range []string{
		`DELETE FROM requests WHERE at < ?`,
		`DELETE FROM failures WHERE at < ?`,
		`DELETE FROM intents WHERE open = 0 AND closed_at < ?`,
	} {
		if _, err := tx.exec(query, nanos(t)); err != nil {
			return tx.fail("prune what is older than %s: %w", t.UTC().Format(time.RFC3339), err)
		}
	}
	return nil
}
