package slurm

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Jobs are read as a table whose columns have a fixed width in bytes:
//
//	squeue -O JobID:12,State:20,…,Name:256,Comment:1024,…,NodeList:0
//
// squeue pads and cuts every value to its width (_print_str), so a row is cut
// by position and nothing that users put into a name or comment, be it a line
// break, a separator or a whole forged row, can be taken for another value.
// The option and its field names are the same from 22.05 to 26.05. The other
// ways are worse: `scontrol show job -o` and `squeue -o` print text as it is,
// and --json has another layout in every version and needs a plugin.
// The last column has no width; it holds only node names, and the line's end
// ends it.

// column is one column of the table.
type column struct {
	field string
	width int // bytes; 0: to the end of the line
	read  func(j *Job, cell string) error
}

// The widths of texts: longer ones are cut, at a rune.
const (
	nameWidth = 256
	textWidth = 1024
)

var columns = []column{
	{"JobID", 12, func(j *Job, s string) (err error) { j.ID, err = strconv.Atoi(s); return err }},
	{"State", 20, func(j *Job, s string) error { j.State = s; return nil }},
	{"RestartCnt", 12, func(j *Job, s string) (err error) { j.Restarts, err = strconv.Atoi(s); return err }},
	{"BatchFlag", 4, func(j *Job, s string) error { j.Batch = s == "1"; return nil }},
	{"NumNodes", 12, func(j *Job, s string) (err error) { j.NumNodes, err = strconv.Atoi(s); return err }},
	{"TimeLimit", 24, func(j *Job, s string) (err error) { j.TimeLimit, err = parseLimit(s); return err }},
	{"SubmitTime", 24, func(j *Job, s string) error { j.SubmitTime = parseTime(s); return nil }},
	{"EligibleTime", 24, func(j *Job, s string) error { j.EligibleTime = parseTime(s); return nil }},
	{"StartTime", 24, func(j *Job, s string) error { j.StartTime = parseTime(s); return nil }},
	{"Deadline", 24, func(j *Job, s string) error { j.Deadline = parseTime(s); return nil }},
	{"ArrayTaskID", 16, func(j *Job, s string) error {
		_, err := strconv.Atoi(s)
		j.pendingTasks = err != nil && s != "N/A"
		return nil
	}},
	{"UserName", 128, func(j *Job, s string) error { j.User = null(s); return nil }},
	{"Account", 128, func(j *Job, s string) error { j.Account = null(s); return nil }},
	{"QOS", 128, func(j *Job, s string) error { j.QOS = null(s); return nil }},
	{"Partition", 512, func(j *Job, s string) error { j.Partition = wholeNames(null(s), 512); return nil }},
	{"Feature", 256, func(j *Job, s string) error { j.Features = null(s); return nil }},
	{"Reason", 256, func(j *Job, s string) error {
		if j.Reason = null(s); s == "None" {
			j.Reason = ""
		}
		return nil
	}},
	{"Name", nameWidth, func(j *Job, s string) error { j.Name = null(s); return nil }},
	{"Comment", textWidth, func(j *Job, s string) error { j.Comment = null(s); return nil }},
	{"admin_comment", textWidth, func(j *Job, s string) error { j.AdminComment = null(s); return nil }},
	{"NodeList", 0, func(j *Job, s string) error { j.Nodes = null(s); return nil }},
}

// tableFormat is the argument of squeue -O.
func tableFormat() string {
	fields := make([]string, len(columns))
	for i, c := range columns {
		fields[i] = c.field + ":" + strconv.Itoa(c.width)
	}
	return strings.Join(fields, ",")
}

// parseJobs reads the table, by job id.
func parseJobs(out []byte) ([]Job, error) {
	var jobs []Job
	seen := map[int]bool{}
	for row := 1; len(out) > 0; row++ {
		j, rest, err := parseRow(out)
		if err != nil {
			return nil, fmt.Errorf("read squeue's table, row %d: %w; does this squeue take -O with widths?", row, err)
		}
		out = rest
		// --array prints one row for every task of a pending array, all with
		// the array's own id.
		if !seen[j.ID] {
			seen[j.ID] = true
			jobs = append(jobs, j)
		}
	}
	slices.SortFunc(jobs, func(a, b Job) int { return a.ID - b.ID })
	return jobs, nil
}

func parseRow(out []byte) (Job, []byte, error) {
	var j Job
	for _, c := range columns {
		width := c.width
		if width == 0 {
			if width = bytes.IndexByte(out, '\n'); width < 0 {
				return Job{}, nil, fmt.Errorf("column %s has no end", c.field)
			}
		}
		if len(out) < width {
			return Job{}, nil, fmt.Errorf("it ends in column %s", c.field)
		}
		if err := c.read(&j, cell(out[:width])); err != nil {
			return Job{}, nil, fmt.Errorf("column %s: %w", c.field, err)
		}
		out = out[width:]
	}
	if j.ID <= 0 {
		return Job{}, nil, fmt.Errorf("column JobID: %d is no job id", j.ID)
	}
	return j, out[1:], nil
}

// cell gives a column's text without its padding, and as valid UTF-8: squeue
// cuts at a byte.
func cell(raw []byte) string {
	s := strings.TrimRight(string(raw), " ")
	if len(s) == len(raw) {
		s = cut(s+"…", len(s)) // drops a rune torn by the cut
	}
	return strings.ToValidUTF8(s, string(utf8.RuneError))
}

// wholeNames drops the last, torn name of a comma list that fills its column.
func wholeNames(list string, width int) string {
	if len(list) < width {
		return list
	}
	if i := strings.LastIndexByte(list, ','); i >= 0 {
		return list[:i]
	}
	return list
}
