package cells

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"time"

	"github.com/midair-hpc/midair/internal/cell"
)

// Node is a machine that is a Slurm node.
type Node struct {
	Name string
	Addr netip.Addr
	GPUs int
	// OwnDev gives it a /dev of its own, with its GPUs in it. Else they are in
	// the folder dev of the cloud's root, for all nodes.
	OwnDev    bool
	Console   string // file that it prints to
	StartedAt time.Time
	Delay     time.Duration // from StartedAt until Argv starts
	Argv      []string      // nil: it runs and does nothing
}

// Spec is the cell of a node.
func (c *Cells) Spec(n Node) cell.Spec {
	s := cell.Spec{
		Hostname:  n.Name,
		Network:   &cell.Network{Bridge: c.bridge, Address: addressOn(c.network, n.Addr), Gateway: Gateway(c.network)},
		StartedAt: n.StartedAt,
		Delay:     n.Delay,
		Env:       []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C.UTF-8"},
		Log:       n.Console,
		Argv:      n.Argv,
	}
	dev := filepath.Join(c.root, "dev")
	if n.OwnDev && n.GPUs > 0 {
		s.Mounts, dev = ownDev(dev), "/dev"
	}
	for k := range n.GPUs {
		// Slurm takes any character device for a GPU; /dev/null is harmless.
		s.Devices = append(s.Devices, cell.Device{Path: filepath.Join(dev, fmt.Sprintf("nvidia%d", k)), Major: 1, Minor: 3})
	}
	return s
}

// ownDev covers /dev with a layer that is the cell's own; scratch is a folder
// for it. What is mounted below /dev is not in the layer, so the terminals are
// brought back.
func ownDev(scratch string) []cell.Mount {
	up, work, pts := filepath.Join(scratch, "up"), filepath.Join(scratch, "work"), filepath.Join(scratch, "pts")
	return []cell.Mount{
		{Source: "tmpfs", Target: scratch, Type: "tmpfs", Data: "mode=755", MakeDirs: []string{scratch}},
		{Source: "/dev/pts", Target: pts, Bind: true, MakeDirs: []string{pts}},
		{Source: "overlay", Target: "/dev", Type: "overlay", Data: "lowerdir=/dev,upperdir=" + up + ",workdir=" + work, MakeDirs: []string{up, work}},
		{Source: pts, Target: "/dev/pts", Bind: true},
	}
}

// Slurmd says how the slurmd of a node is started.
type Slurmd struct {
	Path string // of slurmd
	Conf string // slurm.conf; empty: Slurm's default
	// Argv is run in its place; %n becomes the node's name. It is for tests,
	// which have no slurmctld.
	Argv []string
}

// Command is a node's slurmd. It reports the time of its start as boot time
// (-b): slurmctld ignores a registration from a machine that booted before the
// power-up was asked for, and cells share this machine's uptime.
func (d Slurmd) Command(node string) []string {
	if d.Argv != nil {
		argv := make([]string, len(d.Argv))
		for i, a := range d.Argv {
			argv[i] = strings.ReplaceAll(a, "%n", node)
		}
		return argv
	}
	argv := []string{d.Path, "-D", "-b", "-N", node}
	if d.Conf != "" {
		argv = append(argv, "-f", d.Conf)
	}
	return argv
}
