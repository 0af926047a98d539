package ledger

import (
	"context"
	"time"
)

// addInstance adds to what is on record about an instance and takes nothing
// away: what the newcomer does not say stays, a state never goes back, the first
// time and cause of anything are kept, and of two times of creation the earlier.
const addInstance = `INSERT INTO instances
	(provider, id, node, generation, launch, token, pool, type, zone, market, addr, host_name, price, state, created_at, ready_at, ended_at, end_cause, console)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
	ON CONFLICT (provider, id) DO UPDATE SET
	node       = iif(excluded.node = '', node, excluded.node),
	generation = iif(excluded.node = '', generation, excluded.generation),
	launch     = iif(excluded.launch = '', launch, excluded.launch),
	token      = iif(excluded.token = '', token, excluded.token),
	pool       = iif(excluded.pool = '', pool, excluded.pool),
	type       = iif(excluded.type = '', type, excluded.type),
	zone       = iif(excluded.zone = '', zone, excluded.zone),
	market     = iif(excluded.market = '', market, excluded.market),
	addr       = iif(excluded.addr = '', addr, excluded.addr),
	host_name  = iif(excluded.host_name = '', host_name, excluded.host_name),
	price      = iif(price = 0, excluded.price, price),
	created_at = iif(created_at = 0 OR excluded.created_at <> 0 AND excluded.created_at < created_at, excluded.created_at, created_at),
	ready_at   = iif(ready_at = 0, excluded.ready_at, ready_at),
	ended_at   = iif(ended_at = 0, excluded.ended_at, ended_at),
	end_cause  = iif(end_cause = '', excluded.end_cause, end_cause),
	console    = iif(console = '', excluded.console, console),
	state      = CASE WHEN 'ended' IN (state, excluded.state) THEN 'ended'
	                  WHEN 'terminating' IN (state, excluded.state) THEN 'terminating'
	                  ELSE 'live' END`

// AddInstances records instances, or adds to what is on record about them: a
// field that is empty here is left as it is, the state only ever goes from live
// to terminating to ended, and price, times and cause, once known, stay, but for
// a time of creation that is earlier than the one known. The launch's node of
// that name and generation then carries the instance, unless it carries another
// and this one has ended. A node's generation is raised to the instance's, so
// that a rebuilt ledger does not count from 1 again.
func (tx *Tx) AddInstances(instances []Instance) error {
	for _, i := range instances {
		_, err := tx.exec(addInstance, i.Provider, i.ID, i.Node, i.Generation, i.Launch, i.Token, i.Pool, i.Offering.Type, i.Offering.Zone, string(i.Offering.Market),
			i.Addr, i.HostName, int64(i.Price), string(i.State), nanos(i.CreatedAt), nanos(i.ReadyAt), nanos(i.EndedAt), i.EndCause, i.Console)
		if err == nil && i.Node != "" {
			err = tx.raise(i.Node, i.Generation)
		}
		if err == nil && i.Launch != "" {
			err = tx.carry(i)
		}
		if err != nil {
			return tx.fail("record instance %s of %s: %w", i.ID, i.Provider, err)
		}
	}
	return nil
}

// carry notes at the instance's launch that it carries the node.
func (tx *Tx) carry(i Instance) error {
	_, err := tx.exec(`UPDATE launch_nodes SET instance_id = ?2
		WHERE launch = (SELECT seq FROM launches WHERE id = ?3) AND node = ?4 AND generation = ?5
		AND (instance_id = '' OR EXISTS (SELECT 1 FROM instances WHERE provider = ?1 AND id = ?2 AND state <> 'ended'))`,
		i.Provider, i.ID, i.Launch, i.Node, i.Generation)
	return err
}

// Uncarry records that an instance no longer carries a node of a launch, which
// may get another then, with another address. An instance that carries none of
// the launch's nodes is passed over.
func (tx *Tx) Uncarry(launch, instance string) error {
	if _, err := tx.exec(`UPDATE launch_nodes SET instance_id = '', addressed = 0
		WHERE launch = (SELECT seq FROM launches WHERE id = ?) AND instance_id = ? AND instance_id <> ''`, launch, instance); err != nil {
		return tx.fail("take instance %s off launch %s: %w", instance, launch, err)
	}
	return nil
}

// SetReady records when the instances' nodes registered. The first time is
// kept. Ids not on record are passed over, as in SetTerminating and SetEnded.
func (tx *Tx) SetReady(provider string, ids []string, at time.Time) error {
	return tx.setInstances("ready", provider, ids, `UPDATE instances SET ready_at = ?3
		WHERE provider = ?1 AND id IN (SELECT value FROM json_each(?2)) AND ready_at = 0 AND state <> 'ended'`, nanos(at))
}

// SetTerminating records that live instances are to go, and why. Instances that
// are terminating or have ended are left as they are.
func (tx *Tx) SetTerminating(provider string, ids []string, cause string) error {
	return tx.setInstances("terminating", provider, ids, `UPDATE instances SET state = 'terminating', end_cause = ?3
		WHERE provider = ?1 AND id IN (SELECT value FROM json_each(?2)) AND state = 'live'`, cause)
}

