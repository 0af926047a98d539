package config

import (
	"errors"
	"strings"
)

func (d *document) tiers(at place, c *Config) {
	if !at.given() {
		return
	}
	items, _ := d.list(at)
	c.tierByQOS = map[string]int{}
	pools := make([]string, len(c.Pools))
	used := map[string]bool{}
	for i := range c.Pools {
		pools[i] = c.Pools[i].Name
	}
	lines := make([]int, 0, len(items))
	for _, item := range items {
		o, ok := d.object(item, []string{"name", "qos", "partitions", "markets", "when_out_of_stock", "fallback_after", "deadline_margin"},
			later("burst_after"))
		if !ok {
			continue
		}
		var t Tier
		if required(d, o, "name", &t.Name, parseWord, "the tier's name, such as p1") {
			for i := range c.Tiers {
				if c.Tiers[i].Name == t.Name {
					d.problem(o.get("name"), "%q: the tier of line %d has the same name; rename one", t.Name, lines[i])
				}
			}
		}
		t.QOS = words(d, o, "qos", "write at least one QOS whose jobs belong to this tier", parseQOS)
		t.Partitions = words(d, o, "partitions", "write at least one partition where the tier's jobs may run", parsePartition)
		for _, p := range t.Partitions {
			used[p] = true
			if _, isPool := c.PoolNamed(p); isPool {
				continue
			}
			if w, ok := nearest(p, pools, 1); ok {
				d.warn(o.get("partitions"), "%q is no pool, so it is taken as a partition on the premises; did you mean the pool %q?", p, w)
			}
		}
		d.tierBuying(o, &t, c)
		c.Tiers = append(c.Tiers, t)
		lines = append(lines, item.node.Line)
		d.claimQOS(o.get("qos"), c, lines)
	}
	for _, p := range pools {
		if p != "" && !used[p] {
			d.warn(at, "no tier names the pool %q among its partitions, so only jobs of QOSes in no tier can use it", p)
		}
	}
}

// claimQOS enters the last tier's QOSes into the index and reports those that
// another tier has.
func (d *document) claimQOS(at place, c *Config, lines []int) {
	last := len(c.Tiers) - 1
	for _, q := range c.Tiers[last].QOS {
		if i, ok := c.tierByQOS[q]; ok {
			d.problem(at, "QOS %q is in tier %q (line %d) and in tier %q (line %d); a QOS can be in one tier only",
				q, c.Tiers[i].Name, lines[i], c.Tiers[last].Name, lines[last])
			continue
		}
		c.tierByQOS[q] = last
	}
}

// parseQOS gives the name in lower case: sacctmgr stores it so, and slurmctld
// takes P1 for p1.
func parseQOS(s string) (string, error) {
	bad := func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`,="'\`, r) }
	if s == "" || len(s) > 255 || strings.ContainsFunc(s, bad) {
		return "", errors.New("want the name of one QOS, without blanks, commas or quotes")
	}
	return strings.ToLower(s), nil
}
