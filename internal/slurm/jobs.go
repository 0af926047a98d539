package slurm

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Ended reports whether the job is over and will not come back by itself. A
// completing job has not ended: it may be requeued.
func (j Job) Ended() bool {
	switch j.State {
	case "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "REVOKED", "TIMEOUT":
		return true
	}
	return false
}

// Jobs implements Client with one squeue (for up to about 13,000 ids). Jobs
// that have ended are given as long as Slurm remembers them, which is
// MinJobAge. An array's own id gives the record of its tasks that have not
// been started yet; a task that has been is a job of its own with a raw id.
func (c *Commands) Jobs(ctx context.Context, ids ...int) ([]Job, error) {
	wanted := map[int]bool{}
	texts := make([]string, 0, len(ids))
	for _, id := range ids {
		if id <= 0 {
			return nil, fmt.Errorf("show jobs: %d is no job id", id)
		}
		if !wanted[id] {
			wanted[id] = true
			texts = append(texts, strconv.Itoa(id))
		}
	}
	var jobs []Job
	for _, some := range chunk(texts, maxArg) {
		// --array keeps a requeued array task apart: squeue would merge it into
		// the record of the array's pending tasks, if that is shown as well, and
		// its raw id would be lost. (--array-unique does that better, but is gone
		// since 23.02.)
		list, err := c.squeue(ctx, "--array", "-j", strings.Join(some, ","))
		if InvalidJob(err) {
			// Only with a single id; squeue leaves out others that it has not.
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("show jobs: %w", err)
		}
		// -j also gives the other tasks of an array and the other components of
		// a heterogeneous job.
		for _, j := range list {
			if wanted[j.ID] {
				jobs = append(jobs, j)
			}
		}
	}
	slices.SortFunc(jobs, func(a, b Job) int { return a.ID - b.ID })
	return jobs, nil
}

// ActiveJobs implements Client with one squeue, or three where arrays have
// pending tasks (see Jobs): showing every task of every array in full could be
// hundreds of megabytes.
func (c *Commands) ActiveJobs(ctx context.Context) ([]Job, error) {
	jobs, err := c.squeue(ctx)
	if err != nil {
		return nil, fmt.Errorf("show all jobs: %w", err)
	}
	if slices.ContainsFunc(jobs, func(j Job) bool { return j.pendingTasks }) {
		merged, err := c.merged(ctx, jobs)
		if err != nil {
			return nil, fmt.Errorf("show all jobs: %w", err)
		}
		jobs = append(jobs, merged...)
		slices.SortFunc(jobs, func(a, b Job) int { return a.ID - b.ID })
	}
	return slices.DeleteFunc(jobs, Job.Ended), nil
}

// merged gives the array tasks that squeue has merged into an array's record.
func (c *Commands) merged(ctx context.Context, jobs []Job) ([]Job, error) {
	known := make(map[string]bool, len(jobs))
	for _, j := range jobs {
		known[strconv.Itoa(j.ID)] = true
	}
	out, err := c.run(ctx, squeue, "-h", "-a", "--local", "-t", "all", "--array", "-O", "JobID:12")
	if err != nil {
		return nil, err
	}
	var ids []int
	for text := range strings.FieldsSeq(string(out)) {
		if !known[text] {
			known[text] = true
			id, err := strconv.Atoi(text)
			if err != nil {
				return nil, fmt.Errorf("read squeue's job ids: %w", err)
			}
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	return c.Jobs(ctx, ids...)
}

// squeue reads the table of jobs: those of this cluster, in all partitions and
// states.
func (c *Commands) squeue(ctx context.Context, args ...string) ([]Job, error) {
	out, err := c.run(ctx, squeue, append([]string{"-h", "-a", "--local", "-t", "all", "-O", tableFormat()}, args...)...)
	if err != nil {
		return nil, err
	}
	return parseJobs(out)
}
