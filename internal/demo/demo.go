// Package demo tells midair's story on a private Slurm, as it happens: a queue
// that outgrows the on-premises nodes, jobs that spill over to nodes that did
// not exist, a cloud that is out of stock, and nodes that go away again.
package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/midair-hpc/midair/internal/testcluster"
)

// Options is how the demo is run.
type Options struct {
	Programs string    // folder with the built programs
	Output   string    // file for the figures as JSON; empty: none
	Out      io.Writer // the story
	Cloud    string    // one of Clouds; empty: local
}

// Figures is what the demo measured; its JSON form is stable.
type Figures struct {
	OK   bool         `json:"ok"`
	Jobs []JobFigures `json:"jobs"`
	// WallSeconds is the whole demo's, the cluster's start included.
	WallSeconds float64 `json:"wall_s"`
}

// JobFigures are one job's, in seconds. SubmitToStart = Boot + Overhead, and
// Overhead = SlurmShare + OurShare.
type JobFigures struct {
	JobID         int     `json:"job_id"`
	Name          string  `json:"name"`
	Tier          string  `json:"tier"`
	Nodes         string  `json:"nodes"`
	SubmitToStart float64 `json:"submit_to_start_s"`
	// Boot is from the last instance's creation to its slurmd being up.
	Boot       float64 `json:"boot_s"`
	Overhead   float64 `json:"overhead_s"`
	SlurmShare float64 `json:"slurm_s"`
	OurShare   float64 `json:"midair_s"`
}

// How long the story's jobs run, in seconds: the peak's outlast what happens
// during it and end shortly before those at home, so that for a moment
// on-premises and bought nodes are idle side by side.
const (
	homeSeconds  = 24
	peakSeconds  = 16
	afterSeconds = 6
)

// limit is when a story that does not go on is given up.
const limit = 5 * time.Minute

type story struct {
	Options
	sky   sky
	c     *testcluster.Cluster
	began time.Time
	jobs  []*job
}

// job is one actor of the story.
type job struct {
	name, user, tier string
	nodes, seconds   int
	id               int
	submitted        time.Time
}

// Run tells the story. It fails if any part of it did not happen.
func Run(ctx context.Context, o Options) error {
	if o.Out == nil {
		o.Out = io.Discard
	}
	s := &story{Options: o, began: time.Now()}
	var err error
	if s.sky, err = skyOf(o.Cloud); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the story takes about a minute and was not over after %s", limit))
	defer cancel()
	fmt.Fprintln(o.Out, "midair demo: a private Slurm on this machine, "+s.sky.intro())
	s.say("starting munge, MariaDB, slurmdbd, slurmctld and two on-premises nodes")
	c, err := testcluster.Start(ctx, testcluster.Options{Programs: o.Programs, Midair: s.sky.yaml()})
	if err != nil {
		return err
	}
	defer c.Stop()
	s.c = c
	if err := s.tell(ctx); err != nil {
		if errors.Is(ctx.Err(), context.Canceled) {
			return errors.New("demo interrupted; its cluster is gone and nothing is left")
		}
		return fmt.Errorf("%w\nlast log lines:\n%s", err, c.Logs(15))
	}
	return nil
}

func (s *story) say(format string, args ...any) {
	fmt.Fprintf(s.Out, "%6.1f s  %s\n", time.Since(s.began).Seconds(), fmt.Sprintf(format, args...))
}

