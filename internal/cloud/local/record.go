package local

import (
	"net/netip"
	"strconv"
	"time"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/cloud/cells"
)

type process = cells.Process

// record is one instance on disk. It is written before its cell starts.
type record struct {
	ID         string            `json:"id"`
	Cluster    string            `json:"cluster"`
	Node       string            `json:"node"`
	Generation int               `json:"generation"`
	Launch     string            `json:"launch"`
	Token      string            `json:"token"`
	Pool       string            `json:"pool"`
	Offering   cloud.Offering    `json:"offering"`
	CPUs       int               `json:"cpus"`
	Addr       netip.Addr        `json:"addr"`
	Tags       map[string]string `json:"tags"`
	CreatedAt  time.Time         `json:"created_at"`
	BootDelay  Duration          `json:"boot_delay"`  // from CreatedAt to running
	NoRegister bool              `json:"no_register"` // the fault: it boots without slurmd

	Process *process  `json:"process,omitempty"` // nil until its cell has started
	EndedAt time.Time `json:"ended_at,omitzero"` // billing stopped
	Cause   string    `json:"cause,omitempty"`
	GoneAt  time.Time `json:"gone_at,omitzero"` // when it is killed: EndedAt, or later with a slow delete
	Gone    bool      `json:"gone"`             // it has been killed
}

func (r *record) live() bool { return r.EndedAt.IsZero() }

func (r *record) runsAt() time.Time { return r.CreatedAt.Add(time.Duration(r.BootDelay)) }

func (r *record) state(now time.Time) cloud.InstanceState {
	switch {
	case r.Gone:
		return cloud.Terminated
	case !r.live():
		return cloud.ShuttingDown
	case r.Process == nil || now.Before(r.runsAt()):
		return cloud.Pending
	}
	return cloud.Running
}

func (r *record) instance(now time.Time) cloud.Instance {
	tags := map[string]string{}
	for k, v := range r.Tags {
		tags[k] = v
	}
	return cloud.Instance{
		ID: r.ID, Node: r.Node, Generation: r.Generation, Launch: r.Launch, Token: r.Token, Pool: r.Pool, Offering: r.Offering,
		Addr: r.Addr.String(), HostName: r.Node, State: r.state(now), CreatedAt: r.CreatedAt, EndedAt: r.EndedAt,
		Tags: tags, StateCause: r.Cause,
	}
}

// tagsOf gives the tags of a node's instance: what the request says, and what
// the caller adds.
func tagsOf(r cloud.LaunchRequest, n cloud.NodeRequest) map[string]string {
	tags := map[string]string{}
	for k, v := range n.Tags {
		tags[k] = v
	}
	tags[cloud.TagCluster] = r.Cluster
	tags[cloud.TagNode] = n.Name
	tags[cloud.TagGeneration] = strconv.Itoa(n.Generation)
	tags[cloud.TagLaunch] = n.Launch
	tags[cloud.TagToken] = r.Token
	tags[cloud.TagPool] = r.Pool
	return tags
}
