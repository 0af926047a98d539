// Package slurm is the only one that talks to Slurm. It runs Slurm's own
// commands, which are on every controller and node and whose text formats hold
// across versions.
package slurm

import (
	"context"
	"time"
)

// Version is Slurm's version, such as {22, 5, 8}.
type Version struct{ Major, Minor, Micro int }

// Node is one node as slurmctld sees it.
type Node struct {
	Name     string
	Addr     string
	HostName string
	// State is the set of states and flags, upper case, without the compact
	// marks: IDLE+CLOUD+POWERED_DOWN is {"IDLE","CLOUD","POWERED_DOWN"}.
	State      StateSet
	Reason     string // without the trailing [user@time]
	Comment    string
	Partitions []string
	Features   []string
	Gres       string
	CPUs       int
	MemoryMiB  int
	BootTime   time.Time // zero if Slurm has none
}

// Job is one job as slurmctld sees it.
type Job struct {
	ID           int    // the raw job id, also for an array task
	State        string // long form: PENDING, CONFIGURING, RUNNING, …
	Reason       string // why it is pending
	Name         string
	User         string
	Account      string
	QOS          string
	Partition    string // the one it runs in, or the list it may run in while pending
	Features     string
	TimeLimit    time.Duration // 0: none
	Comment      string
	AdminComment string
	Nodes        string // hostlist of allocated nodes; empty while pending
	NumNodes     int
	SubmitTime   time.Time
	EligibleTime time.Time
	StartTime    time.Time
	Deadline     time.Time // when it must have ended (sbatch --deadline); zero: none
	Restarts     int
	Batch        bool // false: srun or salloc, which Slurm cannot requeue

	// pendingTasks: the record stands for the tasks of an array that have not
	// been started.
	pendingTasks bool
}

// NodeUpdate is what one `scontrol update nodename=` may change. Empty fields
// are left alone.
type NodeUpdate struct {
	State   string // such as resume, down, drain, power_down_force
	Reason  string
	Comment string
}

// NodeAddress is where a node can be reached.
type NodeAddress struct{ Node, Addr, HostName string }

// JobUpdate is what one `scontrol update jobid=` may change. Nil fields are
// left alone.
type JobUpdate struct {
	StartTime    *time.Time
	Comment      *string
	AdminComment *string
}

// Client is Slurm as midair needs it. Commands implements it with Slurm's own
// commands; a slurmrestd client can stand beside it.
type Client interface {
	Version(ctx context.Context) (Version, error)
	// Nodes gives the nodes named, or all with no names. Names that Slurm does
	// not know are absent from the result, not an error.
	Nodes(ctx context.Context, names ...string) ([]Node, error)
	// Jobs gives the jobs with these raw ids in one call. Ids that Slurm no
	// longer knows are absent.
	Jobs(ctx context.Context, ids ...int) ([]Job, error)
	// ActiveJobs gives every job that has not ended.
	ActiveJobs(ctx context.Context) ([]Job, error)
	// SetAddresses sets NodeAddr and NodeHostName of all nodes in as few calls
	// as the size of an argument allows.
	SetAddresses(ctx context.Context, nodes []NodeAddress) error
	// UpdateNodes applies one change to all nodes named, chunked the same way.
	UpdateNodes(ctx context.Context, names []string, u NodeUpdate) error
	UpdateJob(ctx context.Context, id int, u JobUpdate) error
	// HoldJob holds a pending job so that its owner can release it (uhold).
	HoldJob(ctx context.Context, id int) error
	RequeueJob(ctx context.Context, id int) error
}
