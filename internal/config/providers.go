package config

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/midair-hpc/midair/internal/cloud"
)

// Kinds of providers, and the keys of each beside kind.
const (
	kindLocal = "local"
	kindAWS   = "aws"
)

var (
	kinds     = []string{kindLocal, kindAWS}
	localKeys = []string{"root", "network", "boot_delay", "slurmd", "types"}
	awsKeys   = []string{"region", "endpoint", "profile", "credentials_file", "launch_template", "subnets",
		"spot_allocation", "price_file", "reservations"}
)

// providers reads the providers and gives every name in the file, also of
// those that are wrong, so that a pool that names one is not reported again.
func (d *document) providers(at place, c *Config) []string {
	if !at.given() {
		return nil
	}
	list, _ := d.entries(at)
	var names []string
	for _, e := range list {
		names = append(names, e.name)
		if _, err := parseWord(e.name); err != nil {
			d.problem(e.key, "%q: %v", shorten(e.name), err)
			continue
		}
		if p, ok := d.provider(e); ok {
			c.Providers = append(c.Providers, p)
		}
	}
	return names
}

func (d *document) provider(e entry) (Provider, bool) {
	p := Provider{Name: e.name}
	keys, refused := append([]string{"kind"}, localKeys...), []refusal(nil)
	// The kind decides which keys are right, so it is looked at first.
	switch kind := e.at.peek("kind"); {
	case kind.given() && resolve(kind.node).Value == kindLocal:
		refused = []refusal{{awsKeys, "is for providers of kind aws; this one is of kind local, so remove it"}}
	case kind.given() && resolve(kind.node).Value == kindAWS:
		keys = append([]string{"kind"}, awsKeys...)
		refused = []refusal{{localKeys, "is for providers of kind local; this one is of kind aws, so remove it"}}
	default:
		keys = append(keys, awsKeys...)
	}
	o, ok := d.object(e.at, keys, refused...)
	if !ok || !required(d, o, "kind", &p.Kind, parseKind, "one of "+strings.Join(kinds, ", ")) {
		return p, false
	}
	if p.Kind == kindAWS {
		d.aws(o, &p.AWS)
	} else {
		d.local(o, &p.Local)
	}
	return p, true
}

func parseKind(s string) (string, error) {
	if !slices.Contains(kinds, s) {
		return "", fault("unknown kind;%s allowed: %s", didYouMean(s, kinds), strings.Join(kinds, ", "))
	}
	return s, nil
}

func (d *document) local(o object, l *Local) {
	*l = Local{Root: defaultLocalRoot, Network: defaultNetwork, BootDelay: 2 * time.Second, Slurmd: defaultSlurmd}
	optional(d, o, "root", &l.Root, parsePath)
	optional(d, o, "network", &l.Network, parseNetwork)
	optional(d, o, "boot_delay", &l.BootDelay, parseDuration)
	optional(d, o, "slurmd", &l.Slurmd, parsePath)
	at := o.get("types")
	if !at.given() {
		d.missing(o, "types", "the instance types that this provider sells")
		return
	}
	list, ok := d.entries(at)
	if ok && len(list) == 0 {
		d.problem(at, "there is no instance type; write at least one")
	}
	for _, e := range list {
		if _, err := parseWord(e.name); err != nil {
			d.problem(e.key, "%q: %v", shorten(e.name), err)
			continue
		}
		l.Types = append(l.Types, d.localType(e))
	}
}

func (d *document) localType(e entry) LocalType {
	t := LocalType{Name: e.name}
	o, ok := d.object(e.at, []string{"cpus", "memory", "gpus", "prices"})
	if !ok {
		return t
	}
	required(d, o, "cpus", &t.CPUs, number(1, maxCPUs), "how many CPUs an instance has")
	required(d, o, "memory", &t.MemoryMiB, parseMemory, "how much memory an instance has, such as 16G")
	optional(d, o, "gpus", &t.GPUs, number(0, 1024))
	at := o.get("prices")
	if !at.given() {
		d.missing(o, "prices", "what an instance-hour costs on each market, such as {on-demand: 1.20 USD}")
		return t
	}
	list, ok := d.entries(at)
	if ok && len(list) == 0 {
		d.problem(at, "there is no price; write one for each market the type is sold on")
	}
	t.Prices = map[cloud.Market]cloud.MicroUSD{}
	for _, e := range list {
		market, err := parseMarket(e.name)
		if err != nil {
			d.problem(e.key, "%v", err)
			continue
		}
		var price cloud.MicroUSD
		if scalar(d, e.at, &price, parsePrice) {
			t.Prices[market] = price
		}
	}
	return t
}

func parseMarket(s string) (cloud.Market, error) {
	if m := cloud.Market(s); slices.Contains(cloud.Markets, m) {
		return m, nil
	}
	names := make([]string, len(cloud.Markets))
	for i, m := range cloud.Markets {
		names[i] = string(m)
	}
	return "", fault("unknown market;%s allowed: %s", didYouMean(s, names), strings.Join(names, ", "))
}

// parseNetwork wants room for at least a bridge and an instance.
func parseNetwork(s string) (string, error) {
	p, err := netip.ParsePrefix(s)
	if err != nil || !p.Addr().Is4() {
		return "", errors.New("want an IPv4 network, such as 10.213.0.0/22")
	}
	if p.Masked() != p {
		return "", fault("the address is inside the network; write %s", p.Masked())
	}
	if p.Bits() < 8 || p.Bits() > 29 {
		return "", errors.New("want a network between /8 and /29")
	}
	return s, nil
}

// addresses is how many instances fit into a network: not its first and last
// address, nor the bridge's.
func addresses(network string) int {
	p, err := netip.ParsePrefix(network)
	if err != nil {
		return 0
	}
	return 1<<(32-p.Bits()) - 3
}
