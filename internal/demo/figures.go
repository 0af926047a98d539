package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/midair-hpc/midair/internal/hostlist"
	"github.com/midair-hpc/midair/internal/status"
)

// history is what midair knows of a job.
type history struct{ status.Why }

func (s *story) why(ctx context.Context, j *job) (history, error) {
	var h history
	out, err := s.c.Run(ctx, "midair", "why", "--json", strconv.Itoa(j.id))
	if err != nil {
		return h, err
	}
	if err := json.Unmarshal([]byte(out), &h.Why); err != nil {
		return h, fmt.Errorf("read midair why: %w", err)
	}
	return h, nil
}

// bought says which offerings the newest launch got.
func (h history) bought() string {
	if len(h.Launches) == 0 {
		return "nothing"
	}
	n := map[string]int{}
	var order []string
	for _, i := range h.Launches[0].Instances {
		if n[i.Offering] == 0 {
			order = append(order, i.Offering)
		}
		n[i.Offering]++
	}
	var parts []string
	for _, o := range order {
		parts = append(parts, fmt.Sprintf("%d × %s", n[o], o))
	}
	return strings.Join(parts, ", ")
}

// measure splits a job's way from sbatch to its first line:
//
//	submit → request (Slurm) → created (midair) → slurmd up (boot) → seen (midair) → start (Slurm)
func (s *story) measure(ctx context.Context, j *job) (JobFigures, error) {
	f := JobFigures{JobID: j.id, Name: j.name, Tier: j.tier}
	start, err := s.startOf(j)
	if err != nil {
		return f, err
	}
	f.SubmitToStart = start.Sub(j.submitted).Seconds()
	h, err := s.why(ctx, j)
	if err != nil && !strings.Contains(err.Error(), status.ErrNothing.Error()) {
		return f, err
	}
	if len(h.Launches) == 0 {
		f.Nodes = "on-premises"
		f.Overhead, f.SlurmShare = f.SubmitToStart, f.SubmitToStart
		return f, nil
	}
	l := h.Launches[0]
	f.Nodes = l.Nodes
	var created, up, seen time.Time
	for _, i := range l.Instances {
		if i.ReadyAt.IsZero() {
			return f, fmt.Errorf("job %d: %w", j.id, errNoFigures)
		}
		t, err := s.slurmdUp(i.Node)
		if err != nil {
			return f, err
		}
		created, up, seen = later(created, i.CreatedAt), later(up, t), later(seen, i.ReadyAt)
	}
	f.Boot = up.Sub(created).Seconds()
	f.OurShare = created.Sub(l.RequestedAt).Seconds() + seen.Sub(up).Seconds()
	f.Overhead = f.SubmitToStart - f.Boot
	f.SlurmShare = f.Overhead - f.OurShare
	return f, nil
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// startOf reads the time that the job's script wrote first.
func (s *story) startOf(j *job) (time.Time, error) {
	text, err := os.ReadFile(s.c.Path("/mnt/home/" + j.user + "/start." + j.name))
	if err != nil {
		return time.Time{}, fmt.Errorf("read when job %d started: %w", j.id, err)
	}
	sec, err := strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("read when job %d started: %w", j.id, err)
	}
	return time.UnixMicro(int64(sec * 1e6)), nil
}

// slurmdUp reads from a node's slurmd log when it was last started; it
// registers right after that line.
func (s *story) slurmdUp(node string) (time.Time, error) {
	text, err := os.ReadFile(s.c.Path("/var/log/slurm/slurmd-" + node + ".log"))
	if err != nil {
		return time.Time{}, fmt.Errorf("read when %s was up: %w", node, err)
	}
	var up time.Time
	for _, line := range strings.Split(string(text), "\n") {
		if stamp, rest, ok := strings.Cut(strings.TrimPrefix(line, "["), "] "); ok && strings.HasPrefix(rest, "slurmd started on") {
			if up, err = time.ParseInLocation("2006-01-02T15:04:05.000", stamp, time.Local); err != nil {
				return up, fmt.Errorf("read when %s was up: %w", node, err)
			}
		}
	}
	if up.IsZero() {
		return up, fmt.Errorf("read when %s was up: its log does not say", node)
	}
	return up, nil
}

func (f Figures) table(w io.Writer) {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.AppendHeader(table.Row{"job", "tier", "nodes", "submit → start", "boot", "Slurm's share", "midair's share"})
	s := func(x float64) string { return fmt.Sprintf("%.2f s", x) }
	for _, j := range f.Jobs {
		n := j.Nodes
		if names, err := hostlist.Expand(j.Nodes); err == nil && len(names) > 1 {
			n = fmt.Sprintf("%s (%d)", j.Nodes, len(names))
		}
		t.AppendRow(table.Row{fmt.Sprintf("%d %s", j.JobID, j.Name), j.Tier, n, s(j.SubmitToStart), s(j.Boot), s(j.SlurmShare), s(j.OurShare)})
	}
	fmt.Fprintln(w)
	fmt.Fprintln(w, t.Render())
	fmt.Fprintf(w, "all of it happened, in %.0f s\n", f.WallSeconds)
}
