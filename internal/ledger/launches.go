package ledger

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/midair-hpc/midair/internal/cloud"
)

// AddLaunches records launches with their nodes, and raises each node's
// generation to the one given. A launch whose id is on record already is
// ErrExists.
func (tx *Tx) AddLaunches(launches []Launch) error {
	for _, l := range launches {
		res, err := tx.exec(`INSERT INTO launches (id, job_id, tier, qos, user, account, partition, round, state, class, message, requested_at, retry_at, created_at, ended_at)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			l.ID, l.JobID, l.Tier, l.QOS, l.User, l.Account, l.Partition, l.Round, string(l.State), string(l.Class), l.Message,
			nanos(l.RequestedAt), nanos(l.RetryAt), nanos(l.CreatedAt), nanos(l.EndedAt))
		if isDuplicate(err) {
			return tx.fail("record launch %s: %w", l.ID, ErrExists)
		}
		if err != nil {
			return tx.fail("record launch %s: %w", l.ID, err)
		}
		seq, err := res.LastInsertId()
		if err != nil {
			return tx.fail("record launch %s: %w", l.ID, err)
		}
		for pos, n := range l.Nodes {
			_, err := tx.exec(`INSERT INTO launch_nodes (launch, node, pos, generation, pool, provider, instance_id, addressed) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
				seq, n.Node, pos, n.Generation, n.Pool, n.Provider, n.InstanceID, n.Addressed)
			if err == nil {
				err = tx.raise(n.Node, n.Generation)
			}
			if err != nil {
				return tx.fail("record node %s of launch %s: %w", n.Node, l.ID, err)
			}
		}
	}
	return nil
}

// raise makes a node's generation at least the one given.
func (tx *Tx) raise(node string, generation int) error {
	_, err := tx.exec(`INSERT INTO nodes (node, generation) VALUES (?, ?)
		ON CONFLICT (node) DO UPDATE SET generation = excluded.generation WHERE excluded.generation > generation`, node, generation)
	return err
}

// RaiseGenerations raises the generations of nodes to at least those given.
func (tx *Tx) RaiseGenerations(nodes map[string]int) error {
	for n, g := range nodes {
		if err := tx.raise(n, g); err != nil {
			return tx.fail("raise the generation of node %s: %w", n, err)
		}
	}
	return nil
}

// SetLaunch records the state, class, message, retry and end time of a launch
// on record; the rest of l but its id is not looked at.
func (tx *Tx) SetLaunch(l Launch) error {
	hit, err := tx.changed(`UPDATE launches SET state = ?, class = ?, message = ?, retry_at = ?, ended_at = ? WHERE id = ?`,
		string(l.State), string(l.Class), l.Message, nanos(l.RetryAt), nanos(l.EndedAt), l.ID)
	if err != nil {
		return tx.fail("set launch %s to %s: %w", l.ID, l.State, err)
	}
	if !hit {
		return tx.fail("set launch %s to %s: it is not on record", l.ID, l.State)
	}
	return nil
}

// SetAddressed records that Slurm knows the addresses of these nodes of a
// launch. Nodes that are not of the launch are passed over.
func (tx *Tx) SetAddressed(launch string, nodes []string) error {
	names, err := list(nodes)
	if err == nil {
		_, err = tx.exec(`UPDATE launch_nodes SET addressed = 1
			WHERE launch = (SELECT seq FROM launches WHERE id = ?) AND node IN (SELECT value FROM json_each(?))`, launch, names)
	}
	if err != nil {
		return tx.fail("record the addresses of launch %s: %w", launch, err)
	}
	return nil
}

const selectLaunches = `SELECT seq, id, job_id, tier, qos, user, account, partition, round, state, class, message, requested_at, retry_at, created_at, ended_at FROM launches `

// OpenLaunches gives the launches that are launching or failing, with their
// nodes, oldest first.
func (l *Ledger) OpenLaunches(ctx context.Context) ([]Launch, error) {
	return l.launches(ctx, "open launches", `WHERE state IN ('launching', 'failing') ORDER BY created_at, seq`)
}

// LaunchesOfJob gives a job's launches with their nodes, newest first.
func (l *Ledger) LaunchesOfJob(ctx context.Context, jobID int) ([]Launch, error) {
	return l.launches(ctx, fmt.Sprintf("launches of job %d", jobID), `WHERE job_id = ? ORDER BY created_at DESC, seq DESC`, jobID)
}

