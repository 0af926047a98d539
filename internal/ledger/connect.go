package ledger

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"net/url"
	"time"

	"modernc.org/sqlite"
)

// busyTimeout is how long a write waits for another process's write.
const busyTimeout = 10 * time.Second

// walLimit is the size in bytes to which the write-ahead log shrinks again
// after a large transaction.
const walLimit = 8 << 20

// readers is how many reads run at the same time; each connection holds up to
// 2 MB of pages.
const readers = 2

type mode string

const (
	readOnly  mode = "ro"
	readWrite mode = "rw" // never creates the file
)

// connector opens connections that are all set up alike, also those that
// database/sql opens anew after one broke.
type connector struct{ driver.Connector }

func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	// Without this the last connection deletes the -wal and -shm files, and
	// people who may read the ledger but not create files beside it (`midair
	// status` in the group's name) could not open it while the controller is
	// down.
	if fc, ok := conn.(sqlite.FileControl); ok {
		if _, err := fc.FileControlPersistWAL("main", 1); err != nil {
			conn.Close()
			return nil, err
		}
	}
	return conn, nil
}

// connect prepares at most n connections to the file; the first use opens one.
func connect(path string, m mode, n int) (*sql.DB, error) {
	q := url.Values{
		"mode":       {string(m)},
		"_dqs":       {"0"},
		"_defensive": {"1"},
		"_error_rc":  {"1"},
		"_pragma": {
			fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds()),
			"foreign_keys(1)",
			"synchronous(FULL)", // a commit is on disk, not in a cache
			"trusted_schema(0)",
			fmt.Sprintf("journal_size_limit(%d)", walLimit),
		},
	}
	if m == readWrite {
		// A transaction that starts by reading cannot wait for a writer once
		// it wants to write; taking the write lock at once can.
		q.Set("_txlock", "immediate")
	}
	u := url.URL{Scheme: "file", Path: path, RawQuery: q.Encode()}
	c, err := sqlite.NewConnector(u.String())
	if err != nil {
		return nil, err
	}
	db := sql.OpenDB(connector{c})
	db.SetMaxOpenConns(n)
	db.SetMaxIdleConns(n)
	return db, nil
}
