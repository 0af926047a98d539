package config

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/midair-hpc/midair/internal/cloud"
)

// Factors of locality and interconnect: more would mean that the price does
// not matter.
const (
	minFactor = 0.01
	maxFactor = 100
)

const defaultDeadlineMargin = 15 * time.Minute

// poolBuying reads what a pool says about choosing among its offerings.
func (d *document) poolBuying(o object, p *Pool, provider *Provider) {
	p.Placement = PlaceZone
	optional(d, o, "placement", &p.Placement, func(s string) (Placement, error) {
		word, err := oneOf([]string{string(PlaceAny), string(PlaceZone), string(PlaceGroup)})(s)
		return Placement(word), err
	})
	p.Locality = d.factors(o.get("locality"), p, "zone", func(o cloud.Offering) string { return o.Zone })
	p.Interconnect = d.factors(o.get("interconnect"), p, "instance type", func(o cloud.Offering) string { return o.Type })
	at := o.get("aws")
	if provider == nil {
		return
	}
	if provider.Kind != kindAWS {
		if at.given() {
			d.problem(at, "is for providers of kind aws; %s is of kind %s, so remove it", provider.Name, provider.Kind)
		}
		return
	}
	if at.given() {
		a, ok := d.object(at, []string{"launch_template"})
		optional(d, a, "launch_template", &p.AWS.LaunchTemplate, parseLaunchTemplate)
		if !ok || a.get("launch_template").given() {
			return
		}
	}
	if provider.AWS.LaunchTemplate == "" {
		d.problem(o.at, "there is no launch template for this pool; write launch_template at provider %s, or aws: {launch_template: …} here", provider.Name)
	}
}

// factors reads zone or instance type → factor on the price.
func (d *document) factors(at place, p *Pool, what string, of func(cloud.Offering) string) map[string]float64 {
	if !at.given() {
		return nil
	}
	list, ok := d.entries(at)
	if ok && len(list) == 0 {
		d.problem(at, "there is no %s; write %s: FACTOR, or remove the line", what, strings.ToUpper(what))
	}
	var sold []string
	for _, offering := range p.Offerings {
		if name := of(offering); !slices.Contains(sold, name) {
			sold = append(sold, name)
		}
	}
	all := map[string]float64{}
	for _, e := range list {
		// Without offerings, what is wrong with them has been reported.
		if len(sold) > 0 && !slices.Contains(sold, e.name) {
			d.problem(e.key, "%q: no offering of this pool has this %s;%s they have: %s", shorten(e.name), what, didYouMean(e.name, sold), strings.Join(sold, ", "))
			continue
		}
		var f float64
		if scalar(d, e.at, &f, parseFactor) {
			all[e.name] = f
		}
	}
	return all
}

func parseFactor(s string) (float64, error) {
	whole, fraction, hasPoint := strings.Cut(s, ".")
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || !digits(whole) || hasPoint && !digits(fraction) || f < minFactor || f > maxFactor {
		return 0, fault("want a factor on the price from %g to %g, such as 0.8 to make it count as a fifth cheaper", minFactor, float64(maxFactor))
	}
	return f, nil
}

// tierBuying reads what a tier says about markets.
func (d *document) tierBuying(o object, t *Tier, c *Config) {
	t.WhenOutOfStock, t.DeadlineMargin = Fallback, defaultDeadlineMargin
	if o.get("markets").given() {
		t.Markets = words(d, o, "markets", "write at least one market, or remove the line to take them as the pools list them", parseMarket)
	}
	known := optional(d, o, "when_out_of_stock", &t.WhenOutOfStock, parseWhenOut) || !o.get("when_out_of_stock").given()
	optional(d, o, "fallback_after", &t.FallbackAfter, parseDuration)
	optional(d, o, "deadline_margin", &t.DeadlineMargin, parseDuration)
	if at := o.get("fallback_after"); known && at.given() && t.WhenOutOfStock != Fallback {
		d.problem(at, "when_out_of_stock: %s does not use it; remove it, or write when_out_of_stock: fallback", t.WhenOutOfStock)
	}
	if at := o.get("deadline_margin"); known && at.given() && t.WhenOutOfStock != Deadline {
		d.problem(at, "when_out_of_stock: %s does not use it; remove it, or write when_out_of_stock: deadline", t.WhenOutOfStock)
	}
	d.checkTierMarkets(o, t, c)
}

func parseWhenOut(s string) (WhenOut, error) {
	word, err := oneOf([]string{string(Fallback), string(Pause), string(Deadline)})(s)
	return WhenOut(word), err
}

// checkTierMarkets compares a tier's markets with those of its pools.
func (d *document) checkTierMarkets(o object, t *Tier, c *Config) {
	var pools []*Pool
	for _, name := range t.Partitions {
		if p, ok := c.PoolNamed(name); ok && len(p.Offerings) > 0 {
			pools = append(pools, p)
		}
	}
	at := o.get("markets")
	if len(pools) == 0 {
		d.buysNothing(o, t, c)
		return
	}
	sells := func(p *Pool, m cloud.Market) bool {
		return slices.ContainsFunc(p.Offerings, func(o cloud.Offering) bool { return o.Market == m })
	}
	markets := 0
	for _, m := range cloud.Markets {
		sold := slices.ContainsFunc(pools, func(p *Pool) bool { return sells(p, m) })
		listed := slices.Contains(t.Markets, m)
		if sold && (listed || len(t.Markets) == 0) {
			markets++
		}
		if listed && !sold {
			d.problem(at.element(string(m)), "%q: no pool of this tier sells on this market; add it to the offerings of one, or remove it here", m)
		}
	}
	for _, p := range pools {
		if len(t.Markets) > 0 && !slices.ContainsFunc(t.Markets, func(m cloud.Market) bool { return sells(p, m) }) {
			d.warn(at, "pool %s sells on none of these markets, so no job of this tier can start there", p.Name)
		}
	}
	if policy := o.get("when_out_of_stock"); markets == 1 && policy.given() && t.WhenOutOfStock != Pause {
		d.warn(policy, "%s has no effect: the tier's pools sell on one market, so there is nothing to fall back to", t.WhenOutOfStock)
	}
}

// buysNothing reports keys about buying in a tier that has no pool. Partitions
// that nobody defined may be pools that are wrong, which is reported there.
func (d *document) buysNothing(o object, t *Tier, c *Config) {
	if len(c.Pools) == 0 || len(t.Partitions) == 0 || slices.ContainsFunc(c.Pools, func(p Pool) bool { return len(p.Offerings) == 0 }) {
		return
	}
	pools := make([]string, len(c.Pools))
	for i := range c.Pools {
		pools[i] = c.Pools[i].Name
	}
	hint := ""
	for _, p := range t.Partitions {
		if hint == "" {
			hint = didYouMean(p, pools)
		}
	}
	for _, key := range []string{"markets", "when_out_of_stock", "fallback_after", "deadline_margin"} {
		if at := o.get(key); at.given() {
			d.problem(at, "this tier has no pool among its partitions, so it buys nothing; remove it, or add a pool to partitions;%s pools: %s", hint, strings.Join(pools, ", "))
		}
	}
}
