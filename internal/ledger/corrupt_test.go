package ledger

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// aFilledLedger makes a closed ledger of some hundred pages.
func aFilledLedger(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ledger.db")
	l, _ := mustOpen(t, path)
	update(t, l, func(tx *Tx) error {
		for j := range 100 {
			la := aLaunch(fmt.Sprintf("L%03d", j), j+1, 10, noon)
			if err := tx.AddLaunches([]Launch{la}); err != nil {
				return err
			}
			if err := tx.AddInstances(instancesOf(la, "t")); err != nil {
				return err
			}
		}
		return nil
	})
	require.NoError(t, l.Close())
	return path
}

func garbage(seed uint64, n int) []byte {
	r := rand.New(rand.NewPCG(seed, 1))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func TestDamagedLedgerIsMovedAside(t *testing.T) {
	for name, damage := range map[string]func(b []byte) []byte{
		"truncated in the middle":  func(b []byte) []byte { return b[:len(b)/2] },
		"truncated inside a page":  func(b []byte) []byte { return b[:len(b)/2+100] },
		"truncated inside page 1":  func(b []byte) []byte { return b[:300] },
		"last page is missing":     func(b []byte) []byte { return b[:len(b)-4096] },
		"garbage header":           func(b []byte) []byte { copy(b, garbage(1, 100)); return b },
		"zeroed header":            func(b []byte) []byte { copy(b, make([]byte, 100)); return b },
		"not a database at all":    func([]byte) []byte { return []byte("dear diary, today I launched nodes\n") },
		"garbage in a middle page": func(b []byte) []byte { copy(b[len(b)/8192*4096:], garbage(2, 4096)); return b },
		"zeroes in a middle page":  func(b []byte) []byte { copy(b[len(b)/8192*4096:], make([]byte, 4096)); return b },
		"two pages changed places": func(b []byte) []byte {
			p := bytes.Clone(b[8192:12288])
			copy(b[8192:], b[20480:24576])
			copy(b[20480:], p)
			return b
		},
		"garbage in the schema page": func(b []byte) []byte { copy(b[100:], garbage(3, 3000)); return b },
	} {
		t.Run(name, func(t *testing.T) {
			path := aFilledLedger(t)
			b, err := os.ReadFile(path)
			require.NoError(t, err)
			b = damage(b)
			require.NoError(t, os.WriteFile(path, b, 0o640))
			if r, err := OpenReadOnly(t.Context(), path); err == nil { // which looks at the first page only
				require.NoError(t, r.Close())
			} else {
				require.ErrorIs(t, err, ErrCorrupt)
			}

			var out bytes.Buffer
			l, r, err := Open(t.Context(), path, slog.New(slog.NewTextHandler(&out, nil)), clock)
			require.NoError(t, err)
			defer l.Close()
			aside := path + ".corrupt-20260304T120000Z"
			require.Equal(t, Report{Created: true, MovedAside: aside}, r)
			require.Contains(t, out.String(), "level=ERROR")
			require.Contains(t, out.String(), "ledger="+path+" moved_to="+aside)
			kept, err := os.ReadFile(aside)
			require.NoError(t, err)
			require.True(t, bytes.Equal(b, kept), "the evidence is as it was found")
			open, err := l.OpenLaunches(t.Context())
			require.NoError(t, err)
			require.Empty(t, open)
			update(t, l, func(tx *Tx) error { return tx.AddLaunches([]Launch{aLaunch("L000", 1, 1, noon)}) })
		})
	}
}

func TestMovingAsideReplacesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	for i, want := range []string{"", "-2", "-3"} {
		text := fmt.Sprintf("not a ledger, number %d", i)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o640))
		l, r := mustOpen(t, path)
		require.Equal(t, path+".corrupt-20260304T120000Z"+want, r.MovedAside)
		require.NoError(t, l.Close())
		kept, err := os.ReadFile(r.MovedAside)
		require.NoError(t, err)
		require.Equal(t, text, string(kept))
	}
}

// SQLite deletes a log that it finds beside an empty database.
func TestLogWithoutLedgerIsNotLost(t *testing.T) {
	for name, lose := range map[string]func(path string) error{
		"ledger deleted": os.Remove,
		"ledger emptied": func(path string) error { return os.Truncate(path, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			path := aFilledLedger(t)
			log := garbage(1, 5000)
			require.NoError(t, os.WriteFile(path+"-wal", log, 0o640))
			require.NoError(t, lose(path))
			l, r := mustOpen(t, path)
			defer l.Close()
			require.True(t, r.Created)
			require.NotEmpty(t, r.MovedAside)
			kept, err := os.ReadFile(r.MovedAside + "-wal")
			require.NoError(t, err)
			require.True(t, bytes.Equal(log, kept))
		})
	}
}

// A ledger that was interrupted while it was switched to write-ahead logging,
// or by an old tool, has a rollback journal. That is no damage.
func TestInterruptedChangeIsUndone(t *testing.T) {
	path := aFilledLedger(t)
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	defer db.Close()
	db.SetMaxOpenConns(1)
	run := func(query string) {
		t.Helper()
		_, err := db.ExecContext(t.Context(), query)
		require.NoError(t, err)
	}
	run(`PRAGMA journal_mode = DELETE`)
	run(`PRAGMA cache_size = 5`) // changed pages spill into the file before the commit
	run(`BEGIN IMMEDIATE`)
	run(`UPDATE instances SET node = 'changed', console = 'changed', provider = 'changed'`)
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	journal, err := os.ReadFile(path + "-journal")
	require.NoError(t, err)
	run(`ROLLBACK`)
	require.NoError(t, db.Close())

	require.Contains(t, string(b), "changed")
	require.NoError(t, os.WriteFile(path, b, 0o640))
	require.NoError(t, os.WriteFile(path+"-journal", journal, 0o640))
	l, r := mustOpen(t, path)
	defer l.Close()
	require.Empty(t, r)
	live, err := l.LiveInstances(t.Context())
	require.NoError(t, err)
	require.Len(t, live, 1000)
	for _, i := range live {
		require.Empty(t, i.Console)
	}
}

