package ledger

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestUpdateCommitsAllOrNothing(t *testing.T) {
	l := fresh(t)
	stop := errors.New("stop")
	write := func(tx *Tx) error {
		for _, err := range []error{
			tx.AddRequests([]Request{{Name: "r1"}}),
			tx.AddLaunches([]Launch{aLaunch("L1", 1, 2, noon)}),
			tx.AddInstances(instancesOf(aLaunch("L1", 1, 2, noon), "t1")),
		} {
			if err != nil {
				return err
			}
		}
		return nil
	}
	nothing := func() {
		t.Helper()
		known, err := l.KnownRequests(t.Context(), []string{"r1"})
		require.NoError(t, err)
		require.Empty(t, known)
		live, err := l.LiveInstances(t.Context())
		require.NoError(t, err)
		require.Empty(t, live)
		generations, err := l.Generations(t.Context(), []string{"L1-0"})
		require.NoError(t, err)
		require.Equal(t, map[string]int{"L1-0": 0}, generations)
	}

	err := l.Update(t.Context(), func(tx *Tx) error { return errors.Join(write(tx), stop) })
	require.ErrorIs(t, err, stop)
	nothing()

	require.PanicsWithValue(t, "bug", func() {
		l.Update(t.Context(), func(tx *Tx) error { write(tx); panic("bug") })
	})
	nothing()

	ctx, cancel := context.WithCancelCause(t.Context())
	err = l.Update(ctx, func(tx *Tx) error { defer cancel(stop); return write(tx) })
	require.ErrorIs(t, err, stop)
	nothing()

	require.ErrorIs(t, l.Update(ctx, write), context.Canceled)
	nothing()

	update(t, l, write)
	live, err := l.LiveInstances(t.Context())
	require.NoError(t, err)
	require.Len(t, live, 2)
}

func TestTxIsOfNoUseAfterUpdate(t *testing.T) {
	l := fresh(t)
	var kept *Tx
	update(t, l, func(tx *Tx) error { kept = tx; return nil })
	require.Error(t, kept.AddRequests([]Request{{Name: "r1"}}))
}

func TestWaitForAnotherWriterEndsWithTheContext(t *testing.T) {
	l := fresh(t)
	other, _ := mustOpen(t, l.path)
	defer other.Close()
	update(t, other, func(*Tx) error {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		err := l.Update(ctx, func(*Tx) error { t.Error("two writers at a time"); return nil })
		require.ErrorIs(t, err, context.DeadlineExceeded)
		return nil
	})
	update(t, l, func(tx *Tx) error { return tx.AddRequests([]Request{{Name: "r1"}}) })
}

// What a full disk refuses must not spoil the next transaction.
func TestWriterWorksAgainAfterARefusedWrite(t *testing.T) {
	l := fresh(t)
	var before int
	require.NoError(t, one(t.Context(), l.writer, []any{&before}, `PRAGMA page_count`))
	var limit int
	require.NoError(t, one(t.Context(), l.writer, []any{&limit}, `PRAGMA max_page_count = 60`))
	err := l.Update(t.Context(), func(tx *Tx) error { return tx.AddLaunches([]Launch{aLaunch("L1", 1, 5000, noon)}) })
	require.ErrorContains(t, err, "full")
	update(t, l, func(tx *Tx) error { return tx.AddLaunches([]Launch{aLaunch("L1", 1, 1, noon)}) })
	open, err := l.OpenLaunches(t.Context())
	require.NoError(t, err)
	require.Equal(t, []Launch{aLaunch("L1", 1, 1, noon)}, open)
}

func TestReadsSeeOneState(t *testing.T) {
	l := fresh(t)
	update(t, l, func(tx *Tx) error { return tx.AddLaunches([]Launch{aLaunch("L1", 1, 1, noon)}) })
	count := func(q querier) (n int) {
		require.NoError(t, one(t.Context(), q, []any{&n}, `SELECT count(*) FROM launches`))
		return n
	}
	require.NoError(t, l.read(t.Context(), "twice", func(q querier) error {
		require.Equal(t, 1, count(q))
		update(t, l, func(tx *Tx) error { return tx.AddLaunches([]Launch{aLaunch("L2", 1, 1, noon)}) })
		require.Equal(t, 1, count(q))
		return nil
	}))
	require.Equal(t, 2, count(l.reader))
}
