package hook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

// NewLog logs to standard error, syslog and the hooks' log file: Slurm throws a
// hook's output away, and people who call it by hand look at the terminal. The
// latter two are opened at the first line, so that a hook that has nothing to
// say pays nothing.
func NewLog() *slog.Logger {
	return slog.New(slog.NewTextHandler(&lateWriter{}, &slog.HandlerOptions{Level: slog.LevelInfo}))
}

// lateWriter opens its sinks when it is first written to. A sink that cannot
// be opened is left out: a hook must not fail because its log is full.
type lateWriter struct {
	sinks  []io.Writer
	opened bool
}

func (w *lateWriter) Write(line []byte) (int, error) {
	if !w.opened {
		w.open()
	}
	for _, s := range w.sinks {
		_, _ = s.Write(line) // there is nowhere left to report it
	}
	return len(line), nil
}

func (w *lateWriter) open() {
	w.opened = true
	// A broken pipe on standard error would end the program, unless somebody
	// has asked for the signal. (To ignore it would go on to the site's own
	// programs.)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	w.sinks = append(w.sinks, os.Stderr)
	if s, err := openSyslog(syslogSocket, filepath.Base(os.Args[0])); err == nil {
		w.sinks = append(w.sinks, s)
	}
	if f, err := openLogFile(logPath()); err == nil {
		w.sinks = append(w.sinks, f)
	} else {
		fmt.Fprintln(os.Stderr, "midair: open the hooks' log:", err)
	}
}

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

// maxLogLine is where a line without end is cut, in bytes.
const maxLogLine = 16 << 10

// Lines turns a program's output into log lines. Its zero value is not usable;
// Log and Program must be set. It is for one writer at a time.
type Lines struct {
	Log     *slog.Logger
	Program string
	part    []byte // of a line that has no end yet
}

// Write implements io.Writer; it never fails.
func (l *Lines) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		n := min(len(rest), maxLogLine-len(l.part))
		line, _, ended := strings.Cut(string(rest[:n]), "\n")
		l.part = append(l.part, line...)
		rest = rest[len(line):]
		if ended {
			rest = rest[1:]
		}
		if ended || len(l.part) >= maxLogLine {
			l.emit()
		}
	}
	return len(p), nil
}

// Flush logs what has been written after the last line's end.
func (l *Lines) Flush() {
	if len(l.part) > 0 {
		l.emit()
	}
}

func (l *Lines) emit() {
	l.Log.LogAttrs(context.Background(), slog.LevelInfo, string(l.part), slog.String("program", l.Program))
	l.part = l.part[:0]
}
