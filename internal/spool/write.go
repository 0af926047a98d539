package spool

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Times that a name can hold: nanoseconds since 1970 in 64 bits.
var (
	earliest = time.Unix(0, 0)
	latest   = time.Unix(0, 1<<63-1)
)

// Write puts a record into the folder, durably: when it returns nil the record
// survives a power cut, and when it returns an error nothing of it is there.
// The error names the folder and says what to do about it.
//
// The name sorts by r.At; records of the same nanosecond get names of their
// own. Version and Name are set here, whatever r has there. Root leaves the
// record to the folder's owner, so that a request which an admin makes by hand
// can be read by a controller that runs as SlurmUser.
func Write(dir string, r Record) (name string, err error) {
	if dir == "" {
		return "", errors.New("write spool record: the folder has no name")
	}
	switch r.Kind {
	case Resume, Suspend, Fail, Epilog:
	default:
		return "", fmt.Errorf("write spool record: there is no kind %q", r.Kind)
	}
	if r.At.Before(earliest) || r.At.After(latest) {
		return "", fmt.Errorf("write spool record: its time %s is not between 1970 and 2262; check the clock", r.At)
	}
	text, err := encode(r)
	if err != nil {
		return "", err
	}
	temp, err := writeTemp(dir, text)
	if err != nil {
		return "", advise(dir, err)
	}
	// No other process has this id now, and no other record of this process
	// had this random part while it was written.
	random := filepath.Base(temp)[len(tempPrefix):]
	name = fmt.Sprintf("%020d-%s-%d-%s%s", r.At.UnixNano(), r.Kind, os.Getpid(), random, suffix)
	path := filepath.Join(dir, name)
	if err := os.Rename(temp, path); err != nil {
		os.Remove(temp)
		return "", advise(dir, err)
	}
	if err := syncDir(dir); err != nil {
		// The name may not survive a power cut, so it must not be promised.
		os.Remove(path)
		return "", advise(dir, err)
	}
	return name, nil
}

// writeTemp writes the text to a temporary in the folder and syncs it. After
// an error there is none.
func writeTemp(dir string, text []byte) (path string, err error) {
	f, err := os.CreateTemp(dir, tempPrefix+"*")
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
		}
	}()
	if err := f.Chmod(0o640); err != nil {
		return "", err
	}
	if err := giveToOwner(f, dir); err != nil {
		return "", err
	}
	if _, err := f.Write(text); err != nil {
		return "", err
	}
	// Some file systems find out only here that the disk is full.
	if err := f.Sync(); err != nil {
		return "", err
	}
	if err := f.Close(); err != nil {
		return "", err
	}
	return f.Name(), nil
}

// giveToOwner makes root's file the folder's owner's.
func giveToOwner(f *os.File, dir string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	fi, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if st, ok := fi.Sys().(*syscall.Stat_t); ok && (st.Uid != 0 || st.Gid != 0) {
		return f.Chown(int(st.Uid), int(st.Gid))
	}
	return nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// advise adds to an error of Write what an admin can do.
func advise(dir string, err error) error {
	var todo string
	switch {
	case errors.Is(err, fs.ErrNotExist):
		todo = fmt.Sprintf("create the folder %s and give it to SlurmUser, or set %s", dir, EnvDir)
	case errors.Is(err, syscall.ENOTDIR):
		todo = fmt.Sprintf("%s must be a folder that SlurmUser can write to", dir)
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		todo = fmt.Sprintf("make room on the disk of %s", dir)
	case errors.Is(err, syscall.EROFS):
		todo = fmt.Sprintf("the file system of %s is mounted read-only; mount it for writing", dir)
	case errors.Is(err, fs.ErrPermission):
		todo = fmt.Sprintf("give the folder %s to SlurmUser; this process has user id %d", dir, os.Geteuid())
	default:
		todo = fmt.Sprintf("check the disk of the folder %s", dir)
	}
	return fmt.Errorf("write spool record: %w; %s", err, todo)
}
