// Package config reads midair.yaml: one file, strict, so that a typing error is
// found when the admin runs `midair config check` and not when a job fails.
package config

import (
	"strings"
	"time"

	"github.com/midair-hpc/midair/internal/cloud"
)

// DefaultPath is where every program of midair looks for its configuration;
// EnvPath overrides it.
const (
	DefaultPath = "/etc/midair/midair.yaml"
	EnvPath     = "MIDAIR_CONFIG"
)

// Config is a checked midair.yaml with its defaults filled in. Load and Parse
// make it; afterwards it is only read, so it may be shared.
type Config struct {
	Path    string // the file it was read from
	Cluster string // Slurm's ClusterName
	Ledger  string // file path of the SQLite ledger (from sqlite:///PATH)
	HookLog string // where the hooks log beside syslog

	Slurm     Slurm
	Hooks     Hooks
	Providers []Provider // in file order
	Pools     []Pool     // in file order
	Tiers     []Tier     // in file order
	Retry     Retry
	Memory    Memory
	Reconcile Reconcile

	// Warnings are about settings that are allowed but probably not meant, one
	// line each that starts with file, line and column.
	Warnings []string

	// Set by Parse; nil in a Config made by hand, where PoolOf and TierOf search.
	poolByNode map[string]int
	tierByQOS  map[string]int
}

// Slurm says how Slurm is reached.
type Slurm struct {
	BinDir string // folder of scontrol, squeue, …; empty: the usual places are searched
	Conf   string // SLURM_CONF for the commands; empty: Slurm's default
}

// Hooks configures midair-slurmctld-hook.
type Hooks struct {
	PrologSlurmctld string        // the site's own program, run as well; empty: none
	EpilogSlurmctld string        // the same
	WaitLimit       time.Duration // bound on holding a job until its nodes have registered
}

// Provider is one cloud account or region, or the embedded local one.
type Provider struct {
	Name  string
	Kind  string // "local" or "aws"
	Local Local  // for kind local
	AWS   AWS    // for kind aws
}

// AWS configures one account in one region.
type AWS struct {
	Region string
	// Endpoint is the base URL of the API in place of AWS's own, for all of EC2,
	// Service Quotas, the price list and STS: a VPC endpoint, or a stand-in.
	Endpoint string
	// Profile and CredentialsFile say where credentials come from; empty: the
	// SDK's usual chain (environment, shared files, instance role).
	Profile, CredentialsFile string
	// LaunchTemplate is the name or id (lt-…) of the template every launch
	// starts from, optionally with :VERSION; a pool may name its own.
	LaunchTemplate string
	Subnets        map[string][]string // zone → subnet ids
	// SpotAllocation is EC2's word for how CreateFleet chooses among spot
	// offerings; default price-capacity-optimized.
	SpotAllocation string
	// PriceFile is a JSON file of prices for where the price list cannot be
	// reached; empty: none.
	PriceFile    string
	Reservations []Reservation // what the market "reserved" buys from
}

// Reservation is an On-Demand Capacity Reservation or a capacity block.
type Reservation struct {
	ID    string // cr-…
	Type  string
	Zone  string
	Block bool // a capacity block
}

// Local configures the embedded provider, whose instances are network
// namespaces on this machine.
type Local struct {
	Root      string        // registry and instance folders
	Network   string        // IPv4 prefix of the instances' network, such as 10.213.0.0/22
	BootDelay time.Duration // from create to slurmd starting
	Slurmd    string        // path of slurmd
	Types     []LocalType   // in file order
}

// LocalType is an instance type of the local provider.
type LocalType struct {
	Name      string
	CPUs      int
	MemoryMiB int
	GPUs      int
	Prices    map[cloud.Market]cloud.MicroUSD // per instance-hour
}

// Pool is a set of Slurm nodes with one specification.
type Pool struct {
	Name      string
	Nodes     string   // the hostlist as written
	NodeNames []string // the same, expanded
	Provider  string
	Node      NodeSpec
	Offerings []cloud.Offering // expanded and in order of preference: list entry by entry; within an entry market by market, then zone, then type
	// Entries says, for each offering, which entry of the list it is from. Within
	// an entry and a market the price decides.
	Entries []int
	Weight  int // Slurm's Weight for slurmconf; default 100
	// Placement says how far apart the nodes of one job may be.
	Placement Placement
	// Locality (by zone) and Interconnect (by type) are factors on the price for
	// comparing offerings, not for the bill: 0.8 makes an offering count as a
	// fifth cheaper because the data is there or the fabric is fast. A zone or
	// type that is not in them has 1.
	Locality, Interconnect map[string]float64
	AWS                    PoolAWS // for a provider of kind aws
	// SuspendTime, ResumeTimeout and SuspendTimeout of the pool's partition, for
	// slurmconf; the names and meanings are Slurm's.
	SuspendTime, ResumeTimeout, SuspendTimeout time.Duration
}

