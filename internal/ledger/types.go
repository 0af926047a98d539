package ledger

import (
	"time"

	"github.com/midair-hpc/midair/internal/cloud"
)

// Request is a hook's record that has been taken from the spool. Its name is
// the spool file's, so that a record that is still there after a crash is not
// taken twice.
type Request struct {
	Name  string
	Kind  string
	Nodes string // hostlist
	At    time.Time
}

// LaunchState is where a launch is in its life.
type LaunchState string

// The states of a launch.
const (
	Launching LaunchState = "launching" // instances are being bought or are booting
	Ready     LaunchState = "ready"     // every node has registered
	Failing   LaunchState = "failing"   // given up; its nodes and job are being put back
	Failed    LaunchState = "failed"    // put back, the reason is kept
	Released  LaunchState = "released"  // Slurm powered its nodes down before they were ready
)

// Launch is the set of nodes of one job, or one node of no job (JobID 0).
type Launch struct {
	ID        string
	JobID     int
	Tier      string // empty: no job, or a QOS in no tier
	QOS       string
	User      string
	Account   string
	Partition string
	// Round counts the launches of this job that failed in a row before this
	// one, from 0.
	Round   int
	State   LaunchState
	Class   cloud.Class // why it failed
	Message string      // the sentence people see
	// RequestedAt is when Slurm's hook wrote the request; zero: nobody asked,
	// such as for instances found by their tags.
	RequestedAt time.Time
	RetryAt     time.Time // when the job may start again; zero: not requeued by midair
	CreatedAt   time.Time
	EndedAt     time.Time // ready, failed or released
	Nodes       []LaunchNode
}

// LaunchNode is one node of a launch.
type LaunchNode struct {
	Node       string
	Generation int
	Pool       string
	Provider   string
	InstanceID string // empty until bought
	Addressed  bool   // NodeAddr has been set in Slurm
}

// IntentNode is one node of an intent.
type IntentNode struct {
	Node       string `json:"node"`
	Generation int    `json:"generation"`
	Launch     string `json:"launch"`
}

// Intent is a create call that is about to be made or has been made. It is
// committed before the cloud is called; while it is open its outcome is not
// known and the same call is repeated with the same token.
type Intent struct {
	Token        string
	Provider     string
	Pool         string
	Offerings    []cloud.Offering
	Nodes        []IntentNode
	AllOrNothing bool
	Open         bool
	CreatedAt    time.Time
	ClosedAt     time.Time
}

// InstanceState is where an instance is, as far as midair knows.
type InstanceState string

// The states of an instance in the ledger.
const (
	Live        InstanceState = "live"
	Terminating InstanceState = "terminating" // midair wants it gone; repeated until the cloud accepts
	Ended       InstanceState = "ended"
)

// Instance is one instance that was ever bought.
type Instance struct {
	Provider   string
	ID         string
	Node       string
	Generation int
	Launch     string
	Token      string
	Pool       string
	Offering   cloud.Offering
	Addr       string
	HostName   string
	Price      cloud.MicroUSD // per instance-hour when it was bought
	State      InstanceState
	CreatedAt  time.Time
	ReadyAt    time.Time // its node registered
	EndedAt    time.Time // billing stopped; zero once ended: when is not known
	EndCause   string    // why it was terminated or ended
	Console    string    // boot output, kept when it failed to register
}

// Failure is one thing that went wrong, kept for `midair why`.
type Failure struct {
	At       time.Time
	Launch   string // may be empty
	JobID    int    // 0: none
	Pool     string
	Provider string
	Offering string // key; empty where no single offering is to blame
	Class    cloud.Class
	Code     string
	Message  string
	Nodes    string // hostlist
}

// MemoryEntry remembers that an offering failed, until Until.
type MemoryEntry struct {
	Provider string
	Offering cloud.Offering
	Pool     string // it holds for this pool only; empty: for all
	Class    cloud.Class
	Message  string
	Nodes    int // it holds for all-or-nothing launches of so many nodes or more; 0 and 1: for every launch
	Failures int // in a row
	Since    time.Time
	Until    time.Time
}
