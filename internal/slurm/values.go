package slurm

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// null reads a text that Slurm prints as (null) where there is none.
func null(text string) string {
	if text == "(null)" {
		return ""
	}
	return text
}

// parseTime reads a time as slurm_make_time_str writes it with
// SLURM_TIME_FORMAT=%s, or with the standard format in local time. What Slurm
// prints for no time (Unknown, None, N/A) is the zero time, and so is anything
// else.
func parseTime(text string) time.Time {
	if s, err := strconv.ParseInt(text, 10, 64); err == nil && s > 0 {
		return time.Unix(s, 0)
	}
	if t, err := time.ParseInLocation("2006-01-02T15:04:05", text, time.Local); err == nil {
		return t
	}
	return time.Time{}
}

// parseLimit reads a time limit: [days-]hours:minutes:seconds or
// minutes:seconds; 0 for UNLIMITED, NOT_SET and Partition_Limit.
func parseLimit(text string) (time.Duration, error) {
	switch text {
	case "", "UNLIMITED", "NOT_SET", "Partition_Limit", "INVALID", "N/A":
		return 0, nil
	}
	wrong := fmt.Errorf("time limit %q is not like 1-02:03:04 or 5:00", text)
	rest := text
	var seconds int64
	if days, clock, ok := strings.Cut(text, "-"); ok {
		d, err := strconv.ParseUint(days, 10, 24)
		if err != nil {
			return 0, wrong
		}
		seconds, rest = int64(d)*24*3600, clock
	}
	fields := strings.Split(rest, ":")
	if len(fields) < 2 || len(fields) > 3 {
		return 0, wrong
	}
	var clock int64
	for _, f := range fields {
		n, err := strconv.ParseUint(f, 10, 24)
		if err != nil {
			return 0, wrong
		}
		clock = clock*60 + int64(n)
	}
	return time.Duration(seconds+clock) * time.Second, nil
}
