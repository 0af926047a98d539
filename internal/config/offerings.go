package config

import (
	"slices"
	"strings"

	"github.com/midair-hpc/midair/internal/cloud"
)

// maxOfferings per pool: more than any cloud has zones and fitting types.
const maxOfferings = 1000

// offerings expands a pool's offerings: list entry by entry; within an entry
// market by market, then zone, then type. With a provider, they are checked
// against what it sells.
func (d *document) offerings(o object, p *Pool, provider *Provider) {
	at := o.get("offerings")
	if !at.given() {
		d.missing(o, "offerings", "what may be bought, such as [{types: [g1.small], zones: [zone-a], markets: [spot]}]")
		return
	}
	items, ok := d.list(at)
	if !ok {
		return
	}
	if len(items) == 0 {
		d.problem(at, "the list is empty, so no node of this pool could ever start; write at least one offering")
	}
	seen := map[cloud.Offering]int{}
	for n, item := range items {
		e, ok := d.object(item, []string{"types", "zones", "markets"})
		if !ok {
			continue
		}
		types := words(d, e, "types", "write at least one instance type", parseWord)
		zones := words(d, e, "zones", "write at least one zone", parseWord)
		markets := words(d, e, "markets", "write at least one market", parseMarket)
		if provider != nil && provider.Kind == kindAWS {
			d.checkAWSEntry(e, types, zones, markets, provider)
		} else {
			d.checkSold(e.get("types"), types, markets, provider, p.Node)
		}
		if len(seen)+len(types)*len(zones)*len(markets) > maxOfferings {
			d.problem(item, "more than %d offerings in one pool; list fewer types, zones or markets", maxOfferings)
			return
		}
		for _, m := range markets {
			for _, z := range zones {
				for _, t := range types {
					offering := cloud.Offering{Type: t, Zone: z, Market: m}
					if line, ok := seen[offering]; ok {
						d.problem(item, "%s is listed already in line %d; remove one", offering, line)
						continue
					}
					seen[offering] = item.node.Line
					p.Offerings = append(p.Offerings, offering)
					p.Entries = append(p.Entries, n)
				}
			}
		}
	}
}

// checkSold compares an entry's types with those of the provider. A type that
// is smaller than the pool's nodes is allowed with a warning: the local
// provider uses it to show a spec-mismatch.
func (d *document) checkSold(at place, types []string, markets []cloud.Market, provider *Provider, spec NodeSpec) {
	if provider == nil || len(types) == 0 {
		return
	}
	sold := make([]string, len(provider.Local.Types))
	for i, t := range provider.Local.Types {
		sold[i] = t.Name
	}
	for _, name := range types {
		element := at.element(name)
		j := slices.Index(sold, name)
		if j < 0 {
			d.problem(element, "%q: provider %s has no such type;%s defined: %s", name, provider.Name, didYouMean(name, sold), strings.Join(sold, ", "))
			continue
		}
		t := provider.Local.Types[j]
		for _, m := range markets {
			if _, ok := t.Prices[m]; !ok && len(t.Prices) > 0 {
				d.problem(element, "%q: provider %s does not sell it on the market %s; add a price there, or remove the market here", name, provider.Name, m)
			}
		}
		if t.CPUs < spec.CPUs || t.MemoryMiB < spec.MemoryMiB || t.GPUs < spec.GPUs() {
			d.warn(element, "%s has %d CPUs, %d MiB and %d GPUs, less than the %d CPUs, %d MiB and %d GPUs of the pool's nodes: midair will refuse to launch it (spec-mismatch)",
				name, t.CPUs, t.MemoryMiB, t.GPUs, spec.CPUs, spec.MemoryMiB, spec.GPUs())
		}
	}
}
