package cloudtest

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

// recorder stands in for a test that is expected to fail.
type recorder struct {
	testing.TB
	mu       sync.Mutex
	failed   bool
	skipped  bool
	messages []string
	cleanups []func()
}

// record runs a check and tells how it went.
func record(tb testing.TB, c check, h Harness) *recorder {
	r := &recorder{TB: tb}
	r.do(func() { c.perform(r, h) })
	for _, f := range slices.Backward(r.cleanups) {
		r.do(f)
	}
	return r
}

// do runs f in a goroutine of its own, which FailNow ends.
func (r *recorder) do(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if v := recover(); v != nil {
				r.Errorf("panic: %v", v)
			}
		}()
		f()
	}()
	<-done
}

func (r *recorder) note(s string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.messages = append(r.messages, s)
}

func (r *recorder) text() string { return strings.Join(r.messages, "\n") }

func (r *recorder) Helper()                        {}
func (r *recorder) Cleanup(f func())               { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Log(args ...any)                { r.note(fmt.Sprintln(args...)) }
func (r *recorder) Logf(format string, a ...any)   { r.note(fmt.Sprintf(format, a...)) }
func (r *recorder) Error(args ...any)              { r.Log(args...); r.Fail() }
func (r *recorder) Errorf(format string, a ...any) { r.Logf(format, a...); r.Fail() }
func (r *recorder) Fatal(args ...any)              { r.Log(args...); r.FailNow() }
func (r *recorder) Fatalf(format string, a ...any) { r.Logf(format, a...); r.FailNow() }
func (r *recorder) Skip(args ...any)               { r.Log(args...); r.SkipNow() }
func (r *recorder) Skipf(format string, a ...any)  { r.Logf(format, a...); r.SkipNow() }

func (r *recorder) Fail() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = true
}

func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

func (r *recorder) Skipped() bool { return r.skipped }

func (r *recorder) FailNow() {
	r.Fail()
	runtime.Goexit()
}

func (r *recorder) SkipNow() {
	r.skipped = true
	runtime.Goexit()
}
