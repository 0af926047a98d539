package ledger

import (
	"context"

	"github.com/midair-hpc/midair/internal/cloud"
)

// PutMemory remembers that offerings failed, in place of what was remembered
// about them.
func (tx *Tx) PutMemory(entries []MemoryEntry) error {
	for _, m := range entries {
		if _, err := tx.exec(`INSERT OR REPLACE INTO memory (provider, type, zone, market, pool, class, message, nodes, failures, since, until) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			m.Provider, m.Offering.Type, m.Offering.Zone, string(m.Offering.Market), m.Pool, string(m.Class), m.Message, m.Nodes, m.Failures, nanos(m.Since), nanos(m.Until)); err != nil {
			return tx.fail("remember offering %s of %s: %w", m.Offering, m.Provider, err)
		}
	}
	return nil
}

// ForgetMemory forgets what is remembered about a provider's offerings, for all
// pools.
func (tx *Tx) ForgetMemory(provider string, offerings []cloud.Offering) error {
	for _, o := range offerings {
		if _, err := tx.exec(`DELETE FROM memory WHERE provider = ? AND type = ? AND zone = ? AND market = ?`,
			provider, o.Type, o.Zone, string(o.Market)); err != nil {
			return tx.fail("forget offering %s of %s: %w", o, provider, err)
		}
	}
	return nil
}

// Memory gives all that is remembered, also what is past its time, by provider
// and offering.
func (l *Ledger) Memory(ctx context.Context) (all []MemoryEntry, err error) {
	err = l.read(ctx, "memory", func(q querier) error {
		all, err = collect(ctx, q, func(m *MemoryEntry) []any {
			return []any{&m.Provider, &m.Offering.Type, &m.Offering.Zone, &m.Offering.Market, &m.Pool, &m.Class, &m.Message, &m.Nodes, &m.Failures, stamp{&m.Since}, stamp{&m.Until}}
		}, `SELECT provider, type, zone, market, pool, class, message, nodes, failures, since, until FROM memory ORDER BY provider, type, zone, market, pool`)
		return err
	})
	return all, err
}
