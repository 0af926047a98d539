// Package hook is what Slurm runs as ResumeProgram, SuspendProgram and
// ResumeFailProgram: a hook puts the request on disk and leaves. It imports
// neither config nor slurm nor anything else whose set-up takes time; the job
// hooks, which need those, are in package slurmctld below it.
package hook

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

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
	log := NewLog()
	if len(args) != 1 || strings.TrimSpace(args[0]) == "" {
		log.Error("want one argument, the host list that slurmctld gives, such as gpu-[1-4]", "hook", string(kind), "got", len(args))
		return ExitUsage
	}
	r := spool.Record{Kind: kind, At: time.Now().UTC(), Nodes: args[0], SlurmConf: os.Getenv("SLURM_CONF")}
	if path := os.Getenv("SLURM_RESUME_FILE"); path != "" && kind == spool.Resume {
		// It lies in slurmctld's memory and is gone when this program ends.
		text, err := readBounded(path)
		if err != nil {
			r.ResumeFileError = err.Error()
		}
		r.ResumeFile = text
	}
	_, err := spool.Write(spool.Dir(), r)
	if errors.Is(err, spool.ErrTooLarge) && r.ResumeFile != "" {
		// The nodes are what matters; without the jobs they come one by one.
		r.ResumeFile, r.ResumeFileError = "", err.Error()
		_, err = spool.Write(spool.Dir(), r)
	}
	// Only now is there time for a log, which may hang.
	if err != nil {
		log.Error("the request is lost", "hook", string(kind), "nodes", args[0], "err", err)
		return ExitFail
	}
	if r.ResumeFileError != "" {
		log.Warn("the request is recorded without its resume file", "hook", string(kind), "nodes", args[0], "err", r.ResumeFileError)
	}
	return ExitOK
}

// maxResumeFile bounds a resume file, in bytes. In a record it grows, by a
// quarter or so; for what grows more there is spool.ErrTooLarge.
const maxResumeFile = spool.MaxSize / 2

// readBounded reads a regular file of at most maxResumeFile bytes that is not
// empty.
func readBounded(path string) (string, error) {
	// O_NONBLOCK: nobody may be writing to what is a pipe.
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", fmt.Errorf("read SLURM_RESUME_FILE: %w", err)
	}
	defer f.Close()
	fi, err := f.Stat()
	switch {
	case err != nil:
		return "", fmt.Errorf("read SLURM_RESUME_FILE: %w", err)
	case !fi.Mode().IsRegular() && !fi.IsDir(): // a folder says so itself
		return "", fmt.Errorf("read SLURM_RESUME_FILE %s: it is not a regular file (%s)", path, fi.Mode())
	}
	text, err := io.ReadAll(io.LimitReader(f, maxResumeFile+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("read SLURM_RESUME_FILE: %w", err)
	case len(text) > maxResumeFile:
		return "", fmt.Errorf("read SLURM_RESUME_FILE %s: it is larger than %d MiB", path, maxResumeFile>>20)
	case len(text) == 0:
		return "", fmt.Errorf("read SLURM_RESUME_FILE %s: it is empty", path)
	}
	return string(text), nil
}
