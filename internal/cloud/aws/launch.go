package aws

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/midair-hpc/midair/internal/cloud"
)

// A create call of EC2 makes no more than this at once: CreateFleet bounds
// MinTargetCapacity by it, RunInstances is throttled beyond.
const maxLaunch = 1000

// createTimeout bounds a create call whose caller sets no bound.
const createTimeout = time.Minute

// maxToken is how long EC2's client tokens may be.
const maxToken = 64

// clientToken is the request's token as EC2 takes it. part tells the create
// calls of one request apart.
func clientToken(token string, part int) string {
	if part == 0 && len(token) <= maxToken {
		return token
	}
	sum := sha256.Sum256([]byte(token + "\x00" + strconv.Itoa(part)))
	return "mdt-" + hex.EncodeToString(sum[:])[:maxToken-4]
}

// order is a request with what is known of its pool, ready to be bought.
type order struct {
	cloud.LaunchRequest
	market    cloud.Market
	offerings []cloud.Offering // those that fit
	unfit     []cloud.Shortfall
	template  template
	tags      map[string]string // of the create call
	digest    string
	subnets   map[string][]string // by zone
}

// Launch implements cloud.Provider. All offerings of a request are of one
// market.
func (p *Provider) Launch(ctx context.Context, r cloud.LaunchRequest) (cloud.LaunchResult, error) {
	o, err := p.prepare(ctx, r)
	if err != nil {
		return cloud.LaunchResult{}, p.classify("Launch", "", err)
	}
	if len(o.offerings) == 0 {
		return cloud.LaunchResult{Shortfalls: o.unfit}, nil
	}
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, createTimeout)
		defer cancel()
	}
	var b bought
	switch {
	case o.market == cloud.Reserved, o.AllOrNothing && len(o.offerings) == 1:
		b, err = p.run(ctx, o)
	default:
		b, err = p.fleet(ctx, o)
	}
	if code(err) == "IdempotentParameterMismatch" {
		b, err = p.boughtBefore(ctx, o, err)
	}
	if err != nil {
		return cloud.LaunchResult{}, p.classify("Launch", "", err)
	}
	return cloud.LaunchResult{Instances: p.assign(ctx, o, b), Shortfalls: sortedShortfalls(r.Offerings, o.unfit, b.shortfalls)}, nil
}

// prepare checks a request and finds out what its create call needs.
func (p *Provider) prepare(ctx context.Context, r cloud.LaunchRequest) (*order, error) {
	if len(r.Offerings) == 0 || len(r.Nodes) == 0 || r.Token == "" {
		return nil, &cloud.Error{Class: cloud.Config, Message: "a launch needs a token, nodes and offerings"}
	}
	if len(r.Nodes) > maxLaunch {
		return nil, &cloud.Error{Class: cloud.Config, Message: fmt.Sprintf("a launch of %d nodes is more than EC2 makes in one call, %d", len(r.Nodes), maxLaunch)}
	}
	o := &order{LaunchRequest: r, market: r.Offerings[0].Market, subnets: map[string][]string{}}
	var names []string
	for _, f := range r.Offerings {
		if f.Market != o.market {
			return nil, &cloud.Error{Class: cloud.Config, Message: fmt.Sprintf("a launch on the markets %s and %s at once; EC2 is asked for one at a time", o.market, f.Market)}
		}
		if !slices.Contains(names, f.Type) {
			names = append(names, f.Type)
		}
	}
	sizes, err := p.typesOf(ctx, names)
	if err != nil {
		return nil, err
	}
	for _, f := range r.Offerings {
		if _, ok := sizes[f.Type]; !ok {
			return nil, p.notSold(f, false)
		}
	}
	if o.template, err = p.templateOf(ctx, r.Pool); err != nil {
		return nil, err
	}
	for _, f := range r.Offerings {
		if e := sizes[f.Type].mismatch(f.Type, o.template, r); e != nil {
			o.unfit = append(o.unfit, cloud.Shortfall{Offering: f, Nodes: len(r.Nodes), Err: e})
			continue
		}
		if o.subnets[f.Zone] == nil {
			if o.subnets[f.Zone], err = p.subnetsIn(ctx, f.Zone, o.template); err != nil {
				return nil, err
			}
		}
		o.offerings = append(o.offerings, f)
	}
	o.tags, o.digest = createTags(r)
	return o, nil
}

// bought is what the create calls of a request have given.
type bought struct {
	ids map[string]cloud.Offering
	// said is what the create call's answer itself says of instances.
	said       map[string]cloud.Instance
	shortfalls []cloud.Shortfall
}

