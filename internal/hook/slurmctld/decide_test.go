package slurmctld

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/slurm"
)

func TestAJobIsHeldOnlyWhileItWaitsForTheseNodes(t *testing.T) {
	h := held{id: 7, all: []string{"onp-1", "spot-1", "spot-2"}, bought: []string{"spot-1", "spot-2"}}
	job := func(state, nodes string) []slurm.Job { return []slurm.Job{{ID: 7, State: state, Nodes: nodes}} }
	for name, c := range map[string]struct {
		jobs []slurm.Job
		gone bool
	}{
		"configuring":                     {job("CONFIGURING", "onp-1,spot-[1-2]"), false},
		"running":                         {job("RUNNING", "spot-[1-2],onp-1"), false},
		"node names cannot be read":       {job("CONFIGURING", "spot-[1-"), false},
		"a task of the same array beside": {append([]slurm.Job{{ID: 6, State: "PENDING"}}, job("CONFIGURING", "onp-1,spot-[1-2]")...), false},
		"forgotten":                       {nil, true},
		"only another job":                {[]slurm.Job{{ID: 6, State: "CONFIGURING", Nodes: "onp-1,spot-[1-2]"}}, true},
		"requeued":                        {job("PENDING", ""), true},
		"cancelled":                       {job("CANCELLED", "onp-1,spot-[1-2]"), true},
		"completing":                      {job("COMPLETING", "onp-1,spot-[1-2]"), true},
		"held for requeue":                {job("REQUEUE_HOLD", ""), true},
		"of a version that is to come":    {job("NEW_STATE", "onp-1,spot-[1-2]"), true},
		"started anew on other nodes":     {job("CONFIGURING", "onp-1,spot-[1,3]"), true},
		"on more nodes":                   {job("CONFIGURING", "onp-1,spot-[1-3]"), true},
		"on fewer nodes":                  {job("CONFIGURING", "spot-[1-2]"), true},
		"on none":                         {job("CONFIGURING", ""), true},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.gone, h.gone(c.jobs)) })
	}
}

func TestNodesAreReadyWhenAllBoughtOnesHaveRegistered(t *testing.T) {
	h := held{id: 7, all: []string{"onp-1", "spot-1", "spot-2"}, bought: []string{"spot-1", "spot-2"}}
	node := func(name, state string) slurm.Node { return slurm.Node{Name: name, State: slurm.ParseStates(state)} }
	for name, c := range map[string]struct {
		nodes []slurm.Node
		ready bool
	}{
		"all":                   {[]slurm.Node{node("spot-1", "ALLOCATED+CLOUD"), node("spot-2", "MIXED+CLOUD")}, true},
		"drained meanwhile":     {[]slurm.Node{node("spot-1", "ALLOCATED+CLOUD+DRAIN"), node("spot-2", "MIXED+CLOUD")}, true},
		"one boots":             {[]slurm.Node{node("spot-1", "ALLOCATED+CLOUD"), node("spot-2", "ALLOCATED+CLOUD+NOT_RESPONDING+POWERING_UP")}, false},
		"one is down":           {[]slurm.Node{node("spot-1", "ALLOCATED+CLOUD"), node("spot-2", "DOWN+CLOUD")}, false},
		"one is not answering":  {[]slurm.Node{node("spot-1", "ALLOCATED+CLOUD"), node("spot-2", "ALLOCATED*+CLOUD")}, false},
		"Slurm has no such one": {[]slurm.Node{node("spot-1", "ALLOCATED+CLOUD")}, false},
		"Slurm has none":        {nil, false},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, c.ready, h.registered(c.nodes)) })
	}
}
