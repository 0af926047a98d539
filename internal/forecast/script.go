package forecast

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/midair-hpc/midair/internal/hostlist"
)

// Options are a job's options as sbatch takes them, by their long names without
// the dashes.
type Options map[string]string

// short gives the long names of the options that matter here.
var short = map[string]string{"N": "nodes", "q": "qos", "p": "partition", "t": "time", "w": "nodelist", "G": "gpus"}

// ReadScript reads the #SBATCH lines of a job script. As sbatch does, it stops
// at the first line that is neither a comment nor empty; options that do not
// matter for a plan are left out.
func ReadScript(r io.Reader) (Options, error) {
	o := Options{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line != "" && !strings.HasPrefix(line, "#") {
			break
		}
		rest, ok := strings.CutPrefix(line, "#SBATCH")
		if !ok || rest == "" || rest[0] != ' ' && rest[0] != '\t' {
			continue
		}
		if err := o.add(strings.Fields(rest)); err != nil {
			return nil, fmt.Errorf("read #SBATCH in line %d: %w", n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read job script: %w", err)
	}
	return o, nil
}

// add takes the options of one line.
func (o Options) add(words []string) error {
	for i := 0; i < len(words); i++ {
		word := words[i]
		if strings.HasPrefix(word, "#") {
			return nil // a comment
		}
		name, value, given := "", "", false
		switch {
		case strings.HasPrefix(word, "--"):
			name, value, given = strings.Cut(word[2:], "=")
		case strings.HasPrefix(word, "-") && len(word) > 1:
			name = short[word[1:2]]
			value, given = strings.TrimPrefix(word[2:], "="), len(word) > 2
		default:
			continue
		}
		if !matters[name] {
			continue
		}
		if !given {
			if i++; i == len(words) {
				return fmt.Errorf("option %s has no value", word)
			}
			value = words[i]
		}
		o[name] = strings.Trim(value, `"'`)
	}
	return nil
}

// matters: the options that a plan depends on.
var matters = map[string]bool{"nodes": true, "qos": true, "partition": true, "time": true, "nodelist": true, "deadline": true,
	"gres": true, "gpus-per-node": true, "gpus": true}

// Job turns options into what is asked about.
func (o Options) Job(now time.Time) (j Job, err error) {
	j = Job{Nodes: 1, QOS: o["qos"], Partition: o["partition"]}
	if v := o["nodes"]; v != "" {
		low, _, _ := strings.Cut(v, "-")
		if n, e := strconv.Atoi(low); e == nil && n > 0 {
			j.Nodes = n
		} else if j.Names, err = hostlist.Expand(v); err != nil || len(j.Names) == 0 || strings.Trim(v, "0123456789-") == "" {
			return j, fmt.Errorf("nodes %q: want a number such as 4, or a hostlist such as gpu-[1-4]", v)
		}
	}
	if v := o["nodelist"]; v != "" {
		if j.Names, err = hostlist.Expand(v); err != nil {
			return j, fmt.Errorf("nodelist: %w", err)
		}
	}
	j.Nodes = max(j.Nodes, len(j.Names))
	if v := o["time"]; v != "" {
		if j.TimeLimit, err = parseLimit(v); err != nil {
			return j, err
		}
	}
	if v := o["deadline"]; v != "" {
		if j.Deadline, err = parseDeadline(v, now); err != nil {
			return j, err
		}
	}
	if strings.Contains(j.Partition, ",") {
		j.Partition = "" // all of the tier's are shown
	}
	j.GPUs, err = o.gpus(j.Nodes)
	return j, err
}

// gpus gives how many GPUs each node must have.
func (o Options) gpus(nodes int) (int, error) {
	if v := o["gpus"]; v != "" {
		n, err := count(v)
		return (n + nodes - 1) / nodes, err
	}
	if v := o["gpus-per-node"]; v != "" {
		return count(v)
	}
	for _, g := range strings.Split(o["gres"], ",") {
		if rest, ok := strings.CutPrefix(g, "gpu"); ok {
			if rest == "" {
				return 1, nil
			}
			return count(strings.TrimLeft(rest, ":="))
		}
	}
	return 0, nil
}

// count reads 8 and a100:8.
func count(v string) (int, error) {
	n, err := strconv.Atoi(v[strings.LastIndexAny(v, ":=")+1:])
	if err != nil {
		if !strings.ContainsAny(v, ":=") {
			return 1, nil // a type alone
		}
		return 0, fmt.Errorf("GPUs %q: want a number such as 8, or a100:8", v)
	}
	return n, nil
}

// parseLimit reads sbatch's --time: minutes, minutes:seconds,
// hours:minutes:seconds, days-hours, days-hours:minutes and
// days-hours:minutes:seconds.
func parseLimit(v string) (time.Duration, error) {
	bad := fmt.Errorf("time limit %q: want one such as 30, 2:00:00 or 1-12:00:00", v)
	days, rest, long := strings.Cut(v, "-")
	var d time.Duration
	if long {
		n, err := strconv.Atoi(days)
		if err != nil || n < 0 {
			return 0, bad
		}
		d = time.Duration(n) * 24 * time.Hour
	} else {
		rest = v
	}
	parts := strings.Split(rest, ":")
	units := []time.Duration{time.Hour, time.Minute, time.Second}
	switch {
	case len(parts) > 3:
		return 0, bad
	case !long && len(parts) < 3:
		units = units[1:]
	}
	for i, p := range parts {
		n, err := strconv.Atoi(p)
		if err != nil || n < 0 {
			return 0, bad
		}
		d += time.Duration(n) * units[i]
	}
	return d, nil
}

// parseDeadline reads the forms of sbatch's --deadline that people use.
func parseDeadline(v string, now time.Time) (time.Time, error) {
	if rest, ok := strings.CutPrefix(v, "now+"); ok {
		unit := time.Second
		for _, u := range []struct {
			name string
			d    time.Duration
		}{{"seconds", time.Second}, {"minutes", time.Minute}, {"hours", time.Hour}, {"days", 24 * time.Hour}, {"weeks", 7 * 24 * time.Hour}} {
			for _, name := range []string{u.name, strings.TrimSuffix(u.name, "s")} {
				if n, found := strings.CutSuffix(rest, name); found && unit == time.Second {
					rest, unit = n, u.d
				}
			}
		}
		if n, err := strconv.Atoi(rest); err == nil && n >= 0 {
			return now.Add(time.Duration(n) * unit), nil
		}
	}
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02"} {
		if t, err := time.ParseInLocation(layout, v, now.Location()); err == nil {
			return t, nil
		}
	}
	for _, layout := range []string{"15:04:05", "15:04"} {
		if t, err := time.ParseInLocation(layout, v, now.Location()); err == nil {
			at := time.Date(now.Year(), now.Month(), now.Day(), t.Hour(), t.Minute(), t.Second(), 0, now.Location())
			if !at.After(now) {
				at = at.AddDate(0, 0, 1)
			}
			return at, nil
		}
	}
	return time.Time{}, fmt.Errorf("deadline %q: want a time such as 18:00, 2026-12-01T18:00 or now+6hours", v)
}
