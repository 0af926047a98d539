package controller

import (
	"context"
	"time"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/planner"
)

// Prices are asked for at the start, which waits for them a moment, and then
// every few minutes beside the loop: spot prices move a few times a day.
const (
	firstPrices  = 10 * time.Second
	pricesTime   = time.Minute
	refreshEvery = 5 * time.Minute
)

// learnPrices asks for the offerings' prices, by which equals are compared and
// which go on record with each instance. Without an answer instances are still
// bought; their price is then 0.
func (c *Controller) learnPrices(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, firstPrices)
	defer cancel()
	c.priced(c.pricesNow(ctx))
}

// askPrices asks again when it is time.
func (c *Controller) askPrices(ctx context.Context) {
	if c.nextPrices.IsZero() || c.Now().Before(c.nextPrices) {
		return
	}
	c.nextPrices = c.Now().Add(refreshEvery)
	c.Go(func() {
		call, cancel := context.WithTimeout(ctx, pricesTime)
		defer cancel()
		p := c.pricesNow(call)
		select {
		case c.newPrices <- p:
		case <-ctx.Done():
		}
	})
}

func (c *Controller) priced(p map[planner.Key]cloud.MicroUSD) {
	for k, v := range p {
		c.prices[k] = v
	}
	c.nextPrices = c.Now().Add(refreshEvery)
}

// pricesNow asks every pool's provider. It reads nothing that changes.
func (c *Controller) pricesNow(ctx context.Context) map[planner.Key]cloud.MicroUSD {
	prices := map[planner.Key]cloud.MicroUSD{}
	for _, p := range c.pools {
		quotes, err := c.Providers[p.Provider].Quotes(ctx, p.Offerings)
		if err != nil {
			if ctx.Err() == nil {
				c.Log.Error("ask for prices", "pool", p.Name, "provider", p.Provider, "err", err)
			}
			continue
		}
		for _, q := range quotes {
			prices[planner.Key{Provider: p.Provider, Offering: q.Offering}] = q.Price
		}
	}
	return prices
}
