package controller

import (
	"context"
	"time"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/hostlist"
	"github.com/midair-hpc/midair/internal/ledger"
	"github.com/midair-hpc/midair/internal/planner"
	"github.com/midair-hpc/midair/internal/slurm"
	"github.com/midair-hpc/midair/internal/spool"
)

// intake takes the hooks' records from the spool, in the order they were
// written, and turns them into launches and terminations on record.
func (c *Controller) intake(ctx context.Context) {
	records, bad, err := spool.Read(c.SpoolDir)
	if err != nil {
		c.Log.Error("read the spool", "err", err)
		return
	}
	for _, b := range bad {
		c.Log.Error("read spool record; it is moved to the folder bad", "record", b.Name, "err", b.Err)
		if err := spool.Quarantine(c.SpoolDir, b.Name); err != nil {
			c.Log.Error("move spool record aside", "record", b.Name, "err", err)
		}
	}
	if len(records) == 0 {
		return
	}
	names := make([]string, len(records))
	for i, r := range records {
		names[i] = r.Name
	}
	known, err := c.Ledger.KnownRequests(ctx, names)
	if err != nil {
		c.Log.Error("look up requests in the ledger", "err", err)
		return
	}
	for i := 0; i < len(records); {
		if known[records[i].Name] {
			c.removeRecords(records[i : i+1])
			i++
			continue
		}
		// Requests of one kind that follow each other are taken together, so
		// that Slurm is asked once for all of them.
		j := i + 1
		for j < len(records) && records[j].Kind == records[i].Kind && !known[records[j].Name] {
			j++
		}
		if !c.take(ctx, records[i:j]) {
			return // Slurm or the ledger did not answer: all later ones wait, order matters
		}
		i = j
	}
}

func (c *Controller) take(ctx context.Context, batch []spool.Record) bool {
	switch batch[0].Kind {
	case spool.Resume:
		return c.takeResumes(ctx, batch)
	case spool.Suspend:
		return c.takeSuspends(ctx, batch)
	case spool.Fail:
		return c.takeFails(ctx, batch)
	case spool.Epilog:
		return c.record(ctx, batch, "job end", nil)
	}
	c.Log.Error("spool record of a kind this version does not know", "record", batch[0].Name, "kind", batch[0].Kind)
	return c.record(ctx, batch, "unknown request", nil)
}

// record commits the requests together with what follows from them, then
// removes them from the spool.
func (c *Controller) record(ctx context.Context, batch []spool.Record, what string, more func(tx *ledger.Tx) error) bool {
	reqs := make([]ledger.Request, len(batch))
	for i, r := range batch {
		reqs[i] = ledger.Request{Name: r.Name, Kind: string(r.Kind), Nodes: r.Nodes, At: r.At}
	}
	ok := c.update(ctx, what, func(tx *ledger.Tx) error {
		if err := tx.AddRequests(reqs); err != nil {
			return err
		}
		if more == nil {
			return nil
		}
		return more(tx)
	})
	if !ok {
		return false
	}
	switch batch[0].Kind {
	case spool.Resume:
		c.Crash("launch-planned")
	case spool.Suspend:
		c.Crash("suspend-recorded")
	}
	c.removeRecords(batch)
	c.Crash("request-removed")
	return true
}

func (c *Controller) removeRecords(batch []spool.Record) {
	for _, r := range batch {
		if err := spool.Remove(c.SpoolDir, r.Name); err != nil {
			c.Log.Error("remove spool record", "record", r.Name, "err", err)
		}
	}
}

// expand reads the records' host lists. A list that cannot be read is logged
// and skipped: the nodes in it are Slurm's to fail by ResumeTimeout.
func (c *Controller) expand(batch []spool.Record) []string {
	var nodes []string
	seen := map[string]bool{}
	for _, r := range batch {
		names, err := hostlist.Expand(r.Nodes)
		if err != nil {
			c.Log.Error("read host list of a request", "record", r.Name, "err", err)
			continue
		}
		for _, n := range names {
			if !seen[n] {
				seen[n] = true
				nodes = append(nodes, n)
			}
		}
	}
	return nodes
}

