// Package hook is what Slurm runs as ResumeProgram, SuspendProgram and
// ResumeFailProgram: a hook puts the request on disk and leaves. It imports
// neither config nor slurm nor anything else whose set-up takes time; the job
// hooks, which need those, are in package slurmctld below it.
package hook

import (
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/midair-hpc/midair/internal/plainfile"
	"github.com/midair-hpc/midair/internal/spool"
)

// Exit codes of the recording hooks. slurmctld only logs them; people who call
// a hook by hand and tests read them.
const (
	ExitOK    = 0 // the request is safely on disk
	ExitFail  = 1 // it is not
	ExitUsage = 2
)

// Record writes the request of a power hook (kind resume, suspend or fail) into
// the spool and gives the exit code. It reads no configuration and asks nobody,
// so that it takes milliseconds and works whatever else is down.
func Record(kind spool.Kind, args []string) int {
	if len(args) != 1 || strings.TrimSpace(args[0]) == "" {
		say(levelError, "want one argument, the host list that slurmctld gives, such as gpu-[1-4]", "hook", string(kind), "got", strconv.Itoa(len(args)))
		return ExitUsage
	}
	r := spool.Record{Kind: kind, At: time.Now().UTC(), Nodes: args[0], SlurmConf: os.Getenv("SLURM_CONF")}
	if path := os.Getenv("SLURM_RESUME_FILE"); path != "" && kind == spool.Resume {
		// It lies in slurmctld's memory and is gone when this program ends.
		text, err := readBounded(path)
		if err != nil {
			r.ResumeFileError = "read SLURM_RESUME_FILE: " + err.Error()
		}
		r.ResumeFile = string(text)
	}
	_, err := spool.Write(spool.Dir(), r)
	// Only now is there time for a log, which may hang.
	if err != nil {
		say(levelError, "the request is lost", "hook", string(kind), "nodes", args[0], "err", err.Error())
		return ExitFail
	}
	if r.ResumeFileError != "" {
		say(levelWarn, "the request is recorded without its resume file", "hook", string(kind), "nodes", args[0], "err", r.ResumeFileError)
	}
	return ExitOK
}

// say logs the one line that a power hook may have to say.
func say(level, message string, attributes ...string) {
	_, _ = new(Sink).Write(logLine(time.Now(), level, message, attributes...))
}

// maxResumeFile bounds a resume file, in bytes, so that it fits into a record.
const maxResumeFile = spool.MaxSize / 2

// readBounded reads a regular file of at most maxResumeFile bytes that is not
// empty.
func readBounded(path string) ([]byte, error) {
	// O_NONBLOCK: nobody may be writing to what is a pipe.
	f, err := plainfile.Open(path, syscall.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	switch kind := st.Mode & syscall.S_IFMT; {
	case err != nil:
		return nil, err
	case kind != syscall.S_IFREG && kind != syscall.S_IFDIR: // a folder says so itself
		return nil, errors.New(path + " is not a regular file (mode 0" + strconv.FormatUint(uint64(st.Mode), 8) + ")")
	case st.Size > maxResumeFile:
		return nil, errors.New(path + " is larger than " + strconv.Itoa(maxResumeFile>>20) + " MiB")
	}
	text := make([]byte, st.Size+1)
	n, err := io.ReadFull(f, text)
	switch {
	case err == nil:
		return nil, errors.New(path + " has grown while it was read")
	case n == 0 && err == io.EOF:
		return nil, errors.New(path + " is empty")
	case err != io.ErrUnexpectedEOF:
		return nil, err
	}
	return text[:n], nil
}
