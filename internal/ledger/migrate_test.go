package ledger

import (
	"database/sql"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// edit runs SQL on a closed ledger or any other SQLite file.
func edit(t *testing.T, path, query string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	_, err = db.ExecContext(t.Context(), query)
	require.NoError(t, err)
	require.NoError(t, db.Close())
}

func TestNewerLedgerIsLeftAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	l, _ := mustOpen(t, path)
	require.NoError(t, l.Close())
	edit(t, path, `PRAGMA user_version = 99`)
	before, err := os.ReadFile(path)
	require.NoError(t, err)
	_, r, err := Open(t.Context(), path, quiet, clock)
	require.Empty(t, r)
	require.ErrorIs(t, err, ErrNewer)
	require.NotErrorIs(t, err, ErrOlder)
	require.ErrorContains(t, err, "ledger "+path+" has schema version 99 and this midair knows versions up to 2: install the midair that wrote it or a newer one, or move the file aside to rebuild from the cloud's tags")
	_, err = OpenReadOnly(t.Context(), path)
	require.ErrorIs(t, err, ErrNewer)
	after, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, before, after)
}

func TestOlderLedgerIsNotReadButMigrated(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	// A ledger of a version before the first: ours by its mark, without tables.
	edit(t, path, `PRAGMA application_id = 0x6d646172`)
	_, err := OpenReadOnly(t.Context(), path)
	require.ErrorIs(t, err, ErrOlder)
	require.ErrorContains(t, err, "start midair controller")
	l, r := mustOpen(t, path)
	require.Empty(t, r)
	require.NoError(t, l.Close())
	l, err = OpenReadOnly(t.Context(), path)
	require.NoError(t, err)
	require.NoError(t, l.Close())
}

func TestForeignDatabaseIsLeftAlone(t *testing.T) {
	for name, setup := range map[string]string{
		"another program's mark": `PRAGMA application_id = 0x12345678`,
		"no mark but tables":     `CREATE TABLE users (name)`,
		"no mark but a version":  `PRAGMA user_version = 1`,
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "ledger.db")
			edit(t, path, setup)
			before, err := os.ReadFile(path)
			require.NoError(t, err)
			_, r, err := Open(t.Context(), path, quiet, clock)
			require.Empty(t, r)
			require.ErrorIs(t, err, ErrForeign)
			require.ErrorContains(t, err, "set ledger in midair.yaml to another path")
			_, err = OpenReadOnly(t.Context(), path)
			require.ErrorIs(t, err, ErrForeign)
			after, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, before, after)
		})
	}
}

func TestFailedMigrationLeavesTheLedgerAsItWas(t *testing.T) {
	l := fresh(t)
	update(t, l, func(tx *Tx) error { return tx.AddLaunches([]Launch{aLaunch("L1", 1, 1, noon)}) })
	next := append(schema[:len(schema):len(schema)],
		`CREATE TABLE extra (a INTEGER) STRICT; INSERT INTO extra VALUES (1);`,
		`CREATE TABLE more (a INTEGER) STRICT; INSERT INTO more VALUES (1); DROP TABLE nonesuch;`)
	require.ErrorContains(t, migrate(t.Context(), l.writer, l.path, next), "migrate to schema version 4")
	id, err := identify(t.Context(), l.writer)
	require.NoError(t, err)
	require.Equal(t, 3, id.version, "the one before is committed")
	var extra, more int
	require.NoError(t, one(t.Context(), l.writer, []any{&extra}, `SELECT count(*) FROM extra`))
	require.Equal(t, 1, extra)
	require.ErrorContains(t, one(t.Context(), l.writer, []any{&more}, `SELECT count(*) FROM more`), "no such table")
	open, err := l.OpenLaunches(t.Context())
	require.NoError(t, err)
	require.Len(t, open, 1)

	next[3] = `CREATE TABLE more (a INTEGER) STRICT`
	require.NoError(t, migrate(t.Context(), l.writer, l.path, next))
	require.NoError(t, migrate(t.Context(), l.writer, l.path, next), "nothing is left to do")
}

func TestMigrationsAreNumberedWithoutGaps(t *testing.T) {
	file := func() *fstest.MapFile { return &fstest.MapFile{Data: []byte("SELECT 1")} }
	require.Len(t, loadMigrations(fstest.MapFS{"migrations/0002_b.sql": file(), "migrations/0001_a.sql": file()}), 2)
	require.Panics(t, func() { loadMigrations(fstest.MapFS{"migrations/0001_a.sql": file(), "migrations/0003_b.sql": file()}) })
	require.Panics(t, func() { loadMigrations(fstest.MapFS{"migrations/0001_a.sql": file(), "migrations/0001_b.sql": file()}) })
}
