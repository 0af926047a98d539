package spool

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"syscall"
)

// maxRead bounds the bytes of all records that one Read gives, so that a folder
// full of large ones does not eat the controller's memory.
const maxRead = 4 * MaxSize

// Bad is a record that could not be read; Quarantine moves it out of the way.
type Bad struct {
	Name string
	Err  error
}

// Read gives the records of the folder, oldest first, and those that are
// broken: not in the format or cut off, of another version, too large, not a
// regular file, not readable. An error means that the folder could not be read, or not now (no
// file descriptor left, say); nothing is known then about the records.
//
// When there are more than 256 MiB of records, the oldest of them are given;
// the others come once those have been removed.
//
// The reader may be root and the folder SlurmUser's: nothing outside of the
// folder is ever opened (os.Root), and links, pipes and devices in it are not
// either.
func Read(dir string) ([]Record, []Bad, error) { return read(dir, maxRead) }

func read(dir string, limit int64) (records []Record, bad []Bad, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("read spool: %w", err)
	}
	defer root.Close()
	names, err := recordNames(root)
	if err != nil {
		return nil, nil, fmt.Errorf("read spool %s: %w", dir, err)
	}
	var total int64
	for _, name := range names {
		text, err := readFile(root, name, limit-total)
		switch {
		case errors.Is(err, fs.ErrNotExist): // taken away meanwhile
			continue
		case errors.Is(err, errLater):
			return records, bad, nil
		case passing(err):
			return nil, nil, fmt.Errorf("read spool record %s in %s: %w", name, dir, err)
		}
		total += int64(len(text))
		var r Record
		if err == nil {
			r, err = Decode(text)
		}
		if err != nil {
			bad = append(bad, Bad{name, err})
			continue
		}
		r.Name = name
		records = append(records, r)
	}
	return records, bad, nil
}

// recordNames gives the names of the records, sorted.
func recordNames(root *os.Root) ([]string, error) {
	d, err := root.Open(".")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	names = slices.DeleteFunc(names, func(n string) bool { return !IsRecord(n) })
	slices.Sort(names)
	return names, nil
}

// errLater: the file would be one too many in this Read.
var errLater = errors.New("left for the next read")

// readFile reads one file, unless it has more than room bytes.
func readFile(root *os.Root, name string, room int64) ([]byte, error) {
	before, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	switch {
	case !before.Mode().IsRegular():
		return nil, fmt.Errorf("it is not a regular file (%s)", before.Mode())
	case before.Size() > MaxSize:
		return nil, fmt.Errorf("%w: %d bytes, at most %d are read", ErrTooLarge, before.Size(), MaxSize)
	case before.Size() > room:
		return nil, errLater
	}
	// O_NONBLOCK: should it have become a pipe, this must not wait for a writer.
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	after, err := f.Stat()
	if err != nil {
		return nil, err
	}
	// os.Root follows links inside of the folder: one put in place since Lstat
	// would lead to a half-written temporary, say.
	if !os.SameFile(before, after) {
		return nil, errors.New("it was exchanged while it was read")
	}
	return io.ReadAll(io.LimitReader(f, MaxSize+1))
}

// passing reports whether an error says nothing about the file: the same read
// may work later.
func passing(err error) bool {
	return slices.ContainsFunc([]syscall.Errno{
		syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EINTR, syscall.EAGAIN, syscall.ESTALE,
	}, func(no syscall.Errno) bool { return errors.Is(err, no) })
}
