// Package hold is how midair-slurmctld-hook, as PrologSlurmctld, waits for a
// job's nodes: it asks the controller over a unix socket in the spool folder
// and keeps the connection open until there is an answer. Nothing is left
// behind when either side dies.
package hold

// SocketName is the socket's name in the spool folder.
const SocketName = "controller.sock"

// Question is what the hook asks: one JSON line.
type Question struct {
	JobID int    `json:"job_id"`
	Nodes string `json:"nodes"` // hostlist of the job's bought nodes
}

// Outcome is why the wait is over.
type Outcome string

// The outcomes.
const (
	Ready Outcome = "ready" // every node has registered
	Gone  Outcome = "gone"  // the job was cancelled or requeued, or runs elsewhere
)

// Answer is one JSON line.
type Answer struct {
	Outcome Outcome `json:"outcome"`
}
