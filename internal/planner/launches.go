package planner

import (
	"github.com/midair-hpc/midair/internal/ledger"
)

// Launches turns what Slurm asked for into launches: one per job with all its
// nodes, over all pools, in the order of the jobs; then one per node that is
// in no job, in the order of the request. Nodes in no job are normal (a manual
// power_up, a resume file that could not be read). Ids, generations and times
// are the caller's to fill in.
//
// Only nodes of r.Nodes are launched: what else a job lists is up already. A
// job named twice, as in two requests taken together, is one launch; a node
// named by two jobs belongs to the first. Jobs that are not in infos, because
// they have gone meanwhile, still get a launch, with nothing but their id.
//
// Nodes in live are left out, so that the same request twice launches once: a
// job of which some nodes are live gets a launch of the others. Nodes that
// poolOf does not know and that are not live come back as strangers, in the
// order of r.Nodes.
func Launches(r Request, infos map[int]JobInfo, poolOf func(node string) (Pool, bool), live map[string]bool) (launches []ledger.Launch, strangers []string) {
	wanted := make(map[string]ledger.LaunchNode, len(r.Nodes)) // not yet in a launch
	nodes := make([]string, 0, len(r.Nodes))                   // keys of wanted, in order
	seen := make(map[string]bool, len(r.Nodes))
	for _, n := range r.Nodes {
		if live[n] || seen[n] {
			continue
		}
		seen[n] = true
		p, ok := poolOf(n)
		if !ok {
			strangers = append(strangers, n)
			continue
		}
		wanted[n] = ledger.LaunchNode{Node: n, Pool: p.Name, Provider: p.Provider}
		nodes = append(nodes, n)
	}

	at := make(map[int]int, len(r.Jobs)) // job → index of its launch
	for _, j := range r.Jobs {
		if j.JobID == 0 {
			continue // no job; its nodes are launched one by one
		}
		for _, n := range j.Nodes {
			node, ok := wanted[n]
			if !ok {
				continue
			}
			delete(wanted, n)
			i, ok := at[j.JobID]
			if !ok {
				i = len(launches)
				at[j.JobID] = i
				launches = append(launches, launchOf(j.JobID, infos))
			}
			launches[i].Nodes = append(launches[i].Nodes, node)
		}
	}
	for _, n := range nodes {
		if node, ok := wanted[n]; ok {
			launches = append(launches, ledger.Launch{State: ledger.Launching, Nodes: []ledger.LaunchNode{node}})
		}
	}
	return launches, strangers
}

func launchOf(jobID int, infos map[int]JobInfo) ledger.Launch {
	j := infos[jobID]
	return ledger.Launch{
		JobID: jobID, Tier: j.Tier, QOS: j.QOS, User: j.User, Account: j.Account, Partition: j.Partition,
		Round: j.Round, State: ledger.Launching,
	}
}
