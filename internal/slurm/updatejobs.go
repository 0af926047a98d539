package slurm

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// maxJobText bounds a job's comments in bytes: what Jobs reads back whole.
const maxJobText = textWidth - 1

// UpdateJob implements Client. A start time that is not in the future is now;
// another is never made earlier, but up to the next whole second later. An
// empty comment is removed. Nothing to change is no call.
func (c *Commands) UpdateJob(ctx context.Context, id int, u JobUpdate) error {
	args := []string{"update", "jobid=" + strconv.Itoa(id)}
	if u.StartTime != nil {
		args = append(args, "StartTime="+startTime(*u.StartTime, c.now()))
	}
	if u.Comment != nil {
		args = append(args, "Comment="+oneLine(*u.Comment, maxJobText))
	}
	if u.AdminComment != nil {
		args = append(args, "AdminComment="+oneLine(*u.AdminComment, maxJobText))
	}
	if len(args) == 2 {
		return nil
	}
	return c.onJob(ctx, "update", id, args...)
}

// HoldJob implements Client.
func (c *Commands) HoldJob(ctx context.Context, id int) error {
	return c.onJob(ctx, "hold", id, "uhold", strconv.Itoa(id))
}

// RequeueJob implements Client. Slurm refuses for jobs that are not running,
// have no batch script or do not want it, and the error says which.
func (c *Commands) RequeueJob(ctx context.Context, id int) error {
	return c.onJob(ctx, "requeue", id, "requeue", strconv.Itoa(id))
}

func (c *Commands) onJob(ctx context.Context, verb string, id int, args ...string) error {
	if id <= 0 {
		return fmt.Errorf("%s job %d: it is no job id", verb, id)
	}
	if _, err := c.run(ctx, scontrol, args...); err != nil {
		return fmt.Errorf("%s job %d: %w", verb, id, err)
	}
	return nil
}

// startTime writes a time for scontrol as seconds since 1970: uts1796106361
// (parse_time in 22.05 to 26.05). The documented YYYY-MM-DDTHH:MM:SS is local
// time, which names two moments in the hour that autumn repeats.
func startTime(t, now time.Time) string {
	if !t.After(now) {
		return "now"
	}
	seconds := t.Unix()
	if t.Nanosecond() > 0 {
		seconds++
	}
	return "uts" + strconv.FormatInt(seconds, 10)
}
