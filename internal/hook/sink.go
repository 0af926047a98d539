package hook

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Sink is where a hook's log lines go: standard error, syslog and the hooks'
// log file. Slurm throws a hook's output away, and people who call it by hand
// look at the terminal. The latter two are opened at the first line, so that a
// hook that has nothing to say pays nothing. One that cannot be opened is left
// out: a hook must not fail because its log is full. The zero value is ready.
type Sink struct {
	open    bool
	writers []io.Writer
}

// Write implements io.Writer for whole lines; it never fails.
func (s *Sink) Write(line []byte) (int, error) {
	if !s.open {
		s.open = true
		s.openAll()
	}
	for _, w := range s.writers {
		_, _ = w.Write(line) // there is nowhere left to report it
	}
	return len(line), nil
}

func (s *Sink) openAll() {
	s.writers = append(s.writers, standardError{})
	if w, err := openSyslog(syslogSocket, filepath.Base(os.Args[0])); err == nil {
		s.writers = append(s.writers, w)
	}
	if f, err := openLogFile(logPath()); err == nil {
		s.writers = append(s.writers, f)
	} else {
		_, _ = standardError{}.Write([]byte("midair: open the hooks' log: " + err.Error() + "\n"))
	}
}

// standardError writes to descriptor 2. Unlike os.Stderr it does not end the
// program when the reader has gone away.
type standardError struct{}

func (standardError) Write(p []byte) (int, error) { return syscall.Write(2, p) }

// openLogFile opens the log for appending, and makes it and its folder if they
// are not there. Root, for whom an admin's call by hand runs, follows no link
// that the folder's owner has put there, and leaves the new file to that owner.
func openLogFile(path string) (*os.File, error) {
	f, made, err := openOrMake(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			return nil, err
		}
		f, made, err = openOrMake(path)
	}
	if err != nil {
		return nil, err
	}
	if fi, err := os.Stat(filepath.Dir(path)); made && os.Geteuid() == 0 && err == nil {
		if st, ok := fi.Sys().(*syscall.Stat_t); ok {
			_ = f.Chown(int(st.Uid), int(st.Gid)) // this line is logged in any case
		}
	}
	return f, nil
}

func openOrMake(path string) (f *os.File, made bool, err error) {
	// O_NONBLOCK: nobody may be reading from what is a pipe.
	flags := os.O_APPEND | os.O_WRONLY | syscall.O_NONBLOCK
	if os.Geteuid() == 0 {
		flags |= syscall.O_NOFOLLOW
	}
	f, err = os.OpenFile(path, flags|os.O_CREATE|os.O_EXCL, 0o640)
	if errors.Is(err, fs.ErrExist) {
		f, err = os.OpenFile(path, flags, 0)
		return f, false, err
	}
	return f, true, err
}