func (c *Controller) takeResumes(ctx context.Context, batch []spool.Record) bool {
	if !c.slurmAnswers() {
		return false
	}
	c.Crash("request-read")
	req := planner.Request{Nodes: c.expand(batch)}
	var ids []int
	for _, r := range batch {
		for _, j := range c.jobsOf(r) {
			req.Jobs = append(req.Jobs, j)
			ids = append(ids, j.JobID)
		}
	}
	nodes, err := c.Slurm.Nodes(ctx, req.Nodes...)
	if err != nil {
		c.slurmFailed("ask Slurm for the nodes to power up", err)
		return false
	}
	var jobs []slurm.Job
	if len(ids) > 0 {
		if jobs, err = c.Slurm.Jobs(ctx, ids...); err != nil {
			c.slurmFailed("ask Slurm for the jobs to power up for", err)
			return false
		}
	}
	infos, err := c.jobInfos(ctx, jobs)
	if err != nil {
		c.Log.Error("look up earlier launches in the ledger", "err", err)
		return false
	}
	busy, stale := c.alreadyLaunched(req.Nodes, nodes)
	launches, strangers := planner.Launches(req, infos, c.poolOf, busy)
	launches = refuseStrangers(launches, strangers, req.Jobs, infos)
	requested := requestTimes(batch)
	for i := range launches {
		launches[i].RequestedAt = requested(launches[i].Nodes)
	}
	if err := c.number(ctx, launches); err != nil {
		c.Log.Error("look up generations in the ledger", "err", err)
		return false
	}
	if !c.releaseUnwanted(ctx, launches, nodes, jobs) {
		return false
	}
	ok := c.record(ctx, batch, "launches", func(tx *ledger.Tx) error {
		for p, ids := range stale {
			if err := tx.SetTerminating(p, ids, "replaced: its node was powered up again"); err != nil {
				return err
			}
		}
		return tx.AddLaunches(launches)
	})
	if !ok {
		return false
	}
	for p, ids := range stale {
		c.markTerminating(p, ids, "replaced: its node was powered up again")
	}
	for _, l := range launches {
		c.Log.Info("launch", "launch", l.ID, "job", l.JobID, "nodes", hostlist.FoldSorted(nodeNames(l.Nodes)), "tier", l.Tier, "round", l.Round, "state", l.State)
		if l.State == ledger.Released {
			continue
		}
		if l.State == ledger.Failing {
			c.Log.Error("launch is refused", "launch", l.ID, "job", l.JobID, "err", l.Message)
		}
		c.track(l).seen = true
	}
	return true
}

// requestTimes tells when the hook wrote the first request for any of the nodes.
func requestTimes(batch []spool.Record) func([]ledger.LaunchNode) time.Time {
	at := map[string]time.Time{}
	for _, r := range batch {
		names, err := hostlist.Expand(r.Nodes)
		if err != nil {
			continue // logged where the nodes are read
		}
		for _, n := range names {
			if _, ok := at[n]; !ok {
				at[n] = r.At
			}
		}
	}
	return func(nodes []ledger.LaunchNode) time.Time {
		first := batch[0].At
		for i, n := range nodes {
			if t, ok := at[n.Node]; ok && (i == 0 || t.Before(first)) {
				first = t
			}
		}
		return first
	}
}

func (c *Controller) jobsOf(r spool.Record) []planner.JobNodes {
	if r.ResumeFileError != "" {
		c.Log.Warn("request without a resume file: its nodes are launched one by one", "record", r.Name, "err", r.ResumeFileError)
	}
	if r.ResumeFile == "" {
		return nil
	}
	f, err := slurm.ParseResumeFile([]byte(r.ResumeFile))
	if err != nil {
		c.Log.Error("read the resume file: its nodes are launched one by one", "record", r.Name, "err", err)
		return nil
	}
	var jobs []planner.JobNodes
	for _, j := range f.Jobs {
		names, err := hostlist.Expand(j.NodesResume)
		if err != nil {
			c.Log.Error("read a job's host list in the resume file", "record", r.Name, "job", j.JobID, "err", err)
			continue
		}
		jobs = append(jobs, planner.JobNodes{JobID: j.JobID, Nodes: names})
	}
	return jobs
}

