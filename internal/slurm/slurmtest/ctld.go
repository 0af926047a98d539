// Package slurmtest is a slurmctld that exists in memory, for tests that need
// Slurm's behaviour and neither root nor Slurm.
//
// It imitates what midair relies on, as seen on Slurm 22.05.8: the states that
// a cloud node passes, the calls of ResumeProgram, SuspendProgram and
// ResumeFailProgram, what power_down_force, power_down, power_up, down, drain
// and resume do to nodes and to the jobs on them, the delay that a requeued
// job gets and the start time that lifts it, that a node given by an unknown
// name is refused and the others updated, and that a reason set alone is
// dropped unless the node is down or drained.
//
// It does not imitate priorities, partitions, time limits, reservations but for
// maintenance,
// several jobs on one node, rate limits, or the time anything takes: a change
// takes effect at once, and what slurmctld does by itself is done in Tick.
package slurmtest

import (
	"slices"
	"sync"
	"time"

	"github.com/midair-hpc/midair/internal/slurm"
)

// Hooks are the programs that slurmctld runs. They are called without a lock
// held; nil ones are not set.
type Hooks struct {
	// Resume gets ResumeProgram's argument and the content of the file that
	// SLURM_RESUME_FILE names.
	Resume  func(nodes, resumeFile string)
	Suspend func(nodes string)
	Fail    func(nodes string)
}

// Options is what slurm.conf says.
type Options struct {
	Now            func() time.Time
	ResumeTimeout  time.Duration
	SuspendTime    time.Duration // 0: idle nodes stay up
	SuspendTimeout time.Duration
	SlurmdTimeout  time.Duration // a node that is gone is down after this; 0: never
	RequeueDelay   time.Duration // before a job that lost its node may start: cred_expire + 1
	Hooks          Hooks
}

// phase is where a cloud node is in its life.
type phase int

const (
	off phase = iota // POWERED_DOWN
	poweringUp
	up
	poweringDown
)

type node struct {
	name, addr, host string
	phase            phase
	since            time.Time // of phase, or of being idle
	asked            bool      // ResumeProgram or SuspendProgram has been run for this phase
	downWhenIdle     bool      // POWER_DOWN
	down, drained    bool
	maintained       bool      // MAINTENANCE
	gone             time.Time // its slurmd does not answer since; zero: it does
	reason, comment  string
	boot             time.Time
	job              int // 0: none
}

// Job is what is submitted.
type Job struct {
	Nodes    int      // how many
	On       []string // candidates, in order of preference
	QOS      string
	User     string
	Account  string
	Comment  string
	Duration time.Duration // from its start to its end
	NoBatch  bool          // srun or salloc: cancelled where a batch job is requeued
}

type job struct {
	Job
	id       int
	state    string
	comment  string
	admin    string
	nodes    []string  // allocated
	begin    time.Time // not before
	held     bool
	submit   time.Time
	started  time.Time
	restarts int
	ran      bool // it has completed
}

// Ctld is a slurmctld. It is safe for concurrent use.
type Ctld struct {
	o  Options
	mu sync.Mutex

	nodes  map[string]*node
	order  []string
	jobs   map[int]*job
	nextID int
	faults map[string][]fault
	calls  []Call
}

// New makes a slurmctld with powered-down cloud nodes.
func New(o Options, names ...string) *Ctld {
	c := &Ctld{o: o, nodes: map[string]*node{}, jobs: map[int]*job{}, faults: map[string][]fault{}}
	for _, n := range names {
		c.nodes[n] = &node{name: n, addr: n, host: n, since: o.Now()}
		c.order = append(c.order, n)
	}
	return c
}

// Submit puts a job into the queue and gives its id.
func (c *Ctld) Submit(j Job) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nextID++
	now := c.o.Now()
	c.jobs[c.nextID] = &job{Job: j, id: c.nextID, state: "PENDING", comment: j.Comment, begin: now, submit: now}
	return c.nextID
}

// Cancel is scancel.
func (c *Ctld) Cancel(id int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if j := c.jobs[id]; j != nil && !ended(j.state) {
		c.end(j, "CANCELLED")
	}
}

