package spool

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Bad is a record that could not be read.
type Bad struct {
	Name string
	Err  error
}

// Read gives the records of the folder, oldest first, and those that could not
// be read. The reader may be root and the folder SlurmUser's: links, pipes and
// devices are never followed or opened (os.Root, O_NOFOLLOW).
func Read(dir string) ([]Record, []Bad, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("read spool: %w", err)
	}
	defer root.Close()
	d, err := root.Open(".")
	if err != nil {
		return nil, nil, fmt.Errorf("read spool %s: %w", dir, err)
	}
	defer d.Close()
	entries, err := d.ReadDir(-1)
	if err != nil {
		return nil, nil, fmt.Errorf("read spool %s: %w", dir, err)
	}
	var (
		records []Record
		bad     []Bad
	)
	for _, e := range entries {
		name := e.Name()
		if strings.HasPrefix(name, ".") || !strings.HasSuffix(name, ".json") {
			continue
		}
		r, err := readOne(root, name)
		switch {
		case errors.Is(err, fs.ErrNotExist): // taken meanwhile
		case err != nil:
			bad = append(bad, Bad{name, err})
		default:
			records = append(records, r)
		}
	}
	slices.SortFunc(records, func(a, b Record) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(bad, func(a, b Bad) int { return strings.Compare(a.Name, b.Name) })
	return records, bad, nil
}

func readOne(root *os.Root, name string) (Record, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return Record{}, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return Record{}, err
	}
	if !fi.Mode().IsRegular() {
		return Record{}, fmt.Errorf("%s is not a regular file", name)
	}
	text, err := io.ReadAll(io.LimitReader(f, MaxSize+1))
	if err != nil {
		return Record{}, err
	}
	r, err := Decode(text)
	r.Name = name
	return r, err
}

// Decode reads a record's text.
func Decode(text []byte) (Record, error) {
	if len(text) > MaxSize {
		return Record{}, fmt.Errorf("it is larger than %d bytes", MaxSize)
	}
	var r Record
	if err := json.Unmarshal(text, &r); err != nil {
		return Record{}, fmt.Errorf("it is no spool record: %w", err)
	}
	if r.Version != Version {
		return Record{}, fmt.Errorf("its version is %d; this midair reads version %d", r.Version, Version)
	}
	if r.Kind == "" {
		return Record{}, errors.New("it has no kind")
	}
	return r, nil
}

// Remove takes a record away after it has been dealt with.
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

// Quarantine moves a record that cannot be read into the folder bad, where an
// admin finds it.
func Quarantine(dir, name string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("move spool record %s aside: %w", name, err)
	}
	defer root.Close()
	if err := root.Mkdir(badDir, 0o750); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("move spool record %s aside: %w", name, err)
	}
	if err := root.Rename(name, path.Join(badDir, name)); err != nil {
		return fmt.Errorf("move spool record %s aside: %w", name, err)
	}
	return nil
}

// Sweep removes temporaries that a killed hook left more than an hour ago.
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
	for _, n := range names {
		fi, err := root.Lstat(n)
		if err != nil || now.Sub(fi.ModTime()) < time.Hour {
			continue
		}
		if err := root.Remove(n); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("sweep spool %s: %w", dir, err)
		}
	}
	return nil
}
