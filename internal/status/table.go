package status

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
)

// Sections of a status, in the order they are shown.
var Sections = []string{"pools", "nodes", "launches", "jobs", "passed-over"}

// column is one column of a section's table.
type column[T any] struct {
	name string
	text func(T, time.Time) string
}

var (
	poolColumns = []column[Pool]{
		{"POOL", func(p Pool, _ time.Time) string { return p.Name }},
		{"PROVIDER", func(p Pool, _ time.Time) string { return p.Provider }},
		{"NODES", func(p Pool, _ time.Time) string { return fmt.Sprint(p.Total) }},
		{"UP", func(p Pool, _ time.Time) string { return fmt.Sprint(p.Up) }},
		{"BOOTING", func(p Pool, _ time.Time) string { return fmt.Sprint(p.Booting) }},
		{"DOWN", func(p Pool, _ time.Time) string { return fmt.Sprint(p.Down) }},
		{"OFF", func(p Pool, _ time.Time) string { return fmt.Sprint(p.Off) }},
		{"USD/H", func(p Pool, _ time.Time) string { return fmt.Sprintf("%.2f", p.USDPerHour) }},
		{"NODELIST", func(p Pool, _ time.Time) string { return p.Nodes }},
	}
	nodeColumns = []column[Node]{
		{"NODE", func(n Node, _ time.Time) string { return n.Name }},
		{"POOL", func(n Node, _ time.Time) string { return n.Pool }},
		{"STATE", func(n Node, _ time.Time) string { return n.State }},
		{"INSTANCE", func(n Node, _ time.Time) string { return n.Instance }},
		{"OFFERING", func(n Node, _ time.Time) string { return n.Offering }},
		{"ADDRESS", func(n Node, _ time.Time) string { return n.Address }},
		{"AGE", func(n Node, now time.Time) string { return age(n.Since, now) }},
		{"REASON", func(n Node, _ time.Time) string { return n.Reason }},
	}
	launchColumns = []column[Launch]{
		{"LAUNCH", func(l Launch, _ time.Time) string { return l.ID }},
		{"JOBID", func(l Launch, _ time.Time) string { return jobID(l.JobID) }},
		{"TIER", func(l Launch, _ time.Time) string { return l.Tier }},
		{"STATE", func(l Launch, _ time.Time) string { return l.State }},
		{"BOUGHT", func(l Launch, _ time.Time) string { return fmt.Sprintf("%d/%d", l.Bought, l.Total) }},
		{"AGE", func(l Launch, now time.Time) string { return age(l.Since, now) }},
		{"NODELIST", func(l Launch, _ time.Time) string { return l.Nodes }},
		{"WHY", func(l Launch, _ time.Time) string { return l.Why }},
	}
	jobColumns = []column[Job]{
		{"JOBID", func(j Job, _ time.Time) string { return jobID(j.ID) }},
		{"USER", func(j Job, _ time.Time) string { return j.User }},
		{"QOS", func(j Job, _ time.Time) string { return j.QOS }},
		{"TIER", func(j Job, _ time.Time) string { return j.Tier }},
		{"STATE", func(j Job, _ time.Time) string { return j.State }},
		{"STARTS", func(j Job, now time.Time) string { return starts(j.StartAt, now) }},
		{"NODELIST", func(j Job, _ time.Time) string { return j.Nodes }},
		{"WHY", func(j Job, _ time.Time) string { return j.Why }},
	}
	passedColumns = []column[PassedOver]{
		{"OFFERING", func(p PassedOver, _ time.Time) string { return p.Offering }},
		{"PROVIDER", func(p PassedOver, _ time.Time) string { return p.Provider }},
		{"CLASS", func(p PassedOver, _ time.Time) string { return p.Class }},
		{"FAILURES", func(p PassedOver, _ time.Time) string { return fmt.Sprint(p.Failures) }},
		{"AGAIN IN", func(p PassedOver, now time.Time) string { return Duration(p.Until.Sub(now)) }},
	}
)

// Format says what Table shows.
type Format struct {
	Sections []string // empty: all
	Columns  []string // of one section only; empty: all
	NoHeader bool
}

// columnNames gives the columns of each section as people name them.
func columnNames() map[string][]string {
	return map[string][]string{
		"pools": namesOf(poolColumns), "nodes": namesOf(nodeColumns), "launches": namesOf(launchColumns),
		"jobs": namesOf(jobColumns), "passed-over": namesOf(passedColumns),
	}
}

func namesOf[T any](all []column[T]) []string {
	names := make([]string, len(all))
	for i, c := range all {
		names[i] = strings.ToLower(c.name)
	}
	return names
}

// Check says what is wrong with a format before anything is asked or printed.
func (f Format) Check() error {
	columns := columnNames()
	for _, s := range f.Sections {
		if columns[s] == nil {
			return fmt.Errorf("no section %q: there are %s", s, strings.Join(Sections, ", "))
		}
	}
	if len(f.Columns) > 0 && len(f.Sections) != 1 {
		return fmt.Errorf("columns are chosen for one section: name one of %s", strings.Join(Sections, ", "))
	}
	for _, name := range f.Columns {
		if there := columns[f.Sections[0]]; !slices.Contains(there, strings.ToLower(name)) {
			return fmt.Errorf("no column %q: %s has %s", name, f.Sections[0], strings.Join(there, ", "))
		}
	}
	return nil
}

