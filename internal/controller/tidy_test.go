package controller

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/ledger"
)

func TestWhatIsOldIsRemovedFromSpoolAndLedger(t *testing.T) {
	w := newWorld(t)
	require.NoError(t, w.led.Update(w.ctx, func(tx *ledger.Tx) error {
		return tx.AddFailures([]ledger.Failure{{At: began.Add(-89 * 24 * time.Hour), Message: "young"}, {At: began.Add(-91 * 24 * time.Hour), Message: "old"}})
	}))
	temp := filepath.Join(w.spool(), ".new-1")
	require.NoError(t, os.WriteFile(temp, nil, 0o640))
	require.NoError(t, os.Chtimes(temp, began, began.Add(-2*time.Hour)))
	failures := func() []string {
		list, err := w.led.RecentFailures(w.ctx, 10)
		require.NoError(t, err)
		var texts []string
		for _, f := range list {
			texts = append(texts, f.Message)
		}
		return texts
	}
	w.pass(time.Minute)
	require.NoFileExists(t, temp)
	require.Equal(t, []string{"young"}, failures())
	w.now = w.now.Add(3 * 24 * time.Hour)
	w.pass(time.Minute)
	require.Empty(t, failures(), "once a day")
}
