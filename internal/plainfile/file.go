// Package plainfile is files and folders as bare descriptors, for programs that
// live for milliseconds. What package os adds to a descriptor (a poller, a
// finalizer and the goroutine that runs it) takes such a program longer than
// its work. Errors are *fs.PathError, as those of package os.
package plainfile

import (
	"io"
	"io/fs"
	"syscall"
)

// File is an open file. It must be closed; there is no finalizer.
type File struct {
	fd        int
	dir, name string // for errors; dir may be empty
}

// Open opens a file; flags and perm are open(2)'s. Reads and writes block, so
// O_NONBLOCK is for what may be a pipe and is then found out with Stat.
func Open(path string, flags int, perm uint32) (File, error) {
	fd, err := again(func() (int, error) { return syscall.Open(path, flags|syscall.O_CLOEXEC, perm) })
	if err != nil {
		return File{}, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return File{fd: fd, name: path}, nil
}

// Read implements io.Reader.
func (f File) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	n, err := again(func() (int, error) { return syscall.Read(f.fd, p) })
	switch {
	case err != nil:
		return 0, f.failed("read", err)
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// Write implements io.Writer.
func (f File) Write(p []byte) (int, error) {
	done := 0
	for done < len(p) {
		n, err := again(func() (int, error) { return syscall.Write(f.fd, p[done:]) })
		if err == nil && n == 0 {
			err = io.ErrShortWrite
		}
		if err != nil {
			return done, f.failed("write", err)
		}
		done += n
	}
	return done, nil
}

// Stat gives the file's inode.
func (f File) Stat() (syscall.Stat_t, error) {
	var st syscall.Stat_t
	_, err := again(func() (int, error) { return 0, syscall.Fstat(f.fd, &st) })
	return st, f.failed("stat", err)
}

// Chmod sets the permissions, whatever the umask.
func (f File) Chmod(perm uint32) error { return f.failed("chmod", syscall.Fchmod(f.fd, perm)) }

// Chown gives the file away.
func (f File) Chown(uid, gid int) error { return f.failed("chown", syscall.Fchown(f.fd, uid, gid)) }

// Sync returns when the file is on disk.
func (f File) Sync() error {
	_, err := again(func() (int, error) { return 0, syscall.Fsync(f.fd) })
	return f.failed("sync", err)
}

// Close frees the descriptor, also when it returns an error.
func (f File) Close() error { return f.failed("close", syscall.Close(f.fd)) }

func (f File) failed(op string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: f.path(), Err: err}
}

func (f File) path() string {
	if f.dir == "" {
		return f.name
	}
	return f.dir + "/" + f.name
}

// again repeats a call that a signal has interrupted.
func again(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if err != syscall.EINTR {
			return n, err
		}
	}
}
