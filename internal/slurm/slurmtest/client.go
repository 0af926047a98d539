package slurmtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/midair-hpc/midair/internal/hostlist"
	"github.com/midair-hpc/midair/internal/slurm"
)

var _ slurm.Client = (*Ctld)(nil)

// Op names a call of slurm.Client.
type Op string

// The calls that midair makes.
const (
	Version      Op = "version"
	Nodes        Op = "nodes"
	Jobs         Op = "jobs"
	ActiveJobs   Op = "active jobs"
	SetAddresses Op = "set addresses"
	UpdateNodes  Op = "update nodes"
	UpdateJob    Op = "update job"
	HoldJob      Op = "hold job"
	RequeueJob   Op = "requeue job"
)

// Ops lists every call.
var Ops = []Op{Version, Nodes, Jobs, ActiveJobs, SetAddresses, UpdateNodes, UpdateJob, HoldJob, RequeueJob}

// Call is one call that was made, as far as it is of use to a test.
type Call struct {
	Op    Op
	Nodes []string
	State string
	Job   int
	Err   error
}

type fault struct {
	applied bool
	err     error
}

// Break makes the next n calls of an op fail as if slurmctld could not be
// reached. applied: the call takes effect and its answer is lost.
func (c *Ctld) Break(op Op, n int, applied bool) {
	c.BreakWith(op, n, applied, &slurm.CommandError{
		Program: "scontrol", Args: []string{string(op)}, ExitCode: 1,
		Stderr: "slurm_load_ctl_conf error: Unable to contact slurm controller (connect failure)", Err: errors.New("exit status 1"),
	})
}

// BreakWith makes the next n calls of an op fail with err.
func (c *Ctld) BreakWith(op Op, n int, applied bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for range n {
		c.faults[string(op)] = append(c.faults[string(op)], fault{applied, err})
	}
}

// Mend takes all faults away.
func (c *Ctld) Mend() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.faults)
}

// Calls gives the calls of an op so far.
func (c *Ctld) Calls(op Op) []Call {
	c.mu.Lock()
	defer c.mu.Unlock()
	var calls []Call
	for _, call := range c.calls {
		if call.Op == op {
			calls = append(calls, call)
		}
	}
	return calls
}

// PeekNodes gives nodes as Nodes does, and is no call: nothing fails or is noted.
func (c *Ctld) PeekNodes(names ...string) (list []slurm.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.show(names)
}

// PeekJob gives a job, or a zero one, and is no call.
func (c *Ctld) PeekJob(id int) slurm.Job {
	c.mu.Lock()
	defer c.mu.Unlock()
	if j := c.jobs[id]; j != nil {
		return c.record(j)
	}
	return slurm.Job{}
}

// ForgetCalls empties what Calls gives.
func (c *Ctld) ForgetCalls() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = nil
}

func (c *Ctld) show(names []string) (list []slurm.Node) {
	for _, name := range c.order {
		if n := c.nodes[name]; len(names) == 0 || slices.Contains(names, name) {
			list = append(list, slurm.Node{Name: n.name, Addr: n.addr, HostName: n.host, State: n.states(), Reason: n.reason, Comment: n.comment, BootTime: n.boot})
		}
	}
	return list
}

// do makes one call, with the lock held.
func (c *Ctld) do(call Call, fn func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := func() error {
		k := string(call.Op)
		if len(c.faults[k]) == 0 {
			return fn()
		}
		f := c.faults[k][0]
		c.faults[k] = c.faults[k][1:]
		if f.applied {
			_ = fn() // nobody hears of it
		}
		return fmt.Errorf("%s: %w", call.Op, f.err)
	}()
	call.Err = err
	c.calls = append(c.calls, call)
	return err
}

func invalidJob(id int) error {
	return &slurm.CommandError{Program: "scontrol", Args: []string{"update", fmt.Sprint(id)}, ExitCode: 1,
		Stderr: "slurm_update error: Invalid job id specified", Err: errors.New("exit status 1")}
}

// Version implements slurm.Client.
func (c *Ctld) Version(context.Context) (v slurm.Version, err error) {
	err = c.do(Call{Op: Version}, func() error { v = slurm.Version{Major: 22, Minor: 5, Micro: 8}; return nil })
	return v, err
}

// Nodes implements slurm.Client.
func (c *Ctld) Nodes(_ context.Context, names ...string) (list []slurm.Node, err error) {
	err = c.do(Call{Op: Nodes, Nodes: names}, func() error { list = c.show(names); return nil })
	if err != nil {
		return nil, err
	}
	return list, nil
}