// Placement is how far apart the nodes of a multi-node job may be.
type Placement string

// The placements.
const (
	PlaceAny   Placement = "any"   // several zones and types may be mixed
	PlaceZone  Placement = "zone"  // one type in one zone; the default
	PlaceGroup Placement = "group" // the same, and the launch template has a placement group
)

// PoolAWS is what a pool says to a provider of kind aws.
type PoolAWS struct {
	LaunchTemplate string // in place of the provider's; empty: that one
}

// NodeSpec is what a pool promises to Slurm about each of its nodes.
type NodeSpec struct {
	CPUs      int
	MemoryMiB int
	Gres      []Gres
	Features  []string
}

// Gres is one entry of a node's Gres, such as gpu:a100:8.
type Gres struct {
	Name, Type string
	Count      int
}

// GPUs is the number of GPUs among the node's Gres.
func (s NodeSpec) GPUs() int {
	n := 0
	for _, g := range s.Gres {
		if g.Name == "gpu" {
			n += g.Count
		}
	}
	return n
}

// Tier is what a QOS buys: where its jobs may run.
type Tier struct {
	Name       string
	QOS        []string // in lower case, as Slurm keeps them
	Partitions []string // those that are no pool's are on the premises
	// Markets in the order in which they are tried; empty: as the pool's
	// offerings list them. A market that is not in it is not bought on.
	Markets []cloud.Market
	// WhenOutOfStock says what happens when the first market has nothing left.
	WhenOutOfStock WhenOut
	// FallbackAfter is how long a job waits on its first market (fallback);
	// DeadlineMargin is how long before the last moment at which a job can
	// start and still meet its deadline the others are tried (deadline).
	FallbackAfter, DeadlineMargin time.Duration
}

// WhenOut is a tier's policy when its first market is out of stock.
type WhenOut string

// The policies.
const (
	Fallback WhenOut = "fallback" // the other markets too, once the job has waited for FallbackAfter; the default, with 0
	Pause    WhenOut = "pause"    // only the first market: the job waits until capacity memory ends
	Deadline WhenOut = "deadline" // the other markets only when the job's deadline needs it
)

// Retry bounds what happens to a job whose nodes could not be had: it is
// requeued with a start time of now + First, doubling up to Max, at most Rounds
// times, and then held.
type Retry struct {
	First, Max time.Duration
	Rounds     int
}

// Memory bounds how long a failed offering is passed over: First after the
// first failure, doubling with each further one in a row, up to Max.
type Memory struct {
	First, Max time.Duration
	// InitFailures is how many launches in a row must fail to become nodes
	// before their offering is passed over; default 3. After that one launch at
	// a time tries it until one succeeds.
	InitFailures int
}

// Reconcile bounds the reconciler.
type Reconcile struct {
	Every           time.Duration // between passes
	Grace           time.Duration // how old an instance must be before it can be an orphan
	MaxTerminations int           // per pass
}

// PoolOf gives the pool that a node belongs to. The pool is c's own.
func (c *Config) PoolOf(node string) (*Pool, bool) {
	if c.poolByNode != nil {
		i, ok := c.poolByNode[node]
		if !ok {
			return nil, false
		}
		return &c.Pools[i], true
	}
	for i := range c.Pools {
		for _, n := range c.Pools[i].NodeNames {
			if n == node {
				return &c.Pools[i], true
			}
		}
	}
	return nil, false
}

// TierOf gives the tier that a QOS belongs to. Slurm compares QOS names without
// regard to case (assoc_mgr_fill_in_qos), and so does TierOf.
func (c *Config) TierOf(qos string) (*Tier, bool) {
	qos = strings.ToLower(qos)
	if c.tierByQOS != nil {
		i, ok := c.tierByQOS[qos]
		if !ok {
			return nil, false
		}
		return &c.Tiers[i], true
	}
	for i := range c.Tiers {
		for _, q := range c.Tiers[i].QOS {
			if strings.ToLower(q) == qos {
				return &c.Tiers[i], true
			}
		}
	}
	return nil, false
}

// PoolNamed gives the pool of that name, which is also the name of its
// partition.
func (c *Config) PoolNamed(name string) (*Pool, bool) {
	for i := range c.Pools {
		if c.Pools[i].Name == name {
			return &c.Pools[i], true
		}
	}
	return nil, false
}

// ProviderNamed gives the provider of that name.
func (c *Config) ProviderNamed(name string) (*Provider, bool) {
	for i := range c.Providers {
		if c.Providers[i].Name == name {
			return &c.Providers[i], true
		}
	}
	return nil, false
}
