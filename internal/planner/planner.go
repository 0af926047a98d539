// Package planner decides; it does nothing. Every function is pure: requests,
// jobs, tiers, offerings, capacity memory and the time go in, a plan and
// refusals come out. Every policy is a table test here.
package planner

import (
	"time"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/ledger"
)

// Pool is a pool as the planner sees it.
type Pool struct {
	Name      string
	Provider  string
	Offerings []cloud.Offering // in order of preference
	CPUs      int
	MemoryMiB int
	GPUs      int
}

// JobNodes is one job of a resume request with the nodes Slurm wants for it.
type JobNodes struct {
	JobID int      // 0: no job
	Nodes []string // nodes_resume; those that are not in the request's Nodes are passed over
}

// Request is what Slurm asked to be powered up, in one call or several taken
// together.
type Request struct {
	Nodes []string // every node, also those of Jobs
	Jobs  []JobNodes
}

// JobInfo is what the planner needs to know of a job beside its nodes.
type JobInfo struct {
	JobID     int
	QOS       string
	Tier      string
	User      string
	Account   string
	Partition string
	Round     int // failed launches in a row before this one
}

// Demand is the part of one launch in one pool that still needs instances.
type Demand struct {
	Launch string
	JobID  int
	Tier   string
	Pool   string
	Nodes  []ledger.IntentNode
	// AllOrNothing: the launch has several nodes in one job.
	AllOrNothing bool
	// Tried are offerings (keys) that failed for this launch in this round in a
	// way that capacity memory does not remember.
	Tried map[string]bool
}

// Input is everything a plan depends on.
type Input struct {
	Now     time.Time
	Pools   []Pool
	Memory  []ledger.MemoryEntry // in any order; entries that have ended do not count
	Demands []Demand
	// MaxNodesPerCall bounds one create call of single-node launches; 0: no
	// bound. An all-or-nothing call is never split.
	MaxNodesPerCall int
}

// Call is one create call to be made.
type Call struct {
	Provider     string
	Pool         string
	Offering     cloud.Offering
	Nodes        []ledger.IntentNode
	AllOrNothing bool
}

// Refusal is a demand that no offering can serve now.
type Refusal struct {
	Launch string
	Pool   string
	// Err has the class that most of the pool's offerings are passed over for
	// (of equals: out-of-stock, quota, spec-mismatch, unknown), but one that
	// holds the job only if no offering can come back by itself. Its message
	// says until when, in the time zone of Input.Now, and is about 200 bytes
	// at most. A pool that is not configured or sells nothing is of class
	// config.
	Err *cloud.Error
	// RetryAt is when the first of its offerings may be tried again; zero if
	// none is remembered (they failed in this round only).
	RetryAt time.Time
}

// Result is what to do.
type Result struct {
	Calls    []Call
	Refusals []Refusal
}

// Requeue says what becomes of a job whose launch failed.
type Requeue struct {
	Hold    bool
	StartAt time.Time // meaningless with Hold
}
