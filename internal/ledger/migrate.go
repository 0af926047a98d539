package ledger

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
	"slices"
)

//go:embed migrations/*.sql
var migrations embed.FS

// schema holds the migrations: applying schema[n] to version n gives version
// n+1. Their files are numbered from 0001 and never changed once released.
var schema = loadMigrations(migrations)

func loadMigrations(files fs.FS) []string {
	names, err := fs.Glob(files, "migrations/*.sql")
	if err != nil {
		panic(err) // the pattern is malformed
	}
	slices.Sort(names)
	var list []string
	for n, name := range names {
		if want := fmt.Sprintf("migrations/%04d_", n+1); name[:min(len(name), len(want))] != want {
			panic(fmt.Sprintf("migration %s: want a name that starts with %s", name, want))
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			panic(err) // it has just been listed
		}
		list = append(list, string(text))
	}
	return list
}

// useWAL switches the file to write-ahead logging, which it then stays in:
// readers and the writer do not wait for each other.
func useWAL(ctx context.Context, db *sql.DB) error {
	var mode string
	if err := one(ctx, db, []any{&mode}, `PRAGMA journal_mode = WAL`); err != nil {
		return fmt.Errorf("switch on write-ahead logging: %w", err)
	}
	if mode != "wal" {
		return fmt.Errorf("switch on write-ahead logging: the journal mode stays %q; the ledger must be on a local file system", mode)
	}
	return nil
}

// migrate applies the migrations that are missing, each in a transaction, and
// makes sure that the file can be written.
func migrate(ctx context.Context, db *sql.DB, path string, schema []string) error {
	for {
		done, err := migrateOne(ctx, db, path, schema)
		if done || err != nil {
			return err
		}
	}
}

func migrateOne(ctx context.Context, db *sql.DB, path string, schema []string) (done bool, err error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return false, fmt.Errorf("migrate: %w", err)
	}
	defer tx.Rollback()
	// Read inside the transaction: another process may have migrated meanwhile.
	id, err := identify(ctx, tx)
	if err != nil {
		return false, err
	}
	if !id.empty() {
		if err := id.judge(path, len(schema)); err != nil {
			return false, err
		}
	}
	if id.version == len(schema) {
		// SQLite opens a file that may only be read without complaint, and
		// starts a transaction; only a write, undone here, tells.
		if _, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", id.version)); err != nil {
			return false, fmt.Errorf("write: %w", err)
		}
		return true, nil
	}
	to := id.version + 1
	text := fmt.Sprintf("%s\n;PRAGMA application_id = %d; PRAGMA user_version = %d;", schema[id.version], applicationID, to)
	if _, err := tx.ExecContext(ctx, text); err != nil {
		return false, fmt.Errorf("migrate to schema version %d: %w", to, err)
	}
	if err := tx.Commit(); err != nil {
		return false, fmt.Errorf("migrate to schema version %d: %w", to, err)
	}
	return false, nil
}
