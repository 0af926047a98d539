// Package cloud says what midair asks of a cloud: launch these nodes from
// these offerings, list what is there, take it away again. Each provider is a
// sub-package and passes the one conformance suite in cloud/cloudtest.
//
// Words: an offering is instance type × zone × market; an instance carries one
// Slurm node; a generation counts how many times a node has been launched; a
// launch is the set of nodes of one job, or one node of no job.
package cloud

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// Market is how an instance is paid for.
type Market string

// The markets midair buys on.
const (
	OnDemand Market = "on-demand"
	Spot     Market = "spot"
	Reserved Market = "reserved"
)

// Markets lists every market, in the order people expect to read them.
var Markets = []Market{OnDemand, Spot, Reserved}

// Offering is one thing a cloud sells: an instance type in a zone on a market.
type Offering struct {
	Type   string
	Zone   string
	Market Market
}

// Key is the offering's name in the ledger, in reasons and on the command
// line: "type/zone/market".
func (o Offering) Key() string { return o.Type + "/" + o.Zone + "/" + string(o.Market) }

func (o Offering) String() string { return o.Key() }

// ParseOffering reads what Key wrote.
func ParseOffering(key string) (Offering, error) {
	parts := strings.Split(key, "/")
	if len(parts) != 3 || parts[0] == "" || parts[1] == "" || parts[2] == "" {
		return Offering{}, fmt.Errorf("read offering %q: want type/zone/market, such as g1.small/zone-a/spot", key)
	}
	o := Offering{Type: parts[0], Zone: parts[1], Market: Market(parts[2])}
	for _, m := range Markets {
		if o.Market == m {
			return o, nil
		}
	}
	return Offering{}, fmt.Errorf("read offering %q: market %q is none of on-demand, spot, reserved", key, parts[2])
}

// MicroUSD is money in millionths of a US dollar. Prices are per instance-hour.
type MicroUSD int64

// Quote is what a provider knows about an offering before anything is bought.
type Quote struct {
	Offering Offering
	// Price of one instance-hour.
	Price MicroUSD
	// CPUs and MemoryMiB that an instance of this type gives to Slurm; 0 where
	// the provider cannot tell.
	CPUs, MemoryMiB, GPUs int
}

// Tags travel in the create call itself, so that an instance whose answer was
// lost can still be traced to its cluster, node and launch. Where one create
// call makes several instances with the same tags (EC2), those that differ from
// node to node are written by Name.
const (
	TagCluster    = "midair:cluster"
	TagNode       = "midair:node"
	TagNodes      = "midair:nodes" // the node set of the create call, a hostlist
	TagGeneration = "midair:generation"
	TagLaunch     = "midair:launch"
	TagToken      = "midair:token"
	TagPool       = "midair:pool"
	TagTier       = "midair:tier"
	TagJob        = "midair:job"
	TagAccount    = "midair:account"
	TagUser       = "midair:user"
)

// NodeRequest is one Slurm node to be carried by one instance.
type NodeRequest struct {
	Name       string
	Generation int
	// Launch is the ledger's id of the launch the node belongs to.
	Launch string
	// Tags beside those the provider derives from the fields above.
	Tags map[string]string
}

// LaunchRequest asks for one instance per node.
type LaunchRequest struct {
	// Token makes the request idempotent: the same token gives the same
	// instances, however often it is asked and across restarts of both sides.
	Token   string
	Cluster string
	Pool    string
	Nodes   []NodeRequest
	// Offerings the provider may choose among, best first. With one offering
	// there is no choice; with several and AllOrNothing all instances still
	// come from one of them.
	Offerings []Offering
	// AllOrNothing: either every node gets an instance or none does.
	AllOrNothing bool
	// CPUs, MemoryMiB and GPUs that the pool has promised to Slurm. A smaller
	// instance type is a spec-mismatch, never a launch.
	CPUs, MemoryMiB, GPUs int
}

// InstanceState is where an instance is in its life.
type InstanceState string

// The states, in EC2's words.
const (
	Pending      InstanceState = "pending"
	Running      InstanceState = "running"
	Stopping     InstanceState = "stopping" // also on its way into hibernation
	Stopped      InstanceState = "stopped"  // also hibernated: only its disks are billed
	ShuttingDown InstanceState = "shutting-down"
	Terminated   InstanceState = "terminated"
)

// Instance is one machine the cloud gave us.
type Instance struct {
	ID         string
	Node       string
	Generation int
	Launch     string
	Token      string
	Pool       string
	Offering   Offering
	// Addr is the address slurmd registers from; may be empty for a moment
	// after Launch where the provider's API lags.
	Addr string
	// HostName is what the instance calls itself; empty: the node's name.
	HostName   string
	State      InstanceState
	CreatedAt  time.Time
	EndedAt    time.Time // zero while it is billed
	Tags       map[string]string
	StateCause string // why it ended, in the provider's words, if it says
	// Reclaimed: the cloud took it back, such as by a spot interruption.
	Reclaimed bool
}

// Live reports whether the instance is there and billed.
func (i Instance) Live() bool { return i.State == Pending || i.State == Running }

// Shortfall says why nodes of a request got no instance from an offering.
type Shortfall struct {
	Offering Offering
	// Nodes is how many nodes this offering failed to serve.
	Nodes int
	Err   *Error
}

// LaunchResult is a definite answer. Nodes of the request without an instance
// are explained by the shortfalls; a result may hold both (partial success),
// but with AllOrNothing instances cover all nodes or none.
type LaunchResult struct {
	Instances  []Instance
	Shortfalls []Shortfall
}

// Provider is a cloud. Implementations are safe for concurrent use.
type Provider interface {
	// Launch creates one instance per node, tagged in the create call.
	//
	// A nil error is a definite answer: what is in the result is what exists
	// for this token. An error is an *Error and means that nothing definite is
	// known or nothing was tried: if Ambiguous, instances may exist and the
	// caller repeats the same request with the same token until the answer is
	// definite; class throttled is repeated the same way after a pause; other
	// classes are final and nothing was created. Launch itself does not retry
	// shortages: falling back to another offering is a new request with a new
	// token, and the caller's decision.
	//
	// Repeating a token gives the instances of the first call, also those that
	// have ended since. A known token with other nodes or offerings is an
	// error of class config.
	Launch(ctx context.Context, r LaunchRequest) (LaunchResult, error)

	// List gives every instance tagged with the cluster, live or ended within
	// about the last hour. It may lag behind Launch: absence is no proof. An
	// odd item is left out and reported in the log, never an error for all. An
	// instance that has not been named yet has no Node, Generation or Launch,
	// but its Token.
	List(ctx context.Context, cluster string) ([]Instance, error)

	// Terminate asks for the instances to be ended and returns when the cloud
	// has accepted, not when they are gone. Ids that are unknown or have ended
	// are success, so the caller repeats the whole call after any error.
	Terminate(ctx context.Context, ids []string) error

	// Quotes gives price and size for the offerings asked for, in that order.
	// An offering that the provider does not sell is an error of class config
	// naming it.
	Quotes(ctx context.Context, offerings []Offering) ([]Quote, error)

	// Name writes onto instances what their create call could not say of each:
	// node, generation, launch and Tags. The caller makes it after every
	// Launch, and again for live instances that List gives without a Node; a
	// call may take long, since it is kept to the cloud's rate. Repeating it is
	// harmless. A provider whose create call says everything does nothing.
	Name(ctx context.Context, instances []Instance) error

	// Console gives the last of the instance's boot output, for people to see
	// why a node never registered. Empty without error where there is none.
	Console(ctx context.Context, id string) (string, error)
}
