package cloud

import (
	"errors"
	"fmt"
)

// Class says what kind of failure it was, which decides what midair does next.
type Class string

// The failure classes. Every failure has one; what cannot be told is Unknown,
// whose action is safe: try elsewhere, slowly, and a bounded number of times.
const (
	OutOfStock   Class = "out-of-stock"  // the offering has no capacity now: next offering, remember it
	Quota        Class = "quota"         // the account's limit: other families stay usable, an admin must act
	SpecMismatch Class = "spec-mismatch" // the instance type is not what the pool promised Slurm: never retried as it is
	InitFailed   Class = "init-failed"   // it exists but did not become a node: replace, keep the console
	Throttled    Class = "throttled"     // too many calls: the same request again, later
	Unauthorized Class = "unauthorized"  // credentials or permissions: no retry, an admin must act
	Budget       Class = "budget"        // the money is spent: wait for the next period or an admin
	Config       Class = "config"        // midair.yaml and the world disagree: no retry, an admin must act
	Unknown      Class = "unknown"       // anything else
)

// Classes lists every class, in the order documentation shows them.
var Classes = []Class{OutOfStock, Quota, SpecMismatch, InitFailed, Throttled, Unauthorized, Budget, Config, Unknown}

// Retryable reports whether trying the job again later, with nothing changed by
// a person, can help.
func (c Class) Retryable() bool {
	switch c {
	case SpecMismatch, Unauthorized, Config:
		return false
	case OutOfStock, Quota, InitFailed, Throttled, Budget, Unknown:
		return true
	}
	return true
}

// Remembered reports whether the failure says something about the offering
// itself, so that it is worth passing over for a while.
func (c Class) Remembered() bool {
	switch c {
	case OutOfStock, Quota, SpecMismatch:
		return true
	case InitFailed, Throttled, Unauthorized, Budget, Config, Unknown:
		return false
	}
	return false
}

// Error is a failure with its class. Its text is a short sentence for people:
// the same one goes to the node's Reason, the job's comment, the log and
// `midair why`.
type Error struct {
	Class Class
	// Code is the provider's own code, such as InsufficientInstanceCapacity;
	// may be empty.
	Code string
	// Message is one short sentence without a final stop.
	Message string
	// Ambiguous: the call may have taken effect although it failed.
	Ambiguous bool
	Err       error
}

func (e *Error) Error() string {
	s := fmt.Sprintf("%s: %s", e.Class, e.Message)
	if e.Code != "" {
		s += " (" + e.Code + ")"
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }

// AsError gives err's *Error, or wraps it as Unknown and ambiguous, which is
// the safe reading of an error nobody classified.
func AsError(err error) *Error {
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{Class: Unknown, Message: err.Error(), Ambiguous: true, Err: err}
}