// RecentLaunches gives at most limit launches with their nodes, newest first.
func (l *Ledger) RecentLaunches(ctx context.Context, limit int) ([]Launch, error) {
	return l.launches(ctx, "recent launches", `ORDER BY created_at DESC, seq DESC LIMIT ?`, max(limit, 0))
}

func (l *Ledger) launches(ctx context.Context, what, which string, args ...any) ([]Launch, error) {
	type row struct {
		Launch
		seq int64
	}
	type node struct {
		LaunchNode
		launch int64
	}
	var launches []Launch
	err := l.read(ctx, what, func(q querier) error {
		rows, err := collect(ctx, q, func(r *row) []any {
			return []any{&r.seq, &r.ID, &r.JobID, &r.Tier, &r.QOS, &r.User, &r.Account, &r.Partition, &r.Round, &r.State, &r.Class, &r.Message,
				stamp{&r.RequestedAt}, stamp{&r.RetryAt}, stamp{&r.CreatedAt}, stamp{&r.EndedAt}}
		}, selectLaunches+which, args...)
		if err != nil || len(rows) == 0 {
			return err
		}
		seqs := make([]int64, len(rows))
		at := make(map[int64]*Launch, len(rows))
		launches = make([]Launch, len(rows))
		for i, r := range rows {
			launches[i], seqs[i], at[r.seq] = r.Launch, r.seq, &launches[i]
		}
		arg, err := json.Marshal(seqs)
		if err != nil {
			return err
		}
		nodes, err := collect(ctx, q, func(n *node) []any {
			return []any{&n.launch, &n.Node, &n.Generation, &n.Pool, &n.Provider, &n.InstanceID, &n.Addressed}
		}, `SELECT launch, node, generation, pool, provider, instance_id, addressed FROM launch_nodes
			WHERE launch IN (SELECT value FROM json_each(?)) ORDER BY launch, pos`, string(arg))
		for _, n := range nodes {
			at[n.launch].Nodes = append(at[n.launch].Nodes, n.LaunchNode)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return launches, nil
}

// FailedRounds counts the failed launches of a job since its last one that
// became ready, or that was not to be tried again by itself (no retry time: the
// job was held). A job that its owner releases starts counting anew. Failures of
// the classes in except do not count.
func (l *Ledger) FailedRounds(ctx context.Context, jobID int, except ...cloud.Class) (int, error) {
	var n int
	names := make([]string, len(except))
	for i, c := range except {
		names[i] = string(c)
	}
	classes, err := list(names)
	if err != nil {
		return 0, fmt.Errorf("read failed launches of job %d: %w", jobID, err)
	}
	err = l.read(ctx, fmt.Sprintf("failed launches of job %d", jobID), func(q querier) error {
		// By seq, not by time: a clock that was set back must not hide a round.
		return one(ctx, q, []any{&n}, `SELECT count(*) FROM launches WHERE job_id = ?1 AND state = 'failed'
			AND class NOT IN (SELECT value FROM json_each(?2))
			AND seq > coalesce((SELECT max(seq) FROM launches WHERE job_id = ?1 AND (state = 'ready' OR state = 'failed' AND retry_at = 0)), 0)`, jobID, classes)
	})
	return n, err
}

// WantedSince gives when the nodes of a job's failed launches in a row were
// first requested; zero if the newest did not fail.
func (l *Ledger) WantedSince(ctx context.Context, jobID int) (time.Time, error) {
	var at time.Time
	err := l.read(ctx, fmt.Sprintf("failed launches of job %d", jobID), func(q querier) error {
		return one(ctx, q, []any{stamp{&at}}, `SELECT coalesce(min(requested_at), 0) FROM launches WHERE job_id = ?1 AND state = 'failed'
			AND seq > coalesce((SELECT max(seq) FROM launches WHERE job_id = ?1 AND (state = 'ready' OR state = 'failed' AND retry_at = 0)), 0)`, jobID)
	})
	return at, err
}

// Generations gives the highest generation each node was launched with, 0 for
// one that never was.
func (l *Ledger) Generations(ctx context.Context, nodes []string) (map[string]int, error) {
	type row struct {
		node       string
		generation int
	}
	all := make(map[string]int, len(nodes))
	for _, n := range nodes {
		all[n] = 0
	}
	err := l.read(ctx, "generations", func(q querier) error {
		names, err := list(nodes)
		if err != nil {
			return err
		}
		rows, err := collect(ctx, q, func(r *row) []any { return []any{&r.node, &r.generation} },
			`SELECT node, generation FROM nodes WHERE node IN (SELECT value FROM json_each(?))`, names)
		for _, r := range rows {
			all[r.node] = r.generation
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return all, nil
}
