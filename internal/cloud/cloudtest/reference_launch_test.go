package cloudtest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/midair-hpc/midair/internal/cloud"
)

func (h *handle) Launch(ctx context.Context, r cloud.LaunchRequest) (cloud.LaunchResult, error) {
	a := h.reference
	res, err := h.launch(r)
	if a.bug == ignoresContext && ctx.Err() != nil {
		time.Sleep(time.Hour)
		return res, err
	}
	select {
	case <-time.After(callTime):
		return res, err
	case <-ctx.Done():
		return cloud.LaunchResult{}, &cloud.Error{
			Class: cloud.Unknown, Message: "the call was interrupted", Ambiguous: a.bug != cancelsDefinitely, Err: ctx.Err(),
		}
	}
}

func (h *handle) launch(r cloud.LaunchRequest) (cloud.LaunchResult, error) {
	a := h.reference
	if a.bug == sortsRequest {
		slices.Reverse(r.Nodes)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.refuse(); err != nil {
		if a.bug == throttlesAfterwards {
			a.buy(r)
		}
		return cloud.LaunchResult{}, err
	}
	for _, o := range r.Offerings {
		if sizes[o.Type] == 0 {
			switch a.bug {
			case sellsAnything:
				continue
			case callsUnsoldOutOfStock:
				return cloud.LaunchResult{}, &cloud.Error{Class: cloud.OutOfStock, Message: "no " + o.Type + " left"}
			}
			return cloud.LaunchResult{}, notSold(o)
		}
	}
	p := h.known(r)
	if p != nil && !sameRequest(a.bug, p.request, r) {
		return cloud.LaunchResult{}, &cloud.Error{Class: cloud.Config, Message: "the token was used for another request"}
	}
	if p == nil {
		if a.bug == checksTokenUnlocked {
			a.mu.Unlock()
			time.Sleep(time.Millisecond)
			a.mu.Lock()
		}
		var err error
		if p, err = h.fill(r); err != nil {
			return cloud.LaunchResult{}, err
		}
	} else if a.bug == refillsTokens {
		h.refill(p, r)
	}
	if a.lose {
		a.lose = false
		return cloud.LaunchResult{}, a.lost(r)
	}
	return a.result(p), nil
}

// lost is the error of a call whose answer was lost.
func (a *reference) lost(r cloud.LaunchRequest) error {
	switch a.bug {
	case losesPlainly:
		return fmt.Errorf("connection reset")
	case losesDefinitely:
		return &cloud.Error{Class: cloud.Unknown, Message: "connection reset"}
	case tagsAfterwards:
		for _, m := range a.instances {
			m.Tags = nil
		}
	case forgetsTokenWithAnswer:
		delete(a.tokens, r.Token)
	case endsSentences:
		return &cloud.Error{Class: cloud.Unknown, Message: "Connection reset.", Ambiguous: true}
	}
	return &cloud.Error{Class: cloud.Unknown, Message: "the connection was lost before the answer came", Ambiguous: true}
}

// known gives what the token has bought before, nil: nothing yet.
func (h *handle) known(r cloud.LaunchRequest) *purchase {
	a := h.reference
	switch a.bug {
	case ignoresTokens:
		return nil
	case keepsTokensInMemory:
		return h.own[r.Token]
	case findsTokensByList:
		p := &purchase{request: r}
		for _, m := range a.instances {
			if m.Token == r.Token && time.Since(m.CreatedAt) >= m.lag {
				p.ids = append(p.ids, m.ID)
			}
		}
		if p.ids != nil {
			return p
		}
		return nil
	case findsNodesByName:
		for _, p := range a.tokens {
			if p.request.Nodes[0].Name == r.Nodes[0].Name {
				return p
			}
		}
		return nil
	}
	return a.tokens[r.Token]
}

func sameRequest(b bug, x, y cloud.LaunchRequest) bool {
	sameNodes := slices.EqualFunc(x.Nodes, y.Nodes, func(m, n cloud.NodeRequest) bool {
		return m.Name == n.Name && (m.Generation == n.Generation || b == ignoresGeneration)
	})
	switch b {
	case ignoresOtherNodes, findsNodesByName:
		sameNodes = true
	}
	return sameNodes && (slices.Equal(x.Offerings, y.Offerings) || b == ignoresOtherOfferings || b == findsNodesByName)
}

// fill buys what a new token asks for.
func (h *handle) fill(r cloud.LaunchRequest) (*purchase, error) {
	a := h.reference
	p := a.buy(r)
	if a.bug == reportsShortageAsError && len(p.ids) == 0 && len(p.shortfalls) > 0 {
		return nil, p.shortfalls[0].Err
	}
	a.tokens[r.Token], h.own[r.Token] = p, p
	return p, nil
}

// refill buys again for nodes that have no live instance.
func (h *handle) refill(p *purchase, r cloud.LaunchRequest) {
	var kept []string
	had := map[string]bool{}
	for _, id := range p.ids {
		if m := h.find(id); m.asked.IsZero() {
			kept = append(kept, id)
			had[m.Node] = true
		}
	}
	r.Nodes = slices.DeleteFunc(slices.Clone(r.Nodes), func(n cloud.NodeRequest) bool { return had[n.Name] })
	p.ids = append(kept, h.buy(r).ids...)
}

func (a *reference) result(p *purchase) cloud.LaunchResult {
	var res cloud.LaunchResult
	for _, id := range p.ids {
		if m := a.find(id); m != nil {
			if a.bug == hidesEndedFromToken && !m.asked.IsZero() {
				continue
			}
			res.Instances = append(res.Instances, a.show(m))
		}
	}
	for _, s := range p.shortfalls {
		e := *s.Err
		res.Shortfalls = append(res.Shortfalls, cloud.Shortfall{Offering: s.Offering, Nodes: s.Nodes, Err: &e})
	}
	return res
}
