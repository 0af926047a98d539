package spool

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"strconv"
	"syscall"

	"github.com/midair-hpc/midair/internal/plainfile"
)

// Write puts a record into the folder, durably: when it returns nil the record
// survives a power cut, and when it returns an error nothing of it is there.
// The error names the folder and says what to do about it.
//
// The name sorts by r.At; records of the same nanosecond get names of their
// own. Version and Name are set here, whatever r has there. Root leaves the
// record to the folder's owner, so that a request which an admin makes by hand
// can be read by a controller that runs as SlurmUser.
func Write(path string, r Record) (name string, err error) {
	if path == "" {
		return "", errors.New("write spool record: the folder has no name")
	}
	switch r.Kind {
	case Resume, Suspend, Fail, Epilog:
	default:
		return "", errors.New("write spool record: there is no kind " + strconv.Quote(string(r.Kind)))
	}
	if r.At.Before(earliest) || r.At.After(latest) {
		return "", errors.New("write spool record: its time " + r.At.String() + " is not between 1970 and 2262; check the clock")
	}
	text := encode(r)
	if len(text) > MaxSize {
		return "", &writeError{ErrTooLarge, "it would have " + strconv.Itoa(len(text)) + " bytes, at most " + strconv.Itoa(MaxSize) + " are read"}
	}
	dir, err := plainfile.OpenDir(path)
	if err != nil {
		return "", advise(path, err)
	}
	defer dir.Close()
	// No other process has this id now, and no other record of this process has
	// this number.
	name = fileName(r, os.Getpid(), rand.Uint64())
	if err := put(dir, name, text); err != nil {
		return "", advise(path, err)
	}
	return name, nil
}

// put makes the file, durably. After an error there is none.
func put(dir plainfile.Dir, name string, text []byte) error {
	now := tempPrefix + name // what the file is called
	f, err := dir.Create(now, mode)
	if err != nil {
		return err
	}
	err = fill(f, dir, text)
	if err == nil {
		// Before it has its name, so that no name ever stands for half a record.
		// Some file systems find out only here that the disk is full.
		err = f.Sync()
	}
	if err == nil {
		if err = dir.Rename(now, name); err == nil {
			now = name
		}
	}
	if err == nil {
		err = dir.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		// It may not survive a power cut, so it must not be promised.
		_ = dir.Remove(now)
	}
	return err
}

// fileName names a record, so that names sort by time.
func fileName(r Record, pid int, random uint64) string {
	at := strconv.FormatInt(r.At.UnixNano(), 10)
	const digits = "00000000000000000000"
	return digits[len(at):] + at + "-" + string(r.Kind) + "-" + strconv.Itoa(pid) + "-" + strconv.FormatUint(random, 36) + suffix
}

// mode lets the folder's group read the records, and nobody else.
const mode = 0o640

// fill gives a new file its owner and its text.
func fill(f plainfile.File, dir plainfile.Dir, text []byte) error {
	if err := f.Chmod(mode); err != nil {
		return err
	}
	if err := giveToOwner(f, dir); err != nil {
		return err
	}
	_, err := f.Write(text)
	return err
}

// giveToOwner makes root's file the folder's owner's.
func giveToOwner(f plainfile.File, dir plainfile.Dir) error {
	if os.Geteuid() != 0 {
		return nil
	}
	st, err := dir.Stat()
	if err != nil {
		return err
	}
	if st.Uid == 0 && st.Gid == 0 {
		return nil
	}
	return f.Chown(int(st.Uid), int(st.Gid))
}

// writeError is an error of Write. It and what makes it do without fmt, which
// would lengthen every start of the hooks that link Write.
type writeError struct {
	err  error
	todo string // what an admin can do, or more about err
}

func (e *writeError) Error() string { return "write spool record: " + e.err.Error() + "; " + e.todo }

func (e *writeError) Unwrap() error { return e.err }

// advise adds to an error of Write what an admin can do.
func advise(dir string, err error) error {
	var todo string
	switch {
	case errors.Is(err, fs.ErrNotExist):
		todo = "create the folder " + dir + " and give it to SlurmUser, or set " + EnvDir
	case errors.Is(err, syscall.ENOTDIR):
		todo = dir + " must be a folder that SlurmUser can write to"
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		todo = "make room on the disk of " + dir
	case errors.Is(err, syscall.EROFS):
		todo = "the file system of " + dir + " is mounted read-only; mount it for writing"
	case errors.Is(err, fs.ErrPermission):
		todo = "give the folder " + dir + " to SlurmUser; this process has user id " + strconv.Itoa(os.Geteuid())
	default:
		todo = "check the disk of the folder " + dir
	}
	return &writeError{err, todo}
}
