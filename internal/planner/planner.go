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
	// Entries says, for each offering, which entry of the pool's list it comes
	// from: entries are in order of preference, and within an entry and a market
	// the price decides. nil: each offering is an entry of its own.
	Entries []int
	// Factors weigh each offering's price for comparing, not for the bill: data
	// locality × interconnect. nil: 1.
	Factors []float64
	// Apart: the nodes of one job may be of several types and in several zones.
	Apart     bool
	CPUs      int
	MemoryMiB int
	GPUs      int
}

// Policy is what a tier says about markets. The zero value takes the markets as
// the pool lists them and falls back at once.
type Policy struct {
	// Markets in the order in which they are tried; nil: as the pool lists them.
	// A market that is not in it is not bought on.
	Markets []cloud.Market
	WhenOut WhenOut
	// After is how long a job waits on its first market (Fallback).
	After time.Duration
}

// WhenOut is what a tier does when its first market has nothing left.
type WhenOut string

// The policies, in midair.yaml's words. An empty one is Fallback.
const (
	Fallback WhenOut = "fallback" // the other markets too, after Policy.After
	Pause    WhenOut = "pause"    // only the first market
	Deadline WhenOut = "deadline" // the others when Demand.Latest is near
)

// Key names an offering of a provider.
type Key struct {
	Provider string
	Offering cloud.Offering
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
	// AllOrNothing: the launch has several nodes in one job, and all of them
	// have to come from one offering.
	AllOrNothing bool
	// Alone: its nodes share no create call with other launches, because the
	// launch fails as a whole (several nodes in one job).
	Alone bool
	// Zone is where other nodes of the launch are already, so that what is left
	// has to be there too; empty: anywhere.
	Zone string
	// Since is when the job's nodes were first wanted, which a fallback counts
	// from; Latest when they must be asked for at the latest so that the job
	// meets its deadline; zero: it has none.
	Since, Latest time.Time
	// Tried are offerings (keys) that failed for this launch in this round in a
	// way that capacity memory does not remember.
	Tried map[string]bool
}

// Input is everything a plan depends on.
type Input struct {
	Now    time.Time
	Pools  []Pool
	Memory []ledger.MemoryEntry // in any order; entries that have ended do not count
	// Prices of one instance-hour, where known.
	Prices map[Key]cloud.MicroUSD
	// Policies of the tiers, by name; a tier that is not there has the zero one.
	Policies map[string]Policy
	// Bucket names the quota that an offering counts against, so that one
	// offering's quota is taken for that of all. nil or "": its own.
	Bucket func(Key) string
	// Breaker is how many launches in a row must fail to become nodes before
	// their offering is passed over; 0: 3. Probing are offerings that a launch
	// is trying after that; nobody else does meanwhile.
	Breaker int
	Probing map[Key]bool
	Demands []Demand
	// MaxNodesPerCall bounds one create call of single-node launches; 0: no
	// bound. An all-or-nothing call is never split.
	MaxNodesPerCall int
}

// Call is one create call to be made.
type Call struct {
	Provider     string
	Pool         string
	Offerings    []cloud.Offering // of one market, best first
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
