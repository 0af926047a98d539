package local

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/midair-hpc/midair/internal/cloud"
)

// Steps of Launch at which a kill is survived in different ways.
const (
	stepRecords  = "records-written"  // instances without a token: forgotten
	stepToken    = "token-written"    // the repeated request starts the cells
	stepStarted  = "cell-started"     // a cell that nobody knows: found by its console and replaced
	stepRecorded = "process-recorded" // complete
)

// order is what a Launch has to do after it has been decided under the lock.
type order struct {
	token     *tokenRecord
	unstarted []record
	again     bool // the token was known: a former process may have started cells
	hang      bool
	lose      bool
	delay     time.Duration
}

// Launch implements cloud.Provider. A request that got nothing is remembered
// like any other: its token gives the same answer for a day.
func (p *Provider) Launch(ctx context.Context, r cloud.LaunchRequest) (cloud.LaunchResult, error) {
	var none cloud.LaunchResult
	sum, err := check(r)
	if err != nil {
		return none, err
	}
	if err := p.cells.Prepare(); err != nil {
		return none, cloud.AsError(err)
	}
	if err := p.reg.makeRoot(); err != nil {
		return none, cloud.AsError(err)
	}
	lock, err := lockToken(ctx, p.reg.tokenLockPath(), r.Token)
	if err != nil {
		return none, cloud.AsError(err)
	}
	defer lock.Close()

	var o order
	err = p.settled(ctx, func(v *view, now time.Time) (err error) {
		o, err = p.decide(v, r, sum, now)
		return err
	})
	if err != nil {
		return none, cloud.AsError(err)
	}
	if o.again && len(o.unstarted) > 0 {
		if err := p.cells.Sweep(p.consoles(o.unstarted)); err != nil {
			return none, cloud.AsError(err)
		}
	}
	if err := p.start(ctx, r, o); err != nil {
		return none, cloud.AsError(err)
	}
	res, err := p.answer(ctx, r.Token)
	if err != nil {
		return none, cloud.AsError(err)
	}
	return o.deliver(ctx, res)
}

// check refuses what no cloud would take.
func check(r cloud.LaunchRequest) (digestOf string, err error) {
	switch {
	case r.Token == "":
		return "", badRequest("the create call has no token")
	case r.Cluster == "":
		return "", badRequest("the create call has no cluster")
	case len(r.Nodes) == 0:
		return "", badRequest("the create call has no nodes")
	case len(r.Offerings) == 0:
		return "", badRequest("the create call has no offerings")
	}
	seen := map[string]bool{}
	for _, n := range r.Nodes {
		// The kernel's bound on host names.
		if n.Name == "" || len(n.Name) > 64 {
			return "", badRequest("%q cannot be a host name: want 1 to 64 characters", n.Name)
		}
		if seen[n.Name] {
			return "", badRequest("the create call has node %s twice", n.Name)
		}
		seen[n.Name] = true
	}
	return digest(r)
}

// decide finds what the token has bought, or buys it: records first, then the
// token, which commits.
func (p *Provider) decide(v *view, r cloud.LaunchRequest, sum string, now time.Time) (order, error) {
	var o order
	t, err := v.token(r.Token)
	if err != nil {
		return o, err
	}
	if err := refuseAll(v); err != nil {
		// What exists already is not undone by a refusal.
		e := *cloud.AsError(err)
		e.Ambiguous = e.Ambiguous || t != nil
		return o, &e
	}
	if t != nil {
		if t.Digest != sum {
			return o, otherRequest(r.Token)
		}
		o.again = true
	} else {
		if v.faults.Unknown > 0 {
			v.faults.Unknown--
			if err := v.putFaults(); err != nil {
				return o, err
			}
			return o, internalError()
		}
		if t, err = p.buy(v, r, sum, now); err != nil {
			return o, err
		}
	}
	o.token = t
	for _, id := range t.IDs {
		if rec, ok := v.records[id]; ok && rec.live() && rec.Process == nil {
			o.unstarted = append(o.unstarted, *rec)
		}
	}
	o.hang, o.delay = v.faults.Hang, time.Duration(v.faults.CreateDelay)
	if v.faults.LoseAnswer > 0 {
		o.lose = true
		v.faults.LoseAnswer--
		return o, v.putFaults()
	}
	return o, nil
}

func (p *Provider) buy(v *view, r cloud.LaunchRequest, sum string, now time.Time) (*tokenRecord, error) {
	for _, o := range r.Offerings {
		if _, err := p.sold(o); err != nil {
			return nil, err
		}
	}
	addrs := v.freeAddresses(p.network, len(r.Nodes))
	placed, shorts := p.place(r, v.faults, v.usage(len(addrs)))
	t := &tokenRecord{Token: r.Token, Digest: sum, CreatedAt: now, IDs: []string{}, Shortfalls: shorts}
	nodes := r.Nodes
	for _, pl := range placed {
		key := pl.offering.Key()
		delay, special := v.faults.BootDelay[key]
		if !special {
			delay = Duration(p.bootDelay)
		}
		for range pl.n {
			id, err := p.newID()
			if err != nil {
				return nil, err
			}
			n := nodes[0]
			nodes = nodes[1:]
			rec := record{
				ID: id, Cluster: r.Cluster, Node: n.Name, Generation: n.Generation, Launch: n.Launch, Token: r.Token, Pool: r.Pool,
				Offering: pl.offering, CPUs: pl.kind.CPUs, Addr: addrs[0], Tags: tagsOf(r, n), CreatedAt: now,
				BootDelay: delay, NoRegister: v.faults.noRegister(pl.offering, n.Name),
			}
			addrs = addrs[1:]
			if err := v.put(rec); err != nil {
				return nil, err
			}
			t.IDs = append(t.IDs, id)
		}
	}
	p.reached(stepRecords)
	if err := v.putToken(*t); err != nil {
		return nil, err
	}
	p.reached(stepToken)
	return t, nil
}

// newID gives an instance id as EC2 writes them.
func (p *Provider) newID() (string, error) {
	var b [9]byte
	if _, err := io.ReadFull(p.rand, b[:]); err != nil {
		return "", fmt.Errorf("make an instance id: %w", err)
	}
	return "i-" + hex.EncodeToString(b[:])[:17], nil
}

// answer reads what the token has bought, as it is now.
func (p *Provider) answer(ctx context.Context, token string) (cloud.LaunchResult, error) {
	var res cloud.LaunchResult
	err := p.settled(ctx, func(v *view, now time.Time) error {
		t, err := v.token(token)
		if err != nil {
			return err
		}
		if t == nil {
			return errors.New("the local cloud was destroyed meanwhile")
		}
		for _, id := range t.IDs {
			if r, ok := v.records[id]; ok {
				res.Instances = append(res.Instances, r.instance(now))
			}
		}
		for _, s := range t.Shortfalls {
			res.Shortfalls = append(res.Shortfalls, s.cloud())
		}
		return nil
	})
	return res, err
}

// deliver meets the faults that befall an answer on its way.
func (o order) deliver(ctx context.Context, res cloud.LaunchResult) (cloud.LaunchResult, error) {
	var none cloud.LaunchResult
	if o.hang {
		<-ctx.Done()
		return none, interrupted(ctx.Err())
	}
	if o.delay > 0 {
		select {
		case <-time.After(o.delay):
		case <-ctx.Done():
			return none, interrupted(ctx.Err())
		}
	}
	if o.lose {
		return none, lostAnswer()
	}
	return res, nil
}
