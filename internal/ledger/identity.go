package ledger

import (
	"context"
	"fmt"
)

// applicationID marks a SQLite file as a midair ledger: "mdar" in its header
// (https://www.sqlite.org/fileformat2.html#application_id).
const applicationID = 0x6d646172

// identity is what a database's header says about whose it is.
type identity struct {
	application int
	version     int // the schema's, PRAGMA user_version
	objects     int // tables and indexes
}

func identify(ctx context.Context, q querier) (identity, error) {
	var id identity
	err := one(ctx, q, []any{&id.application, &id.version, &id.objects},
		`SELECT (SELECT application_id FROM pragma_application_id), (SELECT user_version FROM pragma_user_version), (SELECT count(*) FROM sqlite_schema)`)
	return id, err
}

func (id identity) empty() bool { return id == identity{} }

// judge gives ErrAbsent for an empty database, ErrForeign or ErrNewer for one
// that is not ours to touch.
func (id identity) judge(path string, known int) error {
	switch {
	case id.empty():
		return ErrAbsent
	case id.application != applicationID:
		return fmt.Errorf("%w: it is a SQLite database of another program (application id %#x): set ledger in midair.yaml to another path", ErrForeign, uint32(id.application))
	case id.version > known:
		return &SchemaError{Path: path, Found: id.version, Known: known}
	}
	return nil
}
