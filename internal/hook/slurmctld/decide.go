package slurmctld

import (
	"maps"

	"github.com/midair-hpc/midair/internal/hostlist"
	"github.com/midair-hpc/midair/internal/slurm"
)

// held is the job that this hook holds.
type held struct {
	id     int
	all    []string // every node that Slurm has allocated to it
	bought []string // those of them that are in one of midair's pools
}

// gone reports whether the job no longer waits for its nodes, by what Slurm
// says about its id: it is over, was put back into the queue, or was started
// anew on other nodes, for which another hook waits.
func (h held) gone(jobs []slurm.Job) bool {
	for _, j := range jobs {
		if j.ID != h.id {
			continue
		}
		if j.State != "CONFIGURING" && j.State != "RUNNING" {
			return true
		}
		now, err := hostlist.Expand(j.Nodes)
		if err != nil {
			return false // nothing is known about its nodes
		}
		return !maps.Equal(set(now), set(h.all))
	}
	return true
}

// registered reports whether all the job's bought nodes can run it.
func (h held) registered(list []slurm.Node) bool {
	ok := map[string]bool{}
	for _, n := range list {
		ok[n.Name] = n.State.Registered()
	}
	for _, n := range h.bought {
		if !ok[n] {
			return false
		}
	}
	return true
}

func set(names []string) map[string]bool {
	s := make(map[string]bool, len(names))
	for _, n := range names {
		s[n] = true
	}
	return s
}