// SetEnded records that the instances' billing stopped at a time, and why. A
// cause from SetTerminating, and the time and cause of an instance that ended
// before, are kept.
func (tx *Tx) SetEnded(provider string, ids []string, at time.Time, cause string) error {
	return tx.setInstances("ended", provider, ids, `UPDATE instances SET state = 'ended',
		ended_at = iif(ended_at = 0, ?3, ended_at), end_cause = iif(end_cause = '', ?4, end_cause)
		WHERE provider = ?1 AND id IN (SELECT value FROM json_each(?2))`, nanos(at), cause)
}

func (tx *Tx) setInstances(to, provider string, ids []string, query string, args ...any) error {
	arg, err := list(ids)
	if err == nil {
		_, err = tx.exec(query, append([]any{provider, arg}, args...)...)
	}
	if err != nil {
		return tx.fail("set %d instances of %s to %s: %w", len(ids), provider, to, err)
	}
	return nil
}

// Revive records that instances on record as ended are there after all, such as
// ones that a cloud's listing left out for minutes: they are live again, and
// when and why they ended is forgotten.
func (tx *Tx) Revive(provider string, ids []string) error {
	return tx.setInstances("live again", provider, ids, `UPDATE instances SET state = 'live', ended_at = 0, end_cause = ''
		WHERE provider = ?1 AND id IN (SELECT value FROM json_each(?2)) AND state = 'ended'`)
}

// SetConsole keeps the boot output of an instance on record.
func (tx *Tx) SetConsole(provider, id, text string) error {
	hit, err := tx.changed(`UPDATE instances SET console = ? WHERE provider = ? AND id = ?`, text, provider, id)
	if err != nil {
		return tx.fail("keep the console of instance %s of %s: %w", id, provider, err)
	}
	if !hit {
		return tx.fail("keep the console of instance %s of %s: the instance is not on record", id, provider)
	}
	return nil
}

const selectInstances = `SELECT provider, id, node, generation, launch, token, pool, type, zone, market, addr, host_name, price, state, created_at, ready_at, ended_at, end_cause, console FROM instances `

// LiveInstances gives the instances that are live or terminating, oldest first.
func (l *Ledger) LiveInstances(ctx context.Context) ([]Instance, error) {
	return l.instances(ctx, "live instances", selectInstances+`WHERE state <> 'ended' ORDER BY created_at, seq`)
}

// Instances gives all instances that were live at since or later, oldest
// first. One that ended at a time nobody knows is among them.
func (l *Ledger) Instances(ctx context.Context, since time.Time) ([]Instance, error) {
	return l.instances(ctx, "instances", selectInstances+`WHERE seq IN (
		SELECT seq FROM instances WHERE state <> 'ended' UNION ALL
		SELECT seq FROM instances WHERE state = 'ended' AND ended_at = 0 UNION ALL
		SELECT seq FROM instances WHERE state = 'ended' AND ended_at >= ?) ORDER BY created_at, seq`, nanos(since))
}

// KnownInstances tells which of a provider's instances are on record.
func (l *Ledger) KnownInstances(ctx context.Context, provider string, ids []string) (map[string]bool, error) {
	known := map[string]bool{}
	err := l.read(ctx, "instances of "+provider, func(q querier) error {
		arg, err := list(ids)
		if err != nil {
			return err
		}
		found, err := collect(ctx, q, func(s *string) []any { return []any{s} },
			`SELECT id FROM instances WHERE provider = ? AND id IN (SELECT value FROM json_each(?))`, provider, arg)
		for _, id := range found {
			known[id] = true
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return known, nil
}

// InstancesOfNode gives all instances that ever carried a node, newest first.
func (l *Ledger) InstancesOfNode(ctx context.Context, node string) ([]Instance, error) {
	return l.instances(ctx, "instances of node "+node, selectInstances+`WHERE node = ? ORDER BY created_at DESC, seq DESC`, node)
}

// InstancesOfLaunch gives all instances that were bought for a launch, oldest
// first.
func (l *Ledger) InstancesOfLaunch(ctx context.Context, launch string) ([]Instance, error) {
	return l.instances(ctx, "instances of launch "+launch, selectInstances+`WHERE launch = ? ORDER BY created_at, seq`, launch)
}

func (l *Ledger) instances(ctx context.Context, what, query string, args ...any) (all []Instance, err error) {
	err = l.read(ctx, what, func(q querier) error {
		all, err = collect(ctx, q, func(i *Instance) []any {
			return []any{&i.Provider, &i.ID, &i.Node, &i.Generation, &i.Launch, &i.Token, &i.Pool, &i.Offering.Type, &i.Offering.Zone, &i.Offering.Market,
				&i.Addr, &i.HostName, &i.Price, &i.State, stamp{&i.CreatedAt}, stamp{&i.ReadyAt}, stamp{&i.EndedAt}, &i.EndCause, &i.Console}
		}, query, args...)
		return err
	})
	return all, err
}