func (s *story) tell(ctx context.Context) error {
	if err := s.sky.start(ctx, s.c); err != nil {
		return err
	}
	if _, err := s.c.StartController(ctx); err != nil {
		return err
	}
	steps := []func(context.Context) error{s.fillOnPrem, s.spillOver, s.cannotBeServed, s.landsAtHome, s.goAway, s.finish}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (s *story) submit(ctx context.Context, j *job) error {
	script := fmt.Sprintf("date +%%s.%%N >start.%s; exec sleep %d", j.name, j.seconds)
	j.submitted = time.Now()
	id, err := s.c.Sbatch(ctx, j.user, "--job-name="+j.name, "--qos="+j.tier, fmt.Sprintf("--nodes=%d", j.nodes), "--ntasks-per-node=4", "--mem=100", "--time=10", "--output=/dev/null", "--wrap="+script)
	if err != nil {
		return err
	}
	j.id = id
	s.jobs = append(s.jobs, j)
	return nil
}

func (s *story) state(ctx context.Context, j *job) (state, nodes string, err error) {
	out, err := s.c.Run(ctx, "squeue", "-h", "-t", "all", "-j", fmt.Sprint(j.id), "-o", "%T %N")
	if err != nil {
		return "", "", err
	}
	f := strings.Fields(out)
	if len(f) == 0 {
		return "", "", fmt.Errorf("job %d is not in Slurm", j.id)
	}
	if len(f) > 1 {
		nodes = f[1]
	}
	return f[0], nodes, nil
}

// running waits until all jobs run and says where.
func (s *story) running(ctx context.Context, want string, jobs ...*job) error {
	for _, j := range jobs {
		var nodes string
		err := testcluster.WaitFor(ctx, fmt.Sprintf("job %d (%s) to run", j.id, j.name), func(ctx context.Context) (bool, error) {
			state, n, err := s.state(ctx, j)
			nodes = n
			return state == "RUNNING", err
		})
		if err != nil {
			return err
		}
		if !strings.HasPrefix(nodes, want) {
			return fmt.Errorf("job %d (%s) runs on %s; the story wants %s nodes", j.id, j.name, nodes, want)
		}
		s.say("job %d (%s, %s) runs on %s", j.id, j.user, j.tier, nodes)
	}
	return nil
}

func (s *story) fillOnPrem(ctx context.Context) error {
	a := &job{name: "home1", user: "alice", tier: "p0", nodes: 1, seconds: homeSeconds}
	b := &job{name: "home2", user: "alice", tier: "p0", nodes: 1, seconds: homeSeconds}
	for _, j := range []*job{a, b} {
		if err := s.submit(ctx, j); err != nil {
			return err
		}
	}
	s.say("alice's p0 jobs %d and %d fill the on-premises nodes", a.id, b.id)
	return s.running(ctx, "onprem-", a, b)
}

func (s *story) spillOver(ctx context.Context) error {
	what, err := s.sky.runsLow(ctx, s.c)
	if err != nil {
		return err
	}
	s.say("%s", what)
	p1 := &job{name: "peak-p1", user: "bob", tier: "p1", nodes: 1, seconds: peakSeconds}
	p2 := &job{name: "peak-p2", user: "carol", tier: "p2", nodes: 3, seconds: peakSeconds}
	for _, j := range []*job{p1, p2} {
		if err := s.submit(ctx, j); err != nil {
			return err
		}
		s.say("%s submits job %d: %s, %d node(s); on-premises is full", j.user, j.id, j.tier, j.nodes)
	}
	if err := s.running(ctx, "gpu-od-", p1); err != nil {
		return err
	}
	if err := s.running(ctx, "gpu-spot-", p2); err != nil {
		return err
	}
	w, err := s.why(ctx, p2)
	if err != nil {
		return err
	}
	if len(w.Failures) == 0 || w.Failures[0].Class != "out-of-stock" {
		return fmt.Errorf("job %d (%s) should have met an offering out of stock; midair why says %+v", p2.id, p2.name, w.Failures)
	}
	s.say("  for job %d midair first asked %s: %s; then it bought %s", p2.id, w.Failures[0].Offering, w.Failures[0].Message, w.bought())
	out, err := s.c.Run(ctx, "midair", "status", "nodes")
	if err != nil {
		return err
	}
	s.quote("midair status nodes", out)
	return nil
}

func (s *story) cannotBeServed(ctx context.Context) error {
	j := &job{name: "no-luck", user: "bob", tier: "p1", nodes: 2, seconds: 1}
	if err := s.submit(ctx, j); err != nil {
		return err
	}
	s.say("bob submits job %d: p1, two nodes; the cloud has none left on demand", j.id)
	err := testcluster.WaitFor(ctx, fmt.Sprintf("job %d's comment", j.id), func(ctx context.Context) (bool, error) {
		out, err := s.c.Run(ctx, "squeue", "-h", "-j", fmt.Sprint(j.id), "-o", "%k")
		return strings.HasPrefix(out, "midair: out-of-stock"), err
	})
	if err != nil {
		return err
	}
	out, err := s.c.Run(ctx, "midair", "why", fmt.Sprint(j.id))
	if err != nil {
		return err
	}
	s.quote(fmt.Sprintf("midair why %d", j.id), out)
	_, err = s.c.RunAs(ctx, "bob", "scancel", fmt.Sprint(j.id))
	return err
}

// landsAtHome: with on-premises and bought nodes idle, a job that may burst
// takes the on-premises ones, so the bought ones stay idle and go first.
func (s *story) landsAtHome(ctx context.Context) error {
	idle := map[string]int{}
	err := testcluster.WaitFor(ctx, "on-premises and bought nodes to be idle", func(ctx context.Context) (bool, error) {
		out, err := s.c.Run(ctx, "sinfo", "-h", "-N", "-t", "idle", "-o", "%P %T")
		if err != nil {
			return false, err
		}
		clear(idle)
		for _, line := range strings.Split(out, "\n") {
			if partition, ok := strings.CutSuffix(line, " idle"); ok { // not idle~, which is powered down
				idle[strings.TrimSuffix(partition, "*")]++
			}
		}
		return idle["onprem"] == 2 && idle["gpu-od"]+idle["gpu-spot"] > 0, nil
	})
	if err != nil {
		return err
	}
	j := &job{name: "after-peak", user: "bob", tier: "p1", nodes: 1, seconds: afterSeconds}
	if err := s.submit(ctx, j); err != nil {
		return err
	}
	s.say("the peak is over: 2 on-premises and %d bought nodes are idle; bob submits job %d: p1", idle["gpu-od"]+idle["gpu-spot"], j.id)
	return s.running(ctx, "onprem-", j)
}

func (s *story) goAway(ctx context.Context) error {
	s.say("the bought nodes are idle; Slurm's SuspendTime gives them back")
	err := testcluster.WaitFor(ctx, "every bought node to be gone", func(ctx context.Context) (bool, error) {
		out, err := s.c.Run(ctx, "midair", "status", "--json")
		if err != nil {
			return false, err
		}
		var v struct {
			Pools []struct{ Up, Booting, Off, Total int }
		}
		if err := json.Unmarshal([]byte(out), &v); err != nil {
			return false, fmt.Errorf("read midair status: %w", err)
		}
		for _, p := range v.Pools {
			if p.Off != p.Total {
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		return err
	}
	bought, err := s.allEnded(ctx)
	if err != nil {
		return err
	}
	home, err := s.c.Run(ctx, "sinfo", "-h", "-N", "-p", "onprem", "-o", "%T")
	if err != nil {
		return err
	}
	for _, state := range strings.Fields(home) {
		if strings.HasSuffix(state, "~") {
			return fmt.Errorf("an on-premises node is %s; only bought nodes may go", state)
		}
	}
	s.say("all %d bought instances are gone; the on-premises nodes stay (%s)", bought, strings.Join(strings.Fields(home), ", "))
	return nil
}

func (s *story) quote(command, out string) {
	fmt.Fprintf(s.Out, "          $ %s\n", command)
	for _, line := range strings.Split(strings.TrimRight(out, "\n"), "\n") {
		fmt.Fprintf(s.Out, "          | %s\n", line)
	}
}

func (s *story) finish(ctx context.Context) error {
	var f Figures
	for _, j := range s.jobs {
		if j.name == "no-luck" {
			continue
		}
		jf, err := s.measure(ctx, j)
		if err != nil {
			return err
		}
		f.Jobs = append(f.Jobs, jf)
	}
	f.OK = true
	f.WallSeconds = time.Since(s.began).Seconds()
	f.table(s.Out)
	if s.Output == "" {
		return nil
	}
	return f.write(s.Output)
}

func (f Figures) write(path string) error {
	text, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the demo's figures: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("write the demo's figures: %w", err)
	}
	if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("write the demo's figures: %w", err)
	}
	return nil
}

var errNoFigures = errors.New("the job's launch is not complete in midair why")