func (c *Controller) jobInfos(ctx context.Context, jobs []slurm.Job) (map[int]planner.JobInfo, error) {
	infos := map[int]planner.JobInfo{}
	for _, j := range jobs {
		info := planner.JobInfo{JobID: j.ID, QOS: j.QOS, User: j.User, Account: j.Account, Partition: j.Partition}
		var free []cloud.Class // failures that are no rounds
		if t, ok := c.Config.TierOf(j.QOS); ok {
			info.Tier = t.Name
			if p := c.policies[t.Name]; p.WhenOut == planner.Pause || needsPatience(p) {
				free = append(free, cloud.OutOfStock)
			}
		}
		var err error
		if info.Round, err = c.Ledger.FailedRounds(ctx, j.ID, free...); err != nil {
			return nil, err
		}
		infos[j.ID] = info
	}
	return infos, nil
}

// alreadyLaunched gives the nodes of a request that need no launch: Slurm does
// not power them up (a call by hand), or they have been launched for this
// power-up (slurmctld asks twice after a crash). A node that has registered
// before and is powered up again has lost a power-down: its old instance is
// stale, since slurmctld ignores a registration older than the power-up.
func (c *Controller) alreadyLaunched(names []string, nodes []slurm.Node) (busy map[string]bool, stale map[string][]string) {
	busy, stale = map[string]bool{}, map[string][]string{}
	up := map[string]bool{}
	for _, n := range nodes {
		up[n.Name] = n.State.PoweringUp()
	}
	byNode := map[string][]*ledger.Instance{}
	for _, i := range c.instances {
		byNode[i.Node] = append(byNode[i.Node], i)
	}
	var unasked, launched []string
	for _, n := range names {
		if !up[n] {
			busy[n] = true
			unasked = append(unasked, n)
			continue
		}
		if l := c.nodes[n]; l != nil && l.State == ledger.Launching && !l.parked[n] && !c.isEnding(l, n) {
			busy[n] = true
			launched = append(launched, n)
			continue
		}
		for _, i := range byNode[n] {
			if i.State == ledger.Live {
				stale[i.Provider] = append(stale[i.Provider], i.ID)
			}
		}
	}
	if len(unasked) > 0 {
		c.Log.Warn("request for nodes that Slurm is not powering up: nothing is bought", "nodes", hostlist.FoldSorted(unasked))
	}
	if len(launched) > 0 {
		c.Log.Info("request for nodes that are being launched already", "nodes", hostlist.FoldSorted(launched))
	}
	return busy, stale
}

// isEnding: the instance that a launch has for a node is on its way out, as
// after a power-down whose record was taken just before a crash.
func (c *Controller) isEnding(l *launch, node string) bool {
	for _, n := range l.Nodes {
		if n.Node == node && n.InstanceID != "" {
			i := c.instances[instanceKey{n.Provider, n.InstanceID}]
			return i == nil || i.State != ledger.Live
		}
	}
	return false
}

// number gives new launches their ids, times and generations.
func (c *Controller) number(ctx context.Context, launches []ledger.Launch) error {
	var names []string
	for _, l := range launches {
		names = append(names, nodeNames(l.Nodes)...)
	}
	gens, err := c.Ledger.Generations(ctx, names)
	if err != nil {
		return err
	}
	for i := range launches {
		l := &launches[i]
		l.ID, l.CreatedAt = c.NewID(), c.Now()
		for k := range l.Nodes {
			l.Nodes[k].Generation = gens[l.Nodes[k].Node] + 1
		}
	}
	return nil
}

func (c *Controller) poolOf(node string) (planner.Pool, bool) {
	p, ok := c.Config.PoolOf(node)
	if !ok {
		return planner.Pool{}, false
	}
	return c.pool(p.Name), true
}

func (c *Controller) pool(name string) planner.Pool {
	for _, p := range c.pools {
		if p.Name == name {
			return p
		}
	}
	return planner.Pool{Name: name}
}

func nodeNames(nodes []ledger.LaunchNode) []string {
	names := make([]string, len(nodes))
	for i, n := range nodes {
		names[i] = n.Node
	}
	return names
}
