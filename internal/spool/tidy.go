package spool

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
	"time"
)

// Remove takes a record away after it has been dealt with. One that is gone
// already is no error.
func Remove(dir, name string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("remove spool record %s: %w", name, err)
	}
	defer root.Close()
	if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove spool record %s: %w", name, err)
	}
	return nil
}

// Quarantine moves a record that cannot be read into the folder bad beneath
// the spool, where an admin finds it. One that is gone already is no error.
func Quarantine(dir, name string) error {
	if name != path.Base(name) || strings.HasPrefix(name, ".") {
		return fmt.Errorf("move spool record %s aside: that is no record's name", name)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("move spool record %s aside: %w", name, err)
	}
	defer root.Close()
	if err := makeBadDir(root); err != nil {
		return fmt.Errorf("move spool record %s aside: %w", name, err)
	}
	if _, err := root.Lstat(name); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := root.Rename(name, path.Join(badDir, name)); err != nil {
		return fmt.Errorf("move spool record %s aside: %w", name, err)
	}
	return nil
}

// makeBadDir makes the folder for broken records; root leaves it to the
// spool's owner, who may run the controller next time.
func makeBadDir(root *os.Root) error {
	err := root.Mkdir(badDir, 0o750)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil || os.Geteuid() != 0 {
		return err
	}
	fi, err := root.Stat(".")
	if err != nil {
		return err
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	return root.Lchown(badDir, int(st.Uid), int(st.Gid))
}

// tempAge is how old a temporary must be before it is swept up: no hook takes
// nearly as long to write one.
const tempAge = time.Hour

// Sweep removes temporaries that a killed hook left more than an hour before
// now. It goes on after one that it cannot remove and reports all of those.
func Sweep(dir string, now time.Time) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("sweep spool: %w", err)
	}
	defer root.Close()
	names, err := fs.Glob(root.FS(), tempPrefix+"*")
	if err != nil {
		return fmt.Errorf("sweep spool %s: %w", dir, err)
	}
	var failed []error
	for _, n := range names {
		fi, err := root.Lstat(n)
		if err != nil || fi.IsDir() || now.Sub(fi.ModTime()) <= tempAge {
			continue
		}
		if err := root.Remove(n); err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed = append(failed, fmt.Errorf("sweep spool %s: %w", dir, err))
		}
	}
	return errors.Join(failed...)
}
