// Package watch tells when the spool may hold something new. It is apart from
// package spool so that the hooks do not carry a file watcher.
package watch

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Watch sends on its channel when a record has appeared in the folder, and
// every sweep in case an event was missed or the folder was made anew. Sends
// are coalesced. The channel is closed when ctx is done.
func Watch(ctx context.Context, dir string, sweep time.Duration) (<-chan struct{}, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("watch spool %s: %w", dir, err)
	}
	if err := w.Add(dir); err != nil {
		w.Close()
		return nil, fmt.Errorf("watch spool %s: %w", dir, err)
	}
	wake := make(chan struct{}, 1)
	wake <- struct{}{}
	tell := func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
	go func() {
		defer close(wake)
		defer w.Close()
		tick := time.NewTicker(sweep)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case e := <-w.Events:
				if e.Has(fsnotify.Create) && strings.HasSuffix(e.Name, ".json") {
					tell()
				}
			case <-w.Errors: // such as an overflow: the sweep finds what was missed
				tell()
			case <-tick.C:
				if _, err := os.Stat(dir); err == nil && len(w.WatchList()) == 0 {
					_ = w.Add(dir) // removed and made again; if it fails, the next tick tries
				}
				tell()
			}
		}
	}()
	return wake, nil
}
