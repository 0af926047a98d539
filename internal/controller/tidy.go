package controller

import (
	"context"
	"time"

	"github.com/midair-hpc/midair/internal/ledger"
	"github.com/midair-hpc/midair/internal/spool"
)

// How long requests, failures and closed create calls are kept, and how often
// older ones are looked for. Launches and instances are kept for good.
const (
	keepRecords = 90 * 24 * time.Hour
	pruneEvery  = 24 * time.Hour
)

// tidy removes what killed hooks left in the spool and, once a day, what is old
// from the ledger.
func (c *Controller) tidy(ctx context.Context) {
	now := c.Now()
	if err := spool.Sweep(c.SpoolDir, now); err != nil {
		c.Log.Warn("sweep the spool", "err", err)
	}
	if now.Before(c.nextPrune) {
		return
	}
	if c.update(ctx, "prune old records", func(tx *ledger.Tx) error { return tx.PruneBefore(now.Add(-keepRecords)) }) {
		c.nextPrune = now.Add(pruneEvery)
	}
}