// Table writes the view for people.
func (v View) Table(w io.Writer, f Format, now time.Time) error {
	if err := f.Check(); err != nil {
		return err
	}
	if len(f.Sections) == 0 {
		f.Sections = Sections
	}
	var out bytes.Buffer
	if len(f.Sections) > 1 {
		state := "not running on this host"
		if v.Controller.Running {
			state = fmt.Sprintf("running, process %d", v.Controller.PID)
		}
		fmt.Fprintf(&out, "cluster %s, controller %s\n", v.Cluster, state)
	}
	for _, s := range f.Sections {
		switch s {
		case "pools":
			section(&out, f, now, poolColumns, v.Pools)
		case "nodes":
			section(&out, f, now, nodeColumns, v.Nodes)
		case "launches":
			section(&out, f, now, launchColumns, v.Launches)
		case "jobs":
			section(&out, f, now, jobColumns, v.Jobs)
		case "passed-over":
			section(&out, f, now, passedColumns, v.PassedOver)
		}
	}
	if _, err := out.WriteTo(w); err != nil {
		return fmt.Errorf("write status: %w", err)
	}
	return nil
}

func section[T any](w *bytes.Buffer, f Format, now time.Time, all []column[T], rows []T) {
	cols := all
	if len(f.Columns) > 0 {
		cols = nil
		for _, name := range f.Columns {
			k := slices.IndexFunc(all, func(c column[T]) bool { return strings.EqualFold(c.name, name) })
			cols = append(cols, all[k])
		}
	}
	if len(rows) == 0 && (len(f.Sections) > 1 || f.NoHeader) {
		return
	}
	t := table.NewWriter()
	t.SetStyle(table.StyleDefault)
	t.Style().Options = table.OptionsNoBordersAndSeparators
	t.Style().Box.PaddingLeft, t.Style().Box.PaddingRight = "", "  "
	if !f.NoHeader {
		head := table.Row{}
		for _, c := range cols {
			head = append(head, c.name)
		}
		t.AppendHeader(head)
	}
	for _, r := range rows {
		row := table.Row{}
		for _, c := range cols {
			row = append(row, c.text(r, now))
		}
		t.AppendRow(row)
	}
	if len(f.Sections) > 1 {
		fmt.Fprintln(w)
	}
	for _, line := range strings.Split(t.Render(), "\n") {
		fmt.Fprintln(w, strings.TrimRight(line, " "))
	}
}

// Text writes the explanation for people, with times in now's zone.
func (w Why) Text(out io.Writer, now time.Time) {
	if w.Job != nil {
		fmt.Fprintf(out, "job %d (user %s, qos %s", w.JobID, w.Job.User, w.Job.QOS)
		if w.Job.Tier != "" {
			fmt.Fprintf(out, ", tier %s", w.Job.Tier)
		}
		fmt.Fprintf(out, ") is %s\n", w.Job.State)
	} else {
		fmt.Fprintf(out, "job %d\n", w.JobID)
	}
	fmt.Fprintln(out, w.Answer)
	if w.Job != nil && w.Job.State == "PENDING" && w.Job.StartAt.After(now) {
		fmt.Fprintf(out, "next try in %s\n", Duration(w.Job.StartAt.Sub(now)))
	}
	if len(w.Launches) > 0 {
		fmt.Fprintln(out, "\nlaunches, newest first:")
	}
	for _, l := range w.Launches {
		fmt.Fprintf(out, "  %s  %-9s %s", l.At.In(now.Location()).Format(time.DateTime), l.State, l.Nodes)
		if l.State == "ready" {
			fmt.Fprintf(out, "  after %.1f s", l.ReadyAfter)
		}
		if l.Why != "" {
			fmt.Fprintf(out, "  %s", l.Why)
		}
		fmt.Fprintln(out)
	}
	if len(w.Failures) > 0 {
		fmt.Fprintln(out, "\nwhat went wrong, newest first:")
	}
	for _, f := range w.Failures {
		fmt.Fprintf(out, "  %s  %s", f.At.In(now.Location()).Format(time.DateTime), f.Class)
		if f.Offering != "" {
			fmt.Fprintf(out, "  %s", f.Offering)
		}
		fmt.Fprintf(out, "  %s", f.Message)
		if f.Code != "" {
			fmt.Fprintf(out, " (%s)", f.Code)
		}
		fmt.Fprintln(out)
	}
}

func jobID(id int) string {
	if id == 0 {
		return ""
	}
	return fmt.Sprint(id)
}

func age(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	return Duration(now.Sub(t))
}

func starts(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	if !t.After(now) {
		return "now"
	}
	return "in " + Duration(t.Sub(now))
}

// Duration writes a time span as Slurm does: [D-]HH:MM:SS, and M:SS below an
// hour.
func Duration(d time.Duration) string {
	s := int64(d.Round(time.Second) / time.Second)
	if s < 0 {
		s = 0
	}
	days, h, m, s := s/86400, s/3600%24, s/60%60, s%60
	switch {
	case days > 0:
		return fmt.Sprintf("%d-%02d:%02d:%02d", days, h, m, s)
	case h > 0:
		return fmt.Sprintf("%d:%02d:%02d", h, m, s)
	}
	return fmt.Sprintf("%d:%02d", m, s)
}
