package slurmconf

import (
	"fmt"
	"strings"

	"github.com/midair-hpc/midair/internal/config"
)

// TierTable renders midair_tiers.lua, which contrib/job_submit.lua reads when
// slurmctld loads it. It is data only: which partitions are cloud, and for each
// QOS its tier, the partitions of the tier and the cloud ones among them.
func TierTable(cfg *config.Config) string {
	var b strings.Builder
	fmt.Fprintf(&b, tierHead, cfg.Path, luaString(cfg.Cluster))
	b.WriteString("  cloud = {\n")
	for _, p := range cfg.Pools {
		fmt.Fprintf(&b, "    [%s] = true,\n", luaString(p.Name))
	}
	b.WriteString("  },\n  qos = {\n")
	for _, t := range cfg.Tiers {
		cloud := make([]string, 0, len(t.Partitions))
		for _, name := range t.Partitions {
			if _, ok := cfg.PoolNamed(name); ok {
				cloud = append(cloud, fmt.Sprintf("[%s] = true", luaString(name)))
			}
		}
		set := "{}"
		if len(cloud) > 0 {
			set = "{ " + strings.Join(cloud, ", ") + " }"
		}
		for _, q := range t.QOS {
			fmt.Fprintf(&b, "    [%s] = { tier = %s, partitions = %s, cloud = %s },\n",
				luaString(q), luaString(t.Name), luaString(strings.Join(t.Partitions, ",")), set)
		}
	}
	b.WriteString("  },\n}\n")
	return b.String()
}

const tierHead = `-- midair: the tiers. Made from %s by "midair slurmconf --tiers".
-- Keep it beside job_submit.lua. slurmctld reads both again when job_submit.lua
-- has a new time stamp, so after a change here: touch job_submit.lua.
return {
  version = 1,
  cluster = %s,
`

// luaString quotes s so that every Lua version reads back the same bytes.
func luaString(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ' || c > '~':
			fmt.Fprintf(&b, "\\%03d", c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}
