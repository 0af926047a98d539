package ledger

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/cloud"
)

func TestIntentKeepsEveryField(t *testing.T) {
	l := fresh(t)
	odd := Intent{
		Token: "t1", Provider: "east", Pool: `quoted " pool`, Open: true, CreatedAt: noon,
		// What a provider sells is not ours to restrict.
		Offerings: []cloud.Offering{spotB, spotA, {Type: "a/b", Zone: "", Market: "<&>"}},
		Nodes:     []IntentNode{{Node: "n2", Generation: 2, Launch: "L2"}, {Node: "n1", Generation: 1, Launch: "L1"}},
	}
	bare := Intent{Token: "t0", Open: true, AllOrNothing: true, CreatedAt: noon.Add(-1)}
	update(t, l, func(tx *Tx) error { return tx.AddIntents([]Intent{odd, bare}) })
	got, err := l.OpenIntents(t.Context())
	require.NoError(t, err)
	require.Equal(t, []Intent{bare, odd}, got, "oldest first")
}

// A token that is used twice would give the first call's instances: nothing of
// the transaction may stay, not even if the caller drops the error.
func TestIntentTokenIsUsedOnce(t *testing.T) {
	l := fresh(t)
	la := aLaunch("L1", 1, 2, noon)
	update(t, l, func(tx *Tx) error { return tx.AddIntents([]Intent{anIntent("t1", la)}) })
	for _, drop := range []bool{false, true} {
		err := l.Update(t.Context(), func(tx *Tx) error {
			if err := tx.AddLaunches([]Launch{aLaunch("L2", 2, 1, noon)}); err != nil {
				return err
			}
			err := tx.AddIntents([]Intent{anIntent("t2", la), anIntent("t1", la)})
			if drop {
				return nil
			}
			return err
		})
		require.ErrorIs(t, err, ErrExists)
		require.ErrorContains(t, err, "record create call t1")
	}
	known, err := l.KnownIntents(t.Context(), []string{"t1", "t2"})
	require.NoError(t, err)
	require.Equal(t, map[string]bool{"t1": true}, known)
	launches, err := l.RecentLaunches(t.Context(), 10)
	require.NoError(t, err)
	require.Empty(t, launches)
}

func TestCloseIntent(t *testing.T) {
	l := fresh(t)
	la := aLaunch("L1", 1, 2, noon)
	update(t, l, func(tx *Tx) error { return tx.AddIntents([]Intent{anIntent("t1", la), anIntent("t2", la)}) })
	update(t, l, func(tx *Tx) error { return tx.CloseIntent("t1", noon.Add(time.Second)) })
	update(t, l, func(tx *Tx) error { return tx.CloseIntent("t1", noon.Add(time.Hour)) }) // the same answer again
	open, err := l.OpenIntents(t.Context())
	require.NoError(t, err)
	require.Equal(t, []Intent{anIntent("t2", la)}, open)
	var at time.Time
	require.NoError(t, one(t.Context(), l.reader, []any{stamp{&at}}, `SELECT closed_at FROM intents WHERE token = 't1'`))
	require.Equal(t, noon.Add(time.Second), at, "the first answer's time is kept")

	known, err := l.KnownIntents(t.Context(), []string{"t1", "t2", "t3"})
	require.NoError(t, err)
	require.Equal(t, map[string]bool{"t1": true, "t2": true}, known, "closed ones are known too")

	err = l.Update(t.Context(), func(tx *Tx) error { return tx.CloseIntent("t9", noon) })
	require.ErrorContains(t, err, "close create call t9: it is not on record")
}
