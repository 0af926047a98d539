// Package watch tells when the spool may hold something new. It is apart from
// package spool so that the hooks do not carry a file watcher.
package watch

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/midair-hpc/midair/internal/spool"
)

// Watch sends on its channel at once, when a record has appeared in the folder,
// and every sweep, in case an event was missed or the folder was made anew.
// Sends are coalesced. The channel is closed when ctx is done. The folder must
// be there when Watch is called.
func Watch(ctx context.Context, dir string, sweep time.Duration) (<-chan struct{}, error) {
	if sweep <= 0 {
		return nil, fmt.Errorf("watch spool %s: a sweep every %s: want more than 0", dir, sweep)
	}
	w, err := newWatcher(dir)
	if err != nil {
		return nil, err
	}
	go func() {
		tick := time.NewTicker(sweep)
		defer tick.Stop()
		w.run(ctx, tick.C)
	}()
	return w.wake, nil
}

type watcher struct {
	dir     string
	files   *fsnotify.Watcher
	watched os.FileInfo // the folder that files watches; nil: none
	wake    chan struct{}
}

func newWatcher(dir string) (*watcher, error) {
	files, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("watch spool %s: %w", dir, err)
	}
	w := &watcher{dir: dir, files: files, wake: make(chan struct{}, 1)}
	// Stat first: if the folder is exchanged in between, the next sweep sees
	// another one and watches it again; the other way round it would not.
	w.watched, err = os.Stat(dir)
	if err == nil {
		err = files.Add(dir)
	}
	if err != nil {
		files.Close()
		return nil, fmt.Errorf("watch spool %s: %w", dir, err)
	}
	w.tell() // of what is there already
	return w, nil
}

// run wakes the reader until ctx is done; ticks are the sweeps.
func (w *watcher) run(ctx context.Context, ticks <-chan time.Time) {
	defer close(w.wake)
	defer w.files.Close()
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-w.files.Events:
			if e.Has(fsnotify.Create) && spool.IsRecord(filepath.Base(e.Name)) {
				w.tell()
			}
		case <-w.files.Errors: // such as an overflow: records may have been missed
			w.tell()
		case <-ticks:
			w.follow()
			w.tell()
		}
	}
}

func (w *watcher) tell() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// follow watches the folder anew if it is another one than the one watched:
// removed, moved away or mounted over, and made again. What fails is tried
// again at the next sweep.
func (w *watcher) follow() {
	now, err := os.Stat(w.dir)
	if err != nil {
		return
	}
	if w.watched != nil && os.SameFile(now, w.watched) && len(w.files.WatchList()) > 0 {
		return
	}
	_ = w.files.Remove(w.dir) // the old one, if that is still watched
	if err := w.files.Add(w.dir); err != nil {
		w.watched = nil
		return
	}
	w.watched = now
}
