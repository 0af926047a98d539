package slurmconf

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/midair-hpc/midair/internal/config"
)

// GresConf renders the lines of gres.conf for the pools' nodes. GPUs are
// numbered /dev/nvidia0, 1, …; a node of the local provider finds them in the
// folder dev of the provider's root, where the provider makes them as character
// devices that behave as /dev/null. Other Gres are counted only.
func GresConf(cfg *config.Config) string {
	var b strings.Builder
	fmt.Fprintf(&b, gresHead, cfg.Path)
	for i := range cfg.Pools {
		p := &cfg.Pools[i]
		nodes := nodeList(p)
		dev := "/dev"
		if provider, ok := cfg.ProviderNamed(p.Provider); ok && provider.Kind == "local" {
			dev = path.Join(provider.Local.Root, "dev")
		}
		first := 0
		for _, g := range p.Node.Gres {
			fmt.Fprintf(&b, "NodeName=%s Name=%s", nodes, g.Name)
			if g.Type != "" {
				fmt.Fprintf(&b, " Type=%s", g.Type)
			}
			if g.Name == "gpu" {
				fmt.Fprintf(&b, " File=%s\n", devices(dev, first, g.Count))
				first += g.Count
			} else {
				fmt.Fprintf(&b, " Count=%d\n", g.Count)
			}
		}
	}
	return b.String()
}

const gresHead = `# midair: the Gres of its pools. Made from %s by "midair slurmconf --gres-conf".
# Add these lines to the gres.conf of every host, the controller included:
# slurmctld reads it for cloud nodes at its start. AutoDetect does not work for them.
`

func devices(dir string, first, count int) string {
	if count == 1 {
		return fmt.Sprintf("%s/nvidia%d", dir, first)
	}
	return fmt.Sprintf("%s/nvidia[%d-%d]", dir, first, first+count-1)
}

// gresText gives a Gres as the node's line in slurm.conf has it.
func gresText(g config.Gres) string {
	if g.Type == "" {
		return fmt.Sprintf("%s:%d", g.Name, g.Count)
	}
	return fmt.Sprintf("%s:%s:%d", g.Name, g.Type, g.Count)
}

// gresNames lists the names of all pools' Gres, each once, in file order.
func gresNames(pools []config.Pool) []string {
	var names []string
	for _, p := range pools {
		for _, g := range p.Node.Gres {
			if !slices.Contains(names, g.Name) {
				names = append(names, g.Name)
			}
		}
	}
	return names
}
