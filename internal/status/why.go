package status

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/midair-hpc/midair/internal/config"
	"github.com/midair-hpc/midair/internal/hostlist"
	"github.com/midair-hpc/midair/internal/slurm"
)

// ErrNothing means that neither Slurm nor midair knows the job.
var ErrNothing = errors.New("neither Slurm nor midair's ledger knows this job")

// Why is everything midair knows about one job.
type Why struct {
	JobID int  `json:"job_id"`
	Job   *Job `json:"job,omitempty"` // nil when Slurm has forgotten it
	// Answer is one sentence.
	Answer   string       `json:"answer"`
	Rounds   int          `json:"rounds"` // failed launches so far
	MaxRound int          `json:"max_rounds"`
	Launches []PastLaunch `json:"launches"` // newest first
	Failures []Failure    `json:"failures"` // newest first
}

// PastLaunch is a launch of the job, open or over.
type PastLaunch struct {
	ID    string    `json:"id"`
	At    time.Time `json:"at"`
	Nodes string    `json:"nodes"`
	State string    `json:"state"`
	Class string    `json:"class,omitempty"`
	Why   string    `json:"why,omitempty"`
	// ReadyAfter is from the launch to the registration of its last node, in
	// seconds.
	ReadyAfter float64 `json:"ready_after_s,omitempty"`
	// RequestedAt is when Slurm's hook wrote the request.
	RequestedAt time.Time  `json:"requested_at,omitzero"`
	Instances   []Instance `json:"instances,omitempty"`
}

// Instance is what one node of a past launch was carried by.
type Instance struct {
	Node      string    `json:"node"`
	ID        string    `json:"id"`
	Offering  string    `json:"offering"`
	CreatedAt time.Time `json:"created_at"`
	ReadyAt   time.Time `json:"ready_at,omitzero"`
	EndedAt   time.Time `json:"ended_at,omitzero"`
	EndCause  string    `json:"end_cause,omitempty"`
	Console   string    `json:"console,omitempty"` // kept when the node did not register
}

// Failure is one thing that went wrong for the job.
type Failure struct {
	At       time.Time `json:"at"`
	Offering string    `json:"offering,omitempty"`
	Class    string    `json:"class"`
	Code     string    `json:"code,omitempty"`
	Message  string    `json:"message"`
	Nodes    string    `json:"nodes,omitempty"`
}

// Sentence is what midair left on a job, without its prefix; empty if nothing.
func Sentence(j slurm.Job) string {
	for _, text := range []string{j.Comment, j.AdminComment} {
		if rest, ok := strings.CutPrefix(text, "midair: "); ok && !strings.HasPrefix(rest, "tier=") {
			return rest
		}
	}
	return ""
}

// Explain says why a job does not run, or how it got its nodes.
func Explain(ctx context.Context, cfg *config.Config, led Ledger, sl Slurm, jobID int) (Why, error) {
	w := Why{JobID: jobID, MaxRound: cfg.Retry.Rounds, Launches: []PastLaunch{}, Failures: []Failure{}}
	jobs, err := sl.Jobs(ctx, jobID)
	if err != nil {
		return w, fmt.Errorf("ask Slurm for job %d: %w", jobID, err)
	}
	if led != nil {
		if err := w.history(ctx, led); err != nil {
			return w, err
		}
	}
	if len(jobs) == 0 && len(w.Launches) == 0 {
		return w, fmt.Errorf("job %d: %w", jobID, ErrNothing)
	}
	if len(jobs) == 0 {
		w.Answer = "Slurm has forgotten the job; this is what midair did for it"
		return w, nil
	}
	j := jobs[0]
	w.Job = &Job{ID: j.ID, User: j.User, QOS: j.QOS, State: j.State, Nodes: j.Nodes, Why: Sentence(j)}
	if t, ok := cfg.TierOf(j.QOS); ok {
		w.Job.Tier = t.Name
	}
	if j.State == "PENDING" {
		w.Job.StartAt = j.EligibleTime
	}
	w.Answer = answer(j, w)
	return w, nil
}

func (w *Why) history(ctx context.Context, led Ledger) error {
	launches, err := led.LaunchesOfJob(ctx, w.JobID)
	if err != nil {
		return fmt.Errorf("read launches of job %d from the ledger: %w", w.JobID, err)
	}
	counting := true
	for _, l := range launches {
		var names []string
		for _, n := range l.Nodes {
			names = append(names, n.Node)
		}
		p := PastLaunch{ID: l.ID, At: l.CreatedAt, RequestedAt: l.RequestedAt, Nodes: hostlist.FoldSorted(names), State: string(l.State), Class: string(l.Class), Why: l.Message}
		switch p.State {
		case "ready":
			p.ReadyAfter = l.EndedAt.Sub(l.CreatedAt).Seconds()
			counting = false
		case "failed", "failing":
			if p.State == "failed" && l.RetryAt.IsZero() {
				counting = false // the job was held; released, it counts anew
			}
			if counting {
				w.Rounds++
			}
		}
		carried, err := led.InstancesOfLaunch(ctx, l.ID)
		if err != nil {
			return fmt.Errorf("read instances of launch %s from the ledger: %w", l.ID, err)
		}
		for _, i := range carried {
			p.Instances = append(p.Instances, Instance{i.Node, i.ID, i.Offering.Key(), i.CreatedAt, i.ReadyAt, i.EndedAt, i.EndCause, i.Console})
		}
		w.Launches = append(w.Launches, p)
	}
	failures, err := led.FailuresOfJob(ctx, w.JobID, 50)
	if err != nil {
		return fmt.Errorf("read failures of job %d from the ledger: %w", w.JobID, err)
	}
	for _, f := range failures {
		w.Failures = append(w.Failures, Failure{f.At, f.Offering, string(f.Class), f.Code, f.Message, f.Nodes})
	}
	return nil
}

func answer(j slurm.Job, w Why) string {
	put := Sentence(j)
	switch {
	case j.State == "PENDING" && put != "" && strings.Contains(j.Reason, "Held"):
		return "held: " + put
	case j.State == "PENDING" && put != "":
		return fmt.Sprintf("waits for another try (%d of %d have failed): %s", w.Rounds, w.MaxRound, put)
	case j.State == "PENDING":
		return "waits in Slurm's queue (" + j.Reason + "); midair has not been asked for nodes"
	case j.State == "CONFIGURING" && len(w.Launches) > 0 && w.Launches[0].State == "launching":
		return "its nodes " + w.Launches[0].Nodes + " are being bought or are booting"
	case j.State == "CONFIGURING":
		return "Slurm is preparing its nodes " + j.Nodes
	case len(w.Launches) > 0 && w.Launches[0].State == "ready":
		return fmt.Sprintf("%s on nodes that midair had ready after %.1f s", strings.ToLower(j.State), w.Launches[0].ReadyAfter)
	}
	return strings.ToLower(j.State) + "; midair bought nothing for it"
}
