package slurm

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/midair-hpc/midair/internal/hostlist"
)

// CommandError is a command of Slurm's that failed.
type CommandError struct {
	Program string   // such as scontrol
	Args    []string // all of them; Error shortens them
	// ExitCode is the command's exit status; -1 if it was killed or could not
	// be started.
	ExitCode int
	Stderr   string // what it said, at most 4 KiB
	// TimedOut: it was killed after Options.Timeout, which was Limit.
	TimedOut bool
	Limit    time.Duration
	Err      error
}

func (e *CommandError) Error() string {
	s := "run " + e.Program + " " + shortArgs(e.Args) + ": "
	said, _, _ := strings.Cut(strings.TrimSpace(e.Stderr), "\n")
	said = shorten(said, 300)
	switch {
	case e.TimedOut:
		s += fmt.Sprintf("no answer within %s", e.Limit)
		if said != "" {
			s += ", it said: " + said
		}
	case said != "" && e.ExitCode > 0:
		s += said
	case said != "":
		s += e.Err.Error() + ", it said: " + said
	default:
		s += e.Err.Error()
	}
	return s
}

func (e *CommandError) Unwrap() error { return e.Err }

// NotAppliedError lists the nodes that an update did not reach because Slurm
// does not know them. All other nodes of the call were updated.
type NotAppliedError struct {
	Nodes []string // in Slurm's order
	Err   error    // what Slurm said
}

func (e *NotAppliedError) Error() string {
	return fmt.Sprintf("Slurm has no node %s: %v", shorten(hostlist.FoldSorted(e.Nodes), 200), e.Err)
}

func (e *NotAppliedError) Unwrap() error { return e.Err }

// Unreachable reports whether slurmctld could not be asked at all: nothing is
// known, nothing was changed or the answer was lost, and the same call may
// work later.
func Unreachable(err error) bool {
	e, ok := errors.AsType[*CommandError](err)
	if !ok {
		return false
	}
	return e.TimedOut || e.says(
		"unable to contact slurm controller",
		"slurm backup controller in standby mode",
		"connection refused",
		"connection timed out",
		"connection reset",
		"socket timed out",
		"no route to host",
		"zero bytes were transmitted or received",
		// scontrol hold, uhold and requeue of 22.05 say this, and only this,
		// when they cannot connect.
		"unexpected message received",
	)
}

// NotFound reports whether Slurm said that it has no node of a name it was
// given.
func NotFound(err error) bool {
	e, ok := errors.AsType[*CommandError](err)
	return ok && e.says("invalid node name specified")
}

// InvalidJob reports whether Slurm said that it has no such job, or no longer.
func InvalidJob(err error) bool {
	e, ok := errors.AsType[*CommandError](err)
	return ok && e.says("invalid job id specified")
}

// InvalidState reports whether Slurm refused a node state because of the state
// that a node is in, such as resume for one that is not down. Other nodes of
// the call have been set.
func InvalidState(err error) bool {
	e, ok := errors.AsType[*CommandError](err)
	// "Invalid node state specified" up to 25.x, "… transition" in 26.05.
	return ok && e.says("invalid node state")
}

// says looks for one of the lower-case phrases in what the command printed.
// Slurm's commands have one exit status for all errors, so that its message
// (slurm_errno.c, the same in 22.05 to 26.05 but where noted) is the only way to tell.
func (e *CommandError) says(phrases ...string) bool {
	said := strings.ToLower(e.Stderr)
	return slices.ContainsFunc(phrases, func(p string) bool { return strings.Contains(said, p) })
}

// shortArgs is a command line for people; arguments may be 96 KiB.
func shortArgs(args []string) string {
	short := make([]string, len(args))
	for i, a := range args {
		short[i] = shorten(strings.ReplaceAll(a, "\n", " "), 60)
	}
	return shorten(strings.Join(short, " "), 200)
}

// shorten cuts s to about n bytes, at a rune.
func shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return cut(s, n-len("…")) + "…"
}

// cut gives at most n bytes of s, without a torn rune at the end.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	s = s[:n]
	for range utf8.UTFMax - 1 {
		r, size := utf8.DecodeLastRuneInString(s)
		if r != utf8.RuneError || size != 1 {
			break
		}
		s = s[:len(s)-1]
	}
	return s
}
