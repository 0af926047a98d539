package cloud

import "context"

// PoolSize is what a pool could ask of its provider at most.
type PoolSize struct {
	Name      string
	Nodes     int
	Offerings []Offering // in order of preference
}

// Limit is a quota of an account: how much of one kind of instance may run on
// a market at a time, and what the pools could ask of it.
type Limit struct {
	Name string `json:"name"` // in the provider's words
	Code string `json:"code"` // the provider's, such as L-417A185B
	// Market that the limit is for; reserved capacity counts as on-demand.
	Market Market `json:"market"`
	Unit   string `json:"unit"` // what is counted, such as vCPU
	// Limit, in use by anybody in the account, and in use by others than the
	// pools' cluster.
	Limit  int `json:"limit"`
	InUse  int `json:"in_use"`
	Others int `json:"others"`
	// Wanted is what the pools could ask for at most, all at once.
	Wanted int      `json:"wanted"`
	Pools  []string `json:"pools"`
	// Request is the limit to request, so that it is never the reason why a
	// node is not there; 0: it is high enough. Command requests it.
	Request int    `json:"request,omitempty"`
	Command string `json:"command,omitempty"`
}

// PoolFit is how many of a pool's nodes the limits allow, when the pools before
// it are full.
type PoolFit struct {
	Pool  string `json:"pool"`
	Nodes int    `json:"nodes"`
	Fit   int    `json:"fit"`
}

// LimitReport is what a provider's limits mean for the pools.
type LimitReport struct {
	Limits []Limit   `json:"limits"`
	Pools  []PoolFit `json:"pools"`
}

// LimitReporter is a provider whose account has limits that can be asked for.
type LimitReporter interface {
	// Limits reports on the pools of a cluster, in their order.
	Limits(ctx context.Context, cluster string, pools []PoolSize) (LimitReport, error)
}
