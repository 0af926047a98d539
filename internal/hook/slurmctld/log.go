package slurmctld

import (
	"context"
	"log/slog"
	"strings"

	"github.com/midair-hpc/midair/internal/hook"
)

func newLog() *slog.Logger {
	return slog.New(slog.NewTextHandler(&hook.Sink{}, &slog.HandlerOptions{Level: slog.LevelInfo}))
}

// maxLogLine is where a line without end is cut, in bytes.
const maxLogLine = 16 << 10

// lines turns a program's output into log lines. It is for one writer at a
// time.
type lines struct {
	log     *slog.Logger
	program string
	part    []byte // of a line that has no end yet
}

// Write implements io.Writer; it never fails.
func (l *lines) Write(p []byte) (int, error) {
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

// flush logs what has been written after the last line's end.
func (l *lines) flush() {
	if len(l.part) > 0 {
		l.emit()
	}
}

func (l *lines) emit() {
	l.log.LogAttrs(context.Background(), slog.LevelInfo, string(l.part), slog.String("program", l.program))
	l.part = l.part[:0]
}
