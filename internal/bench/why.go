package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/midair-hpc/midair/internal/status"
)

// firstFailure reads from `midair why --json` when the job's first launch
// failed.
func firstFailure(text string) (time.Time, error) {
	var w status.Why
	if err := json.Unmarshal([]byte(text), &w); err != nil {
		return time.Time{}, fmt.Errorf("read midair why: %w", err)
	}
	if len(w.Failures) == 0 {
		return time.Time{}, errors.New("read midair why: no failure is on record")
	}
	return w.Failures[len(w.Failures)-1].At, nil
}
