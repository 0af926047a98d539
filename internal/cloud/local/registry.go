package local

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// registry is the cloud's memory on disk. Everything is read and changed under
// one lock, file by file, each by writing a temporary file and renaming it, so
// a kill leaves every file either old or new.
type registry struct {
	root string
	log  *slog.Logger

	mine   chan struct{} // held with the lock on disk; guards what follows
	cache  map[string]cached
	pruned time.Time
}

// cached is a record as it was read from the file with this identity.
type cached struct {
	file   fileID
	record *record // nil: the file could not be read, which has been logged
}

type fileID struct {
	inode   uint64
	size    int64
	changed time.Time
}

func newRegistry(root string, log *slog.Logger) *registry {
	return &registry{root: root, log: log, mine: make(chan struct{}, 1), cache: map[string]cached{}}
}

func (g *registry) recordPath(id string) string {
	return filepath.Join(g.root, "instances", id+".json")
}
func (g *registry) console(id string) string { return filepath.Join(g.root, "console", id+".log") }
func (g *registry) tokenPath(token string) string {
	return filepath.Join(g.root, "tokens", fileName(token))
}
func (g *registry) lockPath() string      { return lockPath(g.root) }
func (g *registry) tokenLockPath() string { return filepath.Join(g.root, "tokens.lock") }

func lockPath(root string) string { return filepath.Join(root, "lock") }

func (g *registry) makeRoot() error {
	for _, d := range []string{"instances", "console", "tokens"} {
		if err := os.MkdirAll(filepath.Join(g.root, d), 0o755); err != nil {
			return fmt.Errorf("make the local cloud's folder: %w", err)
		}
	}
	return nil
}

// view is the registry under its lock. Records in it are not changed in place:
// put replaces them.
type view struct {
	g       *registry
	records map[string]*record
	faults  Faults
	// faultsErr is why the faults file could not be read.
	faultsErr error
}

// do runs fn under the lock.
func (g *registry) do(ctx context.Context, fn func(*view) error) error {
	select {
	case g.mine <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("lock the local cloud: %w", ctx.Err())
	}
	defer func() { <-g.mine }()
	if err := g.makeRoot(); err != nil {
		return err
	}
	lock, err := lockFile(ctx, g.lockPath())
	if err != nil {
		return err
	}
	defer lock.Close()
	v, err := g.load()
	if err != nil {
		return err
	}
	return fn(v)
}

func (g *registry) load() (*view, error) {
	v := &view{g: g, records: map[string]*record{}}
	v.faults, v.faultsErr = ReadFaults(g.root)
	files, err := os.ReadDir(filepath.Join(g.root, "instances"))
	if err != nil {
		return nil, fmt.Errorf("list instances: %w", err)
	}
	fresh := make(map[string]cached, len(files))
	for _, f := range files {
		id, ok := strings.CutSuffix(f.Name(), ".json")
		if !ok {
			continue
		}
		c, err := g.read(id, f)
		if err != nil {
			return nil, err
		}
		fresh[id] = c
		if c.record != nil {
			v.records[id] = c.record
		}
	}
	g.cache = fresh
	return v, nil
}

// read gives a record, from the cache if its file is the one that was read. A
// file with other text in it is left out and logged once.
func (g *registry) read(id string, f fs.DirEntry) (cached, error) {
	info, err := f.Info()
	if err != nil {
		return cached{}, fmt.Errorf("read record of %s: %w", id, err)
	}
	c := cached{file: identify(info)}
	if old, ok := g.cache[id]; ok && old.file == c.file {
		return old, nil
	}
	b, err := os.ReadFile(g.recordPath(id))
	if err != nil {
		return cached{}, fmt.Errorf("read record of %s: %w", id, err)
	}
	var r record
	if err := json.Unmarshal(b, &r); err != nil || r.ID != id || !r.Addr.IsValid() {
		if err == nil {
			err = errors.New("not the record of this instance")
		}
		g.log.Warn("instance record is left out", "file", g.recordPath(id), "err", err)
		return c, nil
	}
	c.record = &r
	return c, nil
}

func identify(info fs.FileInfo) fileID {
	id := fileID{size: info.Size(), changed: info.ModTime()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		id.inode = st.Ino
	}
	return id
}

// sorted gives the records, oldest first.
func (v *view) sorted() []*record {
	all := make([]*record, 0, len(v.records))
	for _, r := range v.records {
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b *record) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), a.Addr.Compare(b.Addr), strings.Compare(a.ID, b.ID))
	})
	return all
}

// put writes a record.
func (v *view) put(r record) error {
	path := v.g.recordPath(r.ID)
	delete(v.g.cache, r.ID)
	if err := writeJSON(path, r); err != nil {
		return fmt.Errorf("write record of %s: %w", r.ID, err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("write record of %s: %w", r.ID, err)
	}
	v.g.cache[r.ID] = cached{file: identify(info), record: &r}
	v.records[r.ID] = &r
	return nil
}

// drop forgets an instance.
func (v *view) drop(id string) error {
	delete(v.records, id)
	delete(v.g.cache, id)
	if err := remove(v.g.console(id)); err != nil {
		return err
	}
	return remove(v.g.recordPath(id))
}

// token gives what a token has bought; nil if it was never used.
func (v *view) token(token string) (*tokenRecord, error) {
	var t tokenRecord
	b, err := os.ReadFile(v.g.tokenPath(token))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &t)
	}
	if err != nil {
		return nil, fmt.Errorf("read token %s: %w", token, err)
	}
	return &t, nil
}

func (v *view) putToken(t tokenRecord) error {
	if err := writeJSON(v.g.tokenPath(t.Token), t); err != nil {
		return fmt.Errorf("write token %s: %w", t.Token, err)
	}
	return nil
}

func (v *view) putFaults() error { return writeFaults(v.g.root, v.faults) }

// prune forgets what ended long ago: records at every call, tokens now and then.
func (v *view) prune(now time.Time) error {
	inUse := map[string]bool{}
	for id, r := range v.records {
		if r.Gone && now.Sub(r.EndedAt) > keptFor {
			if err := v.drop(id); err != nil {
				return err
			}
			continue
		}
		inUse[fileName(r.Token)] = true
	}
	if now.Sub(v.g.pruned) < listedFor {
		return nil
	}
	v.g.pruned = now
	files, err := os.ReadDir(filepath.Join(v.g.root, "tokens"))
	if err != nil {
		return fmt.Errorf("list tokens: %w", err)
	}
	for _, f := range files {
		if inUse[f.Name()] {
			continue
		}
		path := filepath.Join(v.g.root, "tokens", f.Name())
		var t tokenRecord
		b, err := os.ReadFile(path)
		if err != nil || json.Unmarshal(b, &t) != nil || now.Sub(t.CreatedAt) <= keptFor {
			continue
		}
		if err := remove(path); err != nil {
			return err
		}
	}
	return nil
}

func writeJSON(path string, what any) error {
	b, err := json.MarshalIndent(what, "", " ")
	if err != nil {
		return err
	}
	tmp := path + ".tmp"
	if err := os.WriteFile(tmp, append(b, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove: %w", err)
	}
	return nil
}
