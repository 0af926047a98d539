package ledger

import (
	"context"
	"fmt"
)

// AddFailures records what went wrong.
func (tx *Tx) AddFailures(failures []Failure) error {
	for _, f := range failures {
		if _, err := tx.exec(`INSERT INTO failures (at, launch, job_id, pool, provider, offering, class, code, message, nodes) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			nanos(f.At), f.Launch, f.JobID, f.Pool, f.Provider, f.Offering, string(f.Class), f.Code, f.Message, f.Nodes); err != nil {
			return tx.fail("record a failure of launch %s: %w", f.Launch, err)
		}
	}
	return nil
}

const selectFailures = `SELECT at, launch, job_id, pool, provider, offering, class, code, message, nodes FROM failures `

// FailuresOfJob gives at most limit failures of a job, newest first.
func (l *Ledger) FailuresOfJob(ctx context.Context, jobID int, limit int) ([]Failure, error) {
	return l.failures(ctx, fmt.Sprintf("failures of job %d", jobID), `WHERE job_id = ? ORDER BY at DESC, seq DESC LIMIT ?`, jobID, max(limit, 0))
}

// RecentFailures gives at most limit failures, newest first.
func (l *Ledger) RecentFailures(ctx context.Context, limit int) ([]Failure, error) {
	return l.failures(ctx, "recent failures", `ORDER BY at DESC, seq DESC LIMIT ?`, max(limit, 0))
}

func (l *Ledger) failures(ctx context.Context, what, which string, args ...any) (all []Failure, err error) {
	err = l.read(ctx, what, func(q querier) error {
		all, err = collect(ctx, q, func(f *Failure) []any {
			return []any{stamp{&f.At}, &f.Launch, &f.JobID, &f.Pool, &f.Provider, &f.Offering, &f.Class, &f.Code, &f.Message, &f.Nodes}
		}, selectFailures+which, args...)
		return err
	})
	return all, err
}
