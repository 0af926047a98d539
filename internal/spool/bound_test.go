package spool

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAReadHasABoundAndTheOldestComeFirst(t *testing.T) {
	dir := t.TempDir()
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for i := range 10 {
		_, err := Write(dir, Record{Kind: Resume, At: start.Add(time.Duration(i)), JobID: i + 1, Nodes: strings.Repeat("n", 1000)})
		require.NoError(t, err)
	}
	var got []int
	for range 10 {
		records, bad, err := read(dir, 4000)
		require.NoError(t, err)
		require.Empty(t, bad)
		require.LessOrEqual(t, len(records), 3)
		for _, r := range records {
			got = append(got, r.JobID)
			require.NoError(t, Remove(dir, r.Name))
		}
	}
	require.Equal(t, []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, got)
}

// The folder's owner may exchange a record for a link while root reads it.
func TestALinkExchangedForARecordIsNotFollowed(t *testing.T) {
	const text = `{"version":1,"kind":"resume","at":"2026-03-01T12:00:00Z","nodes":"%s"}`
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, tempPrefix+"1"), fmt.Appendf(nil, text, "target"), 0o600))
	file, link, own := filepath.Join(dir, "1.json"), filepath.Join(dir, ".link"), filepath.Join(dir, ".own")
	stop, done := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			err := os.WriteFile(own, fmt.Appendf(nil, text, "own"), 0o600)
			if err == nil {
				err = os.Rename(own, file)
			}
			if err == nil {
				err = os.Symlink(tempPrefix+"1", link)
			}
			if err == nil {
				err = os.Rename(link, file)
			}
			if err != nil {
				done <- err
				return
			}
		}
	}()
	seen := 0
	for end := time.Now().Add(300 * time.Millisecond); time.Now().Before(end); {
		records, _, err := Read(dir)
		require.NoError(t, err)
		for _, r := range records {
			require.Equal(t, "own", r.Nodes, "a link was followed")
			seen++
		}
	}
	close(stop)
	require.NoError(t, <-done)
	t.Logf("%d reads met the record", seen)
}