// A log that belongs to the damaged ledger goes with it and is not applied.
func TestLogIsMovedAsideWithItsLedger(t *testing.T) {
	path := aFilledLedger(t)
	l, _ := mustOpen(t, path)
	update(t, l, func(tx *Tx) error { return tx.SetConsole("east", "i-L000-0", "a few pages change") })
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	wal, err := os.ReadFile(path + "-wal")
	require.NoError(t, err)
	require.NotEmpty(t, wal)
	require.NoError(t, l.Close())
	copy(b[len(b)/8192*4096:], garbage(1, 4096))
	require.NoError(t, os.WriteFile(path, b, 0o640))
	require.NoError(t, os.WriteFile(path+"-wal", wal, 0o640))

	l, r := mustOpen(t, path)
	defer l.Close()
	require.NotEmpty(t, r.MovedAside)
	for suffix, want := range map[string][]byte{"": b, "-wal": wal} {
		kept, err := os.ReadFile(r.MovedAside + suffix)
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, kept), "%q", suffix)
	}
}

// Whatever bytes change, midair starts, with the old ledger in use or aside,
// or says why not; it never crashes and never loses the file.
func TestAnyDamageIsSurvived(t *testing.T) {
	whole, err := os.ReadFile(aFilledLedger(t))
	require.NoError(t, err)
	r := rand.New(rand.NewPCG(7, 7))
	outcomes := map[string]int{}
	rounds := 60
	if testing.Short() {
		rounds = 15
	}
	for round := range rounds {
		b := bytes.Clone(whole)
		for range 1 + r.IntN(20) {
			b[r.IntN(len(b))] ^= byte(1 + r.IntN(255))
		}
		if r.IntN(4) == 0 {
			b = b[:r.IntN(len(b))]
		}
		if r.IntN(2) == 0 { // headers and pointers sit at the start of pages
			at := r.IntN(len(b)/4096+1) * 4096
			for i := range r.IntN(16) {
				if at+i < len(b) {
					b[at+i] = byte(r.Uint32())
				}
			}
		}
		path := filepath.Join(t.TempDir(), "ledger.db")
		require.NoError(t, os.WriteFile(path, b, 0o640))
		l, rep, err := Open(t.Context(), path, quiet, clock)
		switch {
		case err != nil:
			outcomes["refused"]++
			t.Logf("round %d: %v", round, err)
			require.NotErrorIs(t, err, ErrCorrupt)
			kept, err := os.ReadFile(path)
			require.NoError(t, err)
			require.True(t, bytes.Equal(b, kept))
		case rep.MovedAside != "":
			outcomes["moved aside"]++
			require.NoError(t, l.Close())
			kept, err := os.ReadFile(rep.MovedAside)
			require.NoError(t, err)
			require.True(t, bytes.Equal(b, kept))
		default:
			outcomes["in use"]++
			require.Equal(t, len(b) == 0, rep.Created)
			_, err := l.OpenLaunches(t.Context())
			if err != nil {
				t.Logf("round %d: %v", round, err)
			}
			_ = l.Close() // may find damage only now
		}
	}
	t.Log(outcomes)
	require.Positive(t, outcomes["moved aside"])
}

// Damage that is found while the ledger is in use says what to do.
func TestDamageFoundLaterIsNamed(t *testing.T) {
	path := aFilledLedger(t)
	l, err := OpenReadOnly(t.Context(), path)
	require.NoError(t, err)
	var page int
	require.NoError(t, one(t.Context(), l.reader, []any{&page}, `SELECT rootpage FROM sqlite_schema WHERE name = 'launch_nodes'`))
	require.NoError(t, l.Close())
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	copy(b[(page-1)*4096:], garbage(1, 4096))
	require.NoError(t, os.WriteFile(path, b, 0o640))
	l, err = OpenReadOnly(t.Context(), path)
	require.NoError(t, err)
	defer l.Close()
	_, err = l.OpenLaunches(t.Context())
	require.ErrorIs(t, err, ErrCorrupt)
	require.ErrorContains(t, err, "restart midair controller")
}

func BenchmarkOpen(b *testing.B) {
	path := filepath.Join(b.TempDir(), "ledger.db")
	l, _ := mustOpen(b, path)
	for j := range 200 {
		update(b, l, func(tx *Tx) error {
			la := aLaunch(fmt.Sprintf("L%03d", j), j+1, 1000, noon)
			if err := tx.AddLaunches([]Launch{la}); err != nil {
				return err
			}
			return tx.AddInstances(instancesOf(la, "t"))
		})
	}
	require.NoError(b, l.Close())
	st, err := os.Stat(path)
	require.NoError(b, err)
	start := time.Now()
	for b.Loop() {
		l, _, err := Open(context.Background(), path, quiet, clock)
		require.NoError(b, err)
		require.NoError(b, l.Close())
	}
	b.ReportMetric(float64(st.Size())/1e6*float64(b.N)/time.Since(start).Seconds(), "MB/s")
}