// assign makes nodes of instances, and waits for a moment until EC2 shows them.
func (p *Provider) assign(ctx context.Context, o *order, b bought) []cloud.Instance {
	ids := make([]string, 0, len(b.ids))
	for id := range b.ids {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	at := p.now() // before they are waited for
	p.created(ids, len(o.Nodes) == 1)
	seen := p.await(ctx, o, b)
	list := make([]cloud.Instance, 0, len(ids))
	for k, id := range ids {
		if k == len(o.Nodes) {
			p.log.Error("a create call gave more instances than nodes were asked for; the others are found by the next list", "token", o.Token, "asked", len(o.Nodes), "given", len(ids))
			break
		}
		i, ok := seen[id]
		if !ok {
			i = b.said[id]
		}
		if i.ID == "" {
			i = cloud.Instance{ID: id, State: cloud.Pending}
		}
		if i.CreatedAt.IsZero() {
			i.CreatedAt = at
		}
		n := o.Nodes[k]
		i.Node, i.Generation, i.Launch, i.Token, i.Pool, i.Offering = n.Name, n.Generation, n.Launch, o.Token, o.Pool, b.ids[id]
		i.Tags = nodeTags(o.tags, o.LaunchRequest, n)
		list = append(list, i)
	}
	return list
}

// await describes new instances until all are there with their addresses, or
// patience ends.
func (p *Provider) await(ctx context.Context, o *order, b bought) map[string]cloud.Instance {
	if len(b.ids) == 0 {
		return nil
	}
	seen := map[string]cloud.Instance{}
	waited := time.Duration(0)
	for n := 0; ; n++ {
		list, err := p.describe(ctx, filter("tag:"+cloud.TagToken, wildless(o.tags[cloud.TagToken])))
		if err != nil {
			p.log.Warn("describe new instances; they are listed later", "token", o.Token, "err", err)
			return seen
		}
		missing := len(b.ids)
		for _, i := range list {
			if _, mine := b.ids[i.ID]; mine {
				seen[i.ID] = i
				if i.Addr != "" || !i.Live() {
					missing--
				}
			}
		}
		pause := min(p.backoff(n), p.shownWithin-waited)
		if missing == 0 || pause <= 0 || p.sleep(ctx, pause) != nil {
			return seen
		}
		waited += pause
	}
}

// boughtBefore answers for a token that EC2 knows with other parameters. They
// may differ in nothing that matters, such as in a tag that was not known at
// the first call: then what it has made is the answer.
func (p *Provider) boughtBefore(ctx context.Context, o *order, refusal error) (bought, error) {
	list, err := p.tokenInstances(ctx, o)
	if err != nil {
		return bought{}, err
	}
	b := bought{ids: map[string]cloud.Offering{}, said: map[string]cloud.Instance{}}
	for _, i := range list {
		if i.Tags[tagDigest] != o.digest {
			return bought{}, refusal
		}
		b.ids[i.ID], b.said[i.ID] = i.Offering, i
	}
	if len(b.ids) == 0 {
		return bought{}, refusal
	}
	if missing := len(o.Nodes) - len(b.ids); missing > 0 {
		b.shortfalls = []cloud.Shortfall{{Offering: o.offerings[0], Nodes: missing, Err: &cloud.Error{
			Class: cloud.OutOfStock, Message: "EC2 had no capacity for " + o.offerings[0].Key() + " when it was asked first",
		}}}
	}
	return b, nil
}

// tokenInstances finds what exists for a request's token by now.
func (p *Provider) tokenInstances(ctx context.Context, o *order) ([]cloud.Instance, error) {
	return p.describe(ctx, filter("tag:"+cloud.TagToken, wildless(o.tags[cloud.TagToken])))
}

// shortfall is an offering that failed to serve n nodes.
func (p *Provider) shortfall(f cloud.Offering, n int, action, code, text string) cloud.Shortfall {
	return cloud.Shortfall{Offering: f, Nodes: n, Err: p.classifyCode(action, f.Key(), code, text, nil)}
}

// sortedShortfalls gives shortfalls in the order of the request's offerings.
func sortedShortfalls(offerings []cloud.Offering, lists ...[]cloud.Shortfall) []cloud.Shortfall {
	all := slices.Concat(lists...)
	slices.SortStableFunc(all, func(a, b cloud.Shortfall) int {
		return cmp.Compare(slices.Index(offerings, a.Offering), slices.Index(offerings, b.Offering))
	})
	return all
}

// How long EC2 may fail to find what it has just created.
const youngFor = 5 * time.Minute

// birth is an instance that this process has created not long ago.
type birth struct {
	at    time.Time
	named bool // by the create call, which had one node
}

// created remembers instances of this process.
func (p *Provider) created(ids []string, named bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	for id, b := range p.young {
		if now.Sub(b.at) > youngFor {
			delete(p.young, id)
		}
	}
	for _, id := range ids {
		p.young[id] = birth{now, named}
	}
}

// isYoung reports whether this process has created an instance not long ago.
func (p *Provider) isYoung(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	b, ok := p.young[id]
	return ok && p.now().Sub(b.at) <= youngFor
}

// bornNamed reports whether an instance's create call has said all of it.
func (p *Provider) bornNamed(id string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.young[id].named
}
