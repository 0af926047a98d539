package ledger

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A writer that never pauses must not keep another process out until it gives
// up with SQLITE_BUSY.
func TestWriterThatNeverPausesLetsOthersIn(t *testing.T) {
	l := fresh(t)
	greedy, _ := mustOpen(t, l.path)
	defer greedy.Close()
	ctx, cancel := context.WithCancel(t.Context())
	var commits atomic.Int64
	started, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for n := 0; ctx.Err() == nil; n++ {
			err := greedy.Update(ctx, func(tx *Tx) error {
				if n == 1 {
					close(started)
				}
				time.Sleep(5 * time.Millisecond) // a transaction with much to write
				return tx.AddRequests([]Request{{Name: fmt.Sprint("greedy", n)}})
			})
			if err == nil {
				commits.Add(1)
			}
		}
	}()
	<-started
	for n := range 20 {
		before := commits.Load()
		var waited int64
		update(t, l, func(tx *Tx) error {
			waited = commits.Load() - before
			return tx.AddRequests([]Request{{Name: fmt.Sprint("modest", n)}})
		})
		require.LessOrEqual(t, waited, int64(10), "transactions that went first")
	}
	cancel()
	<-done
}

func TestWaitForATurnEndsWithTheContext(t *testing.T) {
	l := fresh(t)
	other, err := openTurn(l.path)
	require.NoError(t, err)
	defer other.Close()
	require.NoError(t, other.take(t.Context()))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, l.Update(ctx, func(*Tx) error { return nil }), context.DeadlineExceeded)
	other.pass()
	update(t, l, func(tx *Tx) error { return tx.AddRequests([]Request{{Name: "r1"}}) })
}
