package hook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"log/syslog"
	"os"
	"path/filepath"
	"strings"

	"github.com/midair-hpc/midair/internal/config"
)

// defaultLog is where hooks log when midair.yaml does not say or cannot be
// read.
const defaultLog = "/var/log/midair/hook.log"

// newLog logs to syslog, a file and standard error: Slurm throws a hook's
// output away, and people who call it by hand look at the terminal. All three
// are opened at the first line, so that a hook that has nothing to say pays
// nothing.
func newLog() *slog.Logger {
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
		if s, err := syslog.New(syslog.LOG_DAEMON|syslog.LOG_NOTICE, filepath.Base(os.Args[0])); err == nil {
			w.sinks = append(w.sinks, s)
		}
		if f, err := openLogFile(); err == nil {
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

func openLogFile() (*os.File, error) {
	path := defaultLog
	if cfg, err := config.Load(config.Path()); err == nil && cfg.HookLog != "" {
		path = cfg.HookLog
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o640)
	if errors.Is(err, os.ErrNotExist) {
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			return nil, err
		}
		f, err = os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o640)
	}
	return f, err
}

// lineLog turns a program's output into log lines.
type lineLog struct {
	log  *slog.Logger
	name string
	part string
}

func (l *lineLog) Write(p []byte) (int, error) {
	l.part += string(p)
	for {
		line, rest, ok := strings.Cut(l.part, "\n")
		if !ok {
			return len(p), nil
		}
		l.log.LogAttrs(context.Background(), slog.LevelInfo, line, slog.String("program", l.name))
		l.part = rest
	}
}