// Maintain begins or ends a maintenance reservation of a node.
func (c *Ctld) Maintain(name string, on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.nodes[name]; n != nil {
		n.maintained = on
	}
}

// Release is scontrol release by the job's owner.
func (c *Ctld) Release(id int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if j := c.jobs[id]; j != nil {
		j.held = false
	}
}

// Forget removes a job that has ended, as slurmctld does after MinJobAge.
func (c *Ctld) Forget(id int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.jobs, id)
}

// Registration is what a slurmd tells of its node.
type Registration struct {
	Node, Addr string
	Boot       time.Time
}

// Register is a slurmd that registers. slurmctld ignores one that it does not
// expect at this address, and a boot from before the power-up.
func (c *Ctld) Register(r Registration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.nodes[r.Node]
	if n == nil || n.addr != r.Addr {
		return false
	}
	switch {
	case n.phase == up:
		n.gone = time.Time{}
		return true
	case n.phase != poweringUp || r.Boot.Before(n.since) || !n.asked:
		return false
	}
	n.phase, n.since, n.boot, n.gone = up, c.o.Now(), r.Boot, time.Time{}
	return true
}

// Silence tells that a node's slurmd no longer answers.
func (c *Ctld) Silence(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.nodes[name]; n != nil && n.phase == up && n.gone.IsZero() {
		n.gone = c.o.Now()
	}
}

// AskAgain makes the next Tick run ResumeProgram again for every node that is
// powering up, as a slurmctld does that has crashed and started again.
func (c *Ctld) AskAgain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.nodes {
		if n.phase == poweringUp {
			n.asked = false
		}
	}
}

func ended(state string) bool { return slurm.Job{State: state}.Ended() }

// end ends a job and frees its nodes.
func (c *Ctld) end(j *job, state string) {
	j.state = state
	c.free(j)
}

func (c *Ctld) free(j *job) {
	for _, name := range j.nodes {
		n := c.nodes[name]
		n.job = 0
		if n.phase == up {
			n.since = c.o.Now()
			if n.downWhenIdle {
				c.powerDown(n)
			}
		}
	}
	j.nodes = nil
}

// lose requeues the job on a node that is being taken away, or ends it if it
// is none that can be.
func (c *Ctld) lose(n *node) {
	j := c.jobs[n.job]
	if j == nil {
		n.job = 0
		return
	}
	if j.NoBatch {
		c.end(j, "NODE_FAIL")
		return
	}
	c.free(j)
	j.state, j.begin = "PENDING", c.o.Now().Add(c.o.RequeueDelay)
	j.restarts++
}

func (c *Ctld) powerUp(n *node) {
	n.phase, n.since, n.asked = poweringUp, c.o.Now(), false
	n.gone, n.downWhenIdle = time.Time{}, false
}

func (c *Ctld) powerDown(n *node) {
	n.phase, n.since, n.asked, n.downWhenIdle = poweringDown, c.o.Now(), false, false
}

// states gives a node's state as scontrol prints it.
func (n *node) states() slurm.StateSet {
	s := slurm.StateSet{"CLOUD": true}
	switch {
	case n.down:
		s["DOWN"] = true
	case n.job != 0:
		s["ALLOCATED"] = true
	default:
		s["IDLE"] = true
	}
	switch n.phase {
	case off:
		s["POWERED_DOWN"] = true
	case poweringUp:
		s["POWERING_UP"] = true
	case poweringDown:
		s["POWERING_DOWN"] = true
	case up:
	}
	for flag, in := range map[string]bool{"POWER_DOWN": n.downWhenIdle, "DRAIN": n.drained, "MAINTENANCE": n.maintained, "NOT_RESPONDING": !n.gone.IsZero()} {
		if in {
			s[flag] = true
		}
	}
	return s
}

// sorted gives the jobs in the order they were submitted.
func (c *Ctld) sorted() []*job {
	all := make([]*job, 0, len(c.jobs))
	for _, j := range c.jobs {
		all = append(all, j)
	}
	slices.SortFunc(all, func(a, b *job) int { return a.id - b.id })
	return all
}
