package aws

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/midair-hpc/midair/internal/cloud"
)

// Bounds of the pause before a call is repeated.
const (
	backoffFirst = 200 * time.Millisecond
	backoffMax   = 8 * time.Second
)

// callTimeout bounds one try of a call that changes nothing. A create call has
// as long as its caller gives it.
const callTimeout = 30 * time.Second

// backoff is the pause before try n+1, with jitter: callers that were refused
// together do not come back together.
func (p *Provider) backoff(n int) time.Duration {
	d := min(backoffFirst<<min(n, 16), backoffMax)
	return d/2 + time.Duration(p.rand()*float64(d)/2)
}

// read makes a call that changes nothing, or nothing more when it is repeated.
// It is tried again when it is throttled or its answer is lost.
func read[T any](ctx context.Context, p *Provider, action string, do func(context.Context) (T, error)) (T, error) {
	var none T
	for n := 0; ; n++ {
		v, err := once(ctx, p, action, callTimeout, do)
		if err == nil {
			return v, nil
		}
		again := err.Class == cloud.Throttled || err.Ambiguous
		if !again || n+1 >= p.attempts || ctx.Err() != nil {
			return none, err
		}
		if p.sleep(ctx, p.backoff(n)) != nil {
			return none, err
		}
	}
}

// once makes a call at the rate of its action. Its error is a classified one.
func once[T any](ctx context.Context, p *Provider, action string, limit time.Duration, do func(context.Context) (T, error)) (T, *cloud.Error) {
	var none T
	g := p.gates.of(action)
	if err := g.wait(ctx, p.now, p.sleep); err != nil {
		return none, &cloud.Error{Class: cloud.Throttled, Message: "too many " + action + " calls are waiting for their turn", Err: err}
	}
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	v, err := do(ctx)
	if err == nil {
		return v, nil
	}
	e := p.classify(action, "", err)
	if e.Class == cloud.Throttled {
		g.slow(p.now().Add(p.backoff(0)))
	}
	return none, e
}

// gates has one limit of the rate for each action, shared by all callers.
type gates struct {
	mu sync.Mutex
	by map[string]*gate
}

// gate keeps an action to its rate, and shut for a moment after EC2 has said
// that it was too much.
type gate struct {
	limit *rate.Limiter
	mu    sync.Mutex
	until time.Time
}

func (g *gates) of(action string) *gate {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.by[action] == nil {
		if g.by == nil {
			g.by = map[string]*gate{}
		}
		g.by[action] = &gate{limit: limitOf(action)}
	}
	return g.by[action]
}

// limitOf gives an action the rate that EC2 documents for it ("Request
// throttling for the Amazon EC2 API"), less some for others in the account.
func limitOf(action string) *rate.Limiter {
	switch {
	case action == "RunInstances" || action == "StartInstances":
		return rate.NewLimiter(2, 5)
	case action == "CreateTags":
		return rate.NewLimiter(9, 90)
	case action == "TerminateInstances":
		return rate.NewLimiter(5, 50)
	case strings.HasPrefix(action, "Describe"):
		return rate.NewLimiter(15, 80)
	case action == "ListServiceQuotas" || action == "GetProducts":
		return rate.NewLimiter(5, 10)
	}
	return rate.NewLimiter(5, 40)
}

func (g *gate) wait(ctx context.Context, now func() time.Time, sleep func(context.Context, time.Duration) error) error {
	g.mu.Lock()
	shut := g.until.Sub(now())
	g.mu.Unlock()
	if shut > 0 {
		if err := sleep(ctx, shut); err != nil {
			return err
		}
	}
	return g.limit.Wait(ctx)
}

func (g *gate) slow(until time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if until.After(g.until) {
		g.until = until
	}
}

// code is the provider's own code of an error; empty: none.
func code(err error) string {
	var e *cloud.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// notFound reports whether EC2 does not know an instance, or not yet.
func notFound(err error) bool { return strings.HasPrefix(code(err), "InvalidInstanceID") }
