package hook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
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
		w.opened = true
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
	for _, s := range w.sinks {
		_, _ = s.Write(line) // there is nowhere left to report it
	}
	return len(line), nil
}

func openLogFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o640)
	if errors.Is(err, os.ErrNotExist) {
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			return nil, err
		}
		f, err = os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o640)
	}
	return f, err
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
