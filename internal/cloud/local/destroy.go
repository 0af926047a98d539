package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Destroy ends every instance and removes the bridge and everything that the
// local cloud has on disk. Other files in its root are left alone. It tells how
// many live instances it ended.
func (p *Provider) Destroy(ctx context.Context) (ended int, err error) {
	err = p.reg.do(ctx, func(v *view) error {
		var unknown []string
		for id, r := range v.records {
			if r.Gone {
				continue
			}
			if r.live() {
				ended++
			}
			if r.Process == nil {
				unknown = append(unknown, p.reg.console(id))
				continue
			}
			if err := p.cells.Kill(*r.Process); err != nil {
				return fmt.Errorf("end instance %s: %w", id, err)
			}
		}
		if err := p.cells.Sweep(unknown); err != nil {
			return err
		}
		for id, r := range v.records {
			if r.Process == nil {
				continue
			}
			if err := p.cells.Wait(ctx, *r.Process); err != nil {
				return fmt.Errorf("wait for the end of instance %s: %w", id, err)
			}
		}
		if err := p.cells.Remove(); err != nil {
			return err
		}
		return p.reg.destroy()
	})
	return ended, err
}

// destroy removes the registry's files and its folders, with the lock last. A
// process that waits for the lock notices and makes a new one.
func (g *registry) destroy() error {
	for _, pattern := range []string{"instances/*.json", "instances/*.tmp", "console/*.log", "tokens/*.json", "tokens/*.tmp", "dev/nvidia*", "faults.json*", "tokens.lock"} {
		paths, err := fs.Glob(os.DirFS(g.root), pattern)
		if err != nil {
			return fmt.Errorf("remove the local cloud: %w", err)
		}
		for _, path := range paths {
			if err := remove(filepath.Join(g.root, path)); err != nil {
				return err
			}
		}
	}
	g.cache, g.pruned = map[string]cached{}, time.Time{}
	if err := remove(g.lockPath()); err != nil {
		return err
	}
	for _, d := range []string{"instances", "console", "tokens", "dev", "."} {
		// A folder with somebody else's files stays.
		err := os.Remove(filepath.Join(g.root, d))
		if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.ENOTEMPTY) && !errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("remove the local cloud: %w", err)
		}
	}
	return nil
}
