package config

import (
	"slices"
	"strings"
	"time"

	"github.com/midair-hpc/midair/internal/hostlist"
)

// maxCPUs is what slurm.conf can hold for a node.
const maxCPUs = 65533

func (d *document) pools(at place, c *Config, providers []string) {
	if !at.given() {
		d.warn(place{}, "there are no pools: midair will buy nothing")
		return
	}
	items, _ := d.list(at)
	c.poolByNode = map[string]int{}
	lines := make([]int, 0, len(items))
	total := 0
	for _, item := range items {
		o, ok := d.object(item, []string{"name", "nodes", "provider", "node", "offerings", "weight",
			"placement", "locality", "interconnect", "aws", "suspend_time", "resume_timeout", "suspend_timeout"}, later("images"))
		if !ok {
			continue
		}
		var p Pool
		if required(d, o, "name", &p.Name, parsePartition, "the pool's name, which is also its partition's") {
			for i := range c.Pools {
				if c.Pools[i].Name == p.Name {
					d.problem(o.get("name"), "%q: the pool of line %d has the same name; rename one", p.Name, lines[i])
				}
			}
		}
		d.nodes(o, &p)
		if total += len(p.NodeNames); total > maxNodes {
			d.problem(o.get("nodes"), "that makes %d nodes, and Slurm holds at most %d in a cluster", total, maxNodes)
			return
		}
		d.poolTimes(o, &p)
		d.nodeSpec(o, &p.Node)
		d.poolProvider(o, &p, c, providers)
		c.Pools = append(c.Pools, p)
		lines = append(lines, item.node.Line)
		d.claim(o.get("nodes"), c, lines)
	}
	d.checkNetworks(at, c)
	d.checkReservations(c)
}

func (d *document) nodes(o object, p *Pool) {
	at := o.get("nodes")
	if !required(d, o, "nodes", &p.Nodes, func(s string) (string, error) { return s, nil }, "a hostlist, such as a100-spot-[001-064]") {
		return
	}
	names, err := hostlist.Expand(p.Nodes)
	switch {
	case err != nil:
		d.problem(at, "%v", err)
		return
	case len(names) == 0:
		d.problem(at, "there is no node; write a hostlist, such as a100-spot-[001-064]")
		return
	}
	for _, n := range names {
		if !word(n) {
			d.problem(at, "%q: want a node name of at most 63 letters, digits, _ . and -", shorten(n))
			return
		}
	}
	p.NodeNames = names
}

// claim enters the last pool's nodes into the index and reports those that
// are in it already.
func (d *document) claim(at place, c *Config, lines []int) {
	last := len(c.Pools) - 1
	taken := make(map[int][]string)
	for _, n := range c.Pools[last].NodeNames {
		if i, ok := c.poolByNode[n]; ok {
			taken[i] = append(taken[i], n)
			continue
		}
		c.poolByNode[n] = last
	}
	for i := 0; i <= last; i++ {
		nodes := taken[i]
		if len(nodes) == 0 {
			continue
		}
		slices.Sort(nodes)
		folded := hostlist.FoldSorted(slices.Compact(nodes))
		if i == last {
			d.problem(at, "%s is listed more than once; name each node once", folded)
			continue
		}
		d.problem(at, "pool %q (line %d) and pool %q (line %d) both have %s; a node can be in one pool only",
			c.Pools[i].Name, lines[i], c.Pools[last].Name, lines[last], folded)
	}
}

func (d *document) poolTimes(o object, p *Pool) {
	p.Weight = defaultWeight
	p.SuspendTime, p.ResumeTimeout, p.SuspendTimeout = 10*time.Minute, 10*time.Minute, 2*time.Minute
	optional(d, o, "weight", &p.Weight, number(0, 1_000_000))
	optional(d, o, "suspend_time", &p.SuspendTime, slurmSeconds)
	optional(d, o, "resume_timeout", &p.ResumeTimeout, slurmSeconds)
	optional(d, o, "suspend_timeout", &p.SuspendTimeout, slurmSeconds)
}

func (d *document) nodeSpec(o object, s *NodeSpec) {
	at := o.get("node")
	if !at.given() {
		d.missing(o, "node", "what each node promises to Slurm, such as {cpus: 96, memory: 1100G}")
		return
	}
	n, ok := d.object(at, []string{"cpus", "memory", "gres", "features"})
	if !ok {
		return
	}
	required(d, n, "cpus", &s.CPUs, number(1, maxCPUs), "how many CPUs each node has")
	required(d, n, "memory", &s.MemoryMiB, parseMemory, "how much memory each node has, such as 1100G")
	optional(d, n, "gres", &s.Gres, parseGres)
	if n.get("features").given() {
		s.Features = words(d, n, "features", "write at least one feature, or remove the line", parseFeature)
	}
}

func (d *document) poolProvider(o object, p *Pool, c *Config, providers []string) {
	known := required(d, o, "provider", &p.Provider, parseWord, "the provider that sells these nodes")
	if known && !slices.Contains(providers, p.Provider) {
		at := o.get("provider")
		if len(providers) == 0 {
			d.problem(at, "%q: there are no providers; define it under providers", p.Provider)
		} else {
			d.problem(at, "%q: no such provider;%s defined: %s", p.Provider, didYouMean(p.Provider, providers), strings.Join(providers, ", "))
		}
	}
	provider, ok := c.ProviderNamed(p.Provider)
	if !known || !ok {
		provider = nil
	}
	d.offerings(o, p, provider)
	d.poolBuying(o, p, provider)
}

// checkNetworks warns where a provider cannot have all its pools' nodes up at
// once.
func (d *document) checkNetworks(at place, c *Config) {
	for _, p := range c.Providers {
		nodes := 0
		for i := range c.Pools {
			if c.Pools[i].Provider == p.Name {
				nodes += len(c.Pools[i].NodeNames)
			}
		}
		if room := addresses(p.Local.Network); p.Kind == "local" && nodes > room {
			d.warn(at, "provider %s has addresses for %d instances in %s, but its pools have %d nodes", p.Name, room, p.Local.Network, nodes)
		}
	}
}

// parsePartition reads the name of a partition. DEFAULT is Slurm's word for
// the defaults of all partitions.
func parsePartition(s string) (string, error) {
	if strings.EqualFold(s, "default") {
		return "", fault("Slurm does not take this as a partition's name; choose another")
	}
	return parseWord(s)
}

// parseFeature refuses what has a meaning in a job's --constraint.
func parseFeature(s string) (string, error) {
	if s == "" || strings.ContainsAny(s, "&|*[](){},;!#\"'=\\ \t\r\n") || len(s) > 255 {
		return "", fault("a feature must not have blanks or any of & | * [ ] ( ) { } , ; ! # = or quotes")
	}
	for _, r := range s {
		if r < ' ' || r > '~' {
			return "", fault("a feature must be in plain ASCII")
		}
	}
	return s, nil
}
