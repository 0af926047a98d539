package controller

import (
	"context"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/ledger"
	"github.com/midair-hpc/midair/internal/planner"
	"github.com/midair-hpc/midair/internal/reconcile"
)

// lose settles instances that the cloud has ended by itself, all in one
// transaction. A launch that waited for one gets another from the next offering
// if the cloud took it back, and fails otherwise. One that is off is not
// settled: it is on record until it has been terminated.
func (c *Controller) lose(ctx context.Context, lost []reconcile.Lost) {
	if len(lost) == 0 {
		return
	}
	var (
		fallback = map[string]*launch{} // by instance
		failures []ledger.Failure
	)
	for _, l := range lost {
		if o := c.waitsFor(l); o != nil && l.Reclaimed && l.Instance.ReadyAt.IsZero() {
			e := lossError(l)
			fallback[l.Instance.Provider+" "+l.Instance.ID] = o
			failures = append(failures, ledger.Failure{At: c.Now(), Launch: o.ID, JobID: o.JobID, Pool: l.Instance.Pool, Provider: l.Instance.Provider,
				Offering: l.Instance.Offering.Key(), Class: e.Class, Message: e.Message, Nodes: l.Instance.Node})
		}
	}
	var memory []ledger.MemoryEntry
	for _, l := range lost {
		if l.Reclaimed && !l.Off {
			if m, ok := c.reclaimed(l.Instance, lossError(l)); ok {
				memory = append(memory, m)
			}
		}
	}
	ok := c.update(ctx, "lost instances", func(tx *ledger.Tx) error {
		if err := tx.PutMemory(memory); err != nil {
			return err
		}
		for _, l := range lost {
			i := l.Instance
			if !l.Off {
				if err := tx.SetEnded(i.Provider, []string{i.ID}, l.EndedAt, l.Why); err != nil {
					return err
				}
			}
			if o := fallback[i.Provider+" "+i.ID]; o != nil {
				if err := tx.Uncarry(o.ID, i.ID); err != nil {
					return err
				}
			}
		}
		return tx.AddFailures(failures)
	})
	if !ok {
		return
	}
	for _, m := range memory {
		c.memory[keyOf(m)] = m
	}
	for _, l := range lost {
		k := instanceKey{l.Instance.Provider, l.Instance.ID}
		if rec := c.instances[k]; rec == nil || rec.State == ledger.Live {
			c.Log.Warn("instance is gone", "provider", k.provider, "instance", k.id, "node", l.Instance.Node, "why", l.Why)
		}
		if !l.Off {
			delete(c.instances, k)
			delete(c.terminating, k)
		}
		o := c.waitsFor(l)
		switch {
		case o == nil:
		case fallback[k.provider+" "+k.id] != nil:
			c.fallBack(o, l)
		default:
			c.fail(ctx, o, &cloud.Error{Class: lossError(l).Class, Message: "the instance of " + l.Instance.Node + " ended while it booted: " + l.Why}, planner.Refusal{})
		}
	}
}

// waitsFor gives the launch that is still booting with a lost instance, if any.
func (c *Controller) waitsFor(l reconcile.Lost) *launch {
	o := c.nodes[l.Instance.Node]
	if o == nil || o.State != ledger.Launching || o.parked[l.Instance.Node] {
		return nil
	}
	for _, n := range o.Nodes {
		if n.Provider == l.Instance.Provider && n.InstanceID == l.Instance.ID {
			return o
		}
	}
	return nil
}

// fallBack has the next step buy another instance for a node whose instance the
// cloud took back while it booted. Slurm still waits for the node.
func (c *Controller) fallBack(o *launch, l reconcile.Lost) {
	for k := range o.Nodes {
		if n := &o.Nodes[k]; n.InstanceID == l.Instance.ID {
			n.InstanceID, n.Addressed = "", false
		}
	}
	o.tried[l.Instance.Pool+" "+l.Instance.Offering.Key()] = true
	if o.said[l.Instance.Pool] == nil {
		o.said[l.Instance.Pool] = lossError(l)
	}
	c.Log.Warn("another offering is tried for a node whose instance was taken back", "launch", o.ID, "job", o.JobID, "node", l.Instance.Node, "offering", l.Instance.Offering.Key())
}

// lossError gives the class of a loss: what the cloud takes back it has sold
// out of.
func lossError(l reconcile.Lost) *cloud.Error {
	e := &cloud.Error{Class: cloud.InitFailed, Message: l.Why}
	if l.Reclaimed {
		e.Class = cloud.OutOfStock
	}
	return e
}