func (c *Ctld) record(j *job) slurm.Job {
	r := slurm.Job{ID: j.id, State: j.state, User: j.User, Account: j.Account, QOS: j.QOS, Comment: j.comment, AdminComment: j.admin,
		Nodes: hostlist.FoldSorted(j.nodes), NumNodes: j.Job.Nodes, SubmitTime: j.submit, EligibleTime: j.begin, StartTime: j.started,
		Restarts: j.restarts, Batch: !j.NoBatch}
	if j.state == "PENDING" {
		r.StartTime = j.begin
		if j.held {
			r.Reason = "JobHeldUser"
		}
	}
	return r
}

// Jobs implements slurm.Client.
func (c *Ctld) Jobs(_ context.Context, ids ...int) (list []slurm.Job, err error) {
	err = c.do(Call{Op: Jobs}, func() error {
		for _, j := range c.sorted() {
			if slices.Contains(ids, j.id) {
				list = append(list, c.record(j))
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// ActiveJobs implements slurm.Client.
func (c *Ctld) ActiveJobs(context.Context) (list []slurm.Job, err error) {
	err = c.do(Call{Op: ActiveJobs}, func() error {
		for _, j := range c.sorted() {
			if !ended(j.state) {
				list = append(list, c.record(j))
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return list, nil
}

// each applies a change to the nodes that are known.
func (c *Ctld) each(names []string, change func(n *node)) error {
	var unknown []string
	for _, name := range names {
		if n := c.nodes[name]; n != nil {
			change(n)
		} else {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		return &slurm.NotAppliedError{Nodes: unknown, Err: errors.New("slurm_update error: Invalid node name specified")}
	}
	return nil
}

// SetAddresses implements slurm.Client.
func (c *Ctld) SetAddresses(_ context.Context, nodes []slurm.NodeAddress) error {
	byName := map[string]slurm.NodeAddress{}
	var names []string
	for _, n := range nodes {
		byName[n.Node] = n
		names = append(names, n.Node)
	}
	slices.Sort(names)
	return c.do(Call{Op: SetAddresses, Nodes: names}, func() error {
		return c.each(names, func(n *node) { n.addr, n.host = byName[n.name].Addr, byName[n.name].HostName })
	})
}

// UpdateNodes implements slurm.Client.
func (c *Ctld) UpdateNodes(_ context.Context, names []string, u slurm.NodeUpdate) error {
	return c.do(Call{Op: UpdateNodes, Nodes: slices.Clone(names), State: u.State}, func() error {
		return c.each(names, func(n *node) { c.change(n, u) })
	})
}

func (c *Ctld) change(n *node, u slurm.NodeUpdate) {
	if u.Reason != "" && (u.State != "" || n.down || n.drained) {
		n.reason = u.Reason
	}
	if u.Comment != "" {
		n.comment = u.Comment
	}
	switch u.State {
	case "power_down_force":
		c.lose(n)
		if n.phase != poweringDown {
			c.powerDown(n)
		}
	case "power_down":
		switch {
		case n.job != 0:
			n.downWhenIdle = true
		case n.phase != poweringDown:
			c.powerDown(n)
		}
	case "power_up":
		if n.phase == off {
			c.powerUp(n)
		}
	case "down":
		n.down = true
		c.lose(n)
	case "drain":
		n.drained = true
	case "resume":
		n.down, n.drained, n.reason = false, false, ""
	}
}

// UpdateJob implements slurm.Client. Slurm keeps start times in whole seconds.
func (c *Ctld) UpdateJob(_ context.Context, id int, u slurm.JobUpdate) error {
	return c.onJob(UpdateJob, id, func(j *job) {
		if u.StartTime != nil {
			j.begin = u.StartTime.Add(time.Second - 1).Truncate(time.Second)
		}
		if u.Comment != nil {
			j.comment = *u.Comment
		}
		if u.AdminComment != nil {
			j.admin = *u.AdminComment
		}
	})
}

// HoldJob implements slurm.Client.
func (c *Ctld) HoldJob(_ context.Context, id int) error {
	return c.onJob(HoldJob, id, func(j *job) { j.held = true })
}

// RequeueJob implements slurm.Client.
func (c *Ctld) RequeueJob(_ context.Context, id int) error {
	return c.onJob(RequeueJob, id, func(j *job) {
		c.free(j)
		j.state, j.begin = "PENDING", c.o.Now().Add(c.o.RequeueDelay)
		j.restarts++
	})
}

func (c *Ctld) onJob(op Op, id int, change func(*job)) error {
	return c.do(Call{Op: op, Job: id}, func() error {
		j := c.jobs[id]
		if j == nil || ended(j.state) {
			return invalidJob(id)
		}
		change(j)
		return nil
	})
}
