package slurmtest

import (
	"encoding/json"
	"time"

	"github.com/midair-hpc/midair/internal/hostlist"
)

// Tick does what slurmctld does by itself by now: jobs end and start, nodes
// are chosen and powered up and down, timeouts pass, and the hooks are run.
func (c *Ctld) Tick() {
	c.mu.Lock()
	now := c.o.Now()
	failed := c.timeouts(now)
	c.endJobs(now)
	c.schedule(now)
	c.idle(now)
	c.startJobs(now)
	resume, file := c.resumes()
	suspend := c.suspends()
	c.mu.Unlock()

	if f := c.o.Hooks.Fail; f != nil && len(failed) > 0 {
		f(hostlist.FoldSorted(failed))
	}
	if f := c.o.Hooks.Suspend; f != nil && len(suspend) > 0 {
		f(hostlist.FoldSorted(suspend))
	}
	if f := c.o.Hooks.Resume; f != nil && len(resume) > 0 {
		f(hostlist.FoldSorted(resume), file)
	}
}

// timeouts ends what has taken too long, and gives the nodes that did not
// register.
func (c *Ctld) timeouts(now time.Time) (failed []string) {
	for _, name := range c.order {
		n := c.nodes[name]
		switch {
		case n.phase == poweringUp && n.asked && now.Sub(n.since) >= c.o.ResumeTimeout:
			n.phase, n.since, n.down = off, now, true
			n.reason = "ResumeTimeout reached"
			c.lose(n)
			failed = append(failed, name)
		case n.phase == poweringDown && n.asked && now.Sub(n.since) >= c.o.SuspendTimeout:
			// idle_on_node_suspend and cloud_reg_addrs
			n.phase, n.since, n.down, n.drained = off, now, false, false
			n.addr, n.host, n.gone = n.name, n.name, time.Time{}
		case n.phase == up && !n.gone.IsZero() && c.o.SlurmdTimeout > 0 && now.Sub(n.gone) >= c.o.SlurmdTimeout && !n.down:
			n.down, n.reason = true, "Not responding"
			c.lose(n)
		}
	}
	return failed
}

func (c *Ctld) endJobs(now time.Time) {
	for _, j := range c.sorted() {
		if j.state != "RUNNING" || now.Sub(j.started) < j.Duration {
			continue
		}
		answers := true
		for _, name := range j.nodes {
			answers = answers && c.nodes[name].gone.IsZero()
		}
		if answers {
			j.ran = true
			c.end(j, "COMPLETED")
		}
	}
}

func (n *node) usable() bool {
	return n.job == 0 && !n.down && !n.drained && !n.maintained && !n.downWhenIdle && n.phase != poweringDown && n.gone.IsZero()
}

// schedule allocates nodes: those that are up or coming first.
func (c *Ctld) schedule(now time.Time) {
	for _, j := range c.sorted() {
		if j.state != "PENDING" || j.held || now.Before(j.begin) {
			continue
		}
		var chosen []string
		for _, p := range []phase{up, poweringUp, off} {
			for _, name := range j.On {
				if n := c.nodes[name]; len(chosen) < j.Nodes && n.phase == p && n.usable() {
					chosen = append(chosen, name)
				}
			}
		}
		if len(chosen) < j.Nodes {
			continue
		}
		j.state, j.nodes = "CONFIGURING", chosen
		for _, name := range chosen {
			n := c.nodes[name]
			n.job = j.id
			if n.phase == off {
				c.powerUp(n)
			}
		}
	}
}

func (c *Ctld) startJobs(now time.Time) {
	for _, j := range c.sorted() {
		if j.state != "CONFIGURING" {
			continue
		}
		ready := true
		for _, name := range j.nodes {
			ready = ready && c.nodes[name].phase == up
		}
		if ready {
			j.state, j.started = "RUNNING", now
		}
	}
}

// idle powers down what has been idle for SuspendTime.
func (c *Ctld) idle(now time.Time) {
	for _, name := range c.order {
		n := c.nodes[name]
		if c.o.SuspendTime > 0 && n.phase == up && n.job == 0 && !n.maintained && now.Sub(n.since) >= c.o.SuspendTime {
			c.powerDown(n)
		}
	}
}

func (c *Ctld) suspends() []string {
	var names []string
	for _, name := range c.order {
		if n := c.nodes[name]; n.phase == poweringDown && !n.asked {
			n.asked = true
			names = append(names, name)
		}
	}
	return names
}

// resumes gives ResumeProgram's argument and the resume file, in the spelling
// of 22.05.
func (c *Ctld) resumes() (names []string, file string) {
	type resumeJob struct {
		JobID int    `json:"job_id"`
		Nodes string `json:"nodes"`
	}
	jobs := []resumeJob{}
	listed := map[int]bool{}
	for _, name := range c.order {
		n := c.nodes[name]
		if n.phase != poweringUp || n.asked {
			continue
		}
		n.asked = true
		names = append(names, name)
		if j := c.jobs[n.job]; j != nil && !listed[j.id] {
			listed[j.id] = true
			jobs = append(jobs, resumeJob{j.id, hostlist.FoldSorted(j.nodes)})
		}
	}
	if len(names) == 0 {
		return nil, ""
	}
	text, err := json.Marshal(map[string]any{"all_nodes": hostlist.FoldSorted(names), "jobs": jobs})
	if err != nil {
		panic(err) // strings and numbers only
	}
	return names, string(text)
}
