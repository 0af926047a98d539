package controller

import (
	"context"
	"time"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/ledger"
)

// nameTimeout bounds a naming call, which keeps to the cloud's rate: EC2 takes
// ten CreateTags a second. What it did not get to is named after a later list.
const nameTimeout = 10 * time.Minute

// name has the provider write onto instances what their create call could not
// say of each, beside the loop.
func (c *Controller) name(ctx context.Context, provider string, instances []cloud.Instance) {
	var (
		keys  []instanceKey
		these []cloud.Instance
	)
	for _, i := range instances {
		k := instanceKey{provider, i.ID}
		if !c.naming[k] {
			c.naming[k] = true
			keys, these = append(keys, k), append(these, i)
		}
	}
	if len(these) == 0 {
		return
	}
	p := c.Providers[provider]
	c.Go(func() {
		call, cancel := context.WithTimeout(ctx, nameTimeout)
		defer cancel()
		if err := p.Name(call, these); err != nil && ctx.Err() == nil {
			c.Log.Warn("name instances; tried again after a later list", "provider", provider, "instances", len(these), "err", err)
		}
		select {
		case c.named <- keys:
		case <-ctx.Done():
		}
	})
}

func (c *Controller) wereNamed(keys []instanceKey) {
	for _, k := range keys {
		delete(c.naming, k)
	}
}

// nameUnnamed names what a list shows without a node and the ledger knows, such
// as after the controller ended between a create call and the naming.
func (c *Controller) nameUnnamed(ctx context.Context, l listing) {
	for provider, list := range l.listed {
		var unnamed []cloud.Instance
		for _, i := range list {
			rec := c.instances[instanceKey{provider, i.ID}]
			if i.Node != "" || !i.Live() || rec == nil || rec.State != ledger.Live {
				continue
			}
			i.Node, i.Generation, i.Launch = rec.Node, rec.Generation, rec.Launch
			if open := c.launches[rec.Launch]; open != nil {
				i.Tags = tags(open.Launch)
			}
			unnamed = append(unnamed, i)
		}
		c.name(ctx, provider, unnamed)
	}
}
