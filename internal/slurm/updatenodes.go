package slurm

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/midair-hpc/midair/internal/hostlist"
)

// maxReason bounds a node's reason and comment in bytes: slurmdbd keeps a
// reason in 255 (tinytext).
const maxReason = 240

// SetAddresses implements Client. An empty HostName is the node's name.
//
// The error is a *NotAppliedError if Slurm does not know some of the nodes;
// all others have their addresses then. Any other error leaves open which were
// set, and the same call may be repeated.
func (c *Commands) SetAddresses(ctx context.Context, nodes []NodeAddress) error {
	byName := make(map[string]NodeAddress, len(nodes))
	names := make([]string, 0, len(nodes))
	for _, n := range nodes {
		if n.HostName == "" {
			n.HostName = n.Node
		}
		if err := checkAddress(n); err != nil {
			return fmt.Errorf("set node addresses: %w", err)
		}
		if other, ok := byName[n.Node]; ok && other != n {
			return fmt.Errorf("set node addresses: node %s is given both %s (%s) and %s (%s)", n.Node, other.Addr, other.HostName, n.Addr, n.HostName)
		}
		byName[n.Node] = n
		names = append(names, n.Node)
	}
	// Slurm pairs the lists in order; up to 22.05.7 it sorted the node names
	// first, so the lists are in its order from the start.
	names, err := slurmOrder(names)
	if err != nil {
		return fmt.Errorf("set node addresses: %w", err)
	}
	var runs [][]string
	for _, run := range chunk(names, maxArg) {
		runs = append(runs, fitAddresses(run, byName)...)
	}
	return c.eachRun(ctx, "set node addresses", runs, func(run []string) []string {
		addrs, hosts := make([]string, len(run)), make([]string, len(run))
		for i, n := range run {
			addrs[i], hosts[i] = byName[n].Addr, byName[n].HostName
		}
		return []string{"nodename=" + strings.Join(run, ","), "nodeaddr=" + strings.Join(addrs, ","), "nodehostname=" + strings.Join(hosts, ",")}
	})
}

// fitAddresses halves a run of names until its addresses and host names fit
// into an argument each.
func fitAddresses(run []string, byName map[string]NodeAddress) [][]string {
	addrs, hosts := 0, 0
	for _, n := range run {
		addrs += len(byName[n].Addr) + 1
		hosts += len(byName[n].HostName) + 1
	}
	if len(run) < 2 || addrs <= maxArg && hosts <= maxArg {
		return [][]string{run}
	}
	half := len(run) / 2
	return append(fitAddresses(run[:half], byName), fitAddresses(run[half:], byName)...)
}

// checkAddress refuses what would become more or fewer than one element of a
// list.
func checkAddress(n NodeAddress) error {
	if err := checkNodeNames([]string{n.Node}); err != nil {
		return err
	}
	for what, s := range map[string]string{"address": n.Addr, "host name": n.HostName} {
		if s == "" || strings.ContainsAny(s, ",[] ") || strings.ContainsFunc(s, control) {
			return fmt.Errorf("node %s: %s %q: want one plain address or name", n.Node, what, s)
		}
	}
	return nil
}

// UpdateNodes implements Client. No names, or nothing to change, is no call.
// Errors are those of SetAddresses, and one that InvalidState knows where Slurm
// does not allow the state for some of the nodes; it is set for the others.
//
// slurmctld drops a reason given alone as soon as it has set it, unless the node
// is down, drained or failing (seen on 22.05.8; clusteracct_storage_g_node_up
// does it, also in 26.05). Given with State=power_down or power_down_force it
// stays.
func (c *Commands) UpdateNodes(ctx context.Context, names []string, u NodeUpdate) error {
	if err := checkNodeNames(names); err != nil {
		return fmt.Errorf("update nodes: %w", err)
	}
	var changes []string
	if u.State != "" {
		if strings.ContainsFunc(u.State, func(r rune) bool { return r != '_' && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') }) {
			return fmt.Errorf("update nodes: state %q: want one such as resume or power_down_force", u.State)
		}
		changes = append(changes, "state="+u.State)
	}
	if u.Reason != "" {
		changes = append(changes, "reason="+oneLine(u.Reason, maxReason))
	}
	if u.Comment != "" {
		changes = append(changes, "comment="+oneLine(u.Comment, maxReason))
	}
	if len(names) == 0 || len(changes) == 0 {
		return nil
	}
	runs, err := foldChunks(names, maxArg)
	if err != nil {
		return fmt.Errorf("update nodes: %w", err)
	}
	return c.eachRun(ctx, "update nodes", runs, func(run []string) []string {
		return append([]string{"nodename=" + hostlist.FoldSorted(run)}, changes...)
	})
}

// eachRun updates one run of nodes after the other. slurmctld stops at the
// first name that it does not know, with those before it updated and those
// behind it not (update_node, 22.05 to 26.05), so the unknown ones are looked
// for and the others updated again.
func (c *Commands) eachRun(ctx context.Context, what string, runs [][]string, args func(run []string) []string) error {
	var unknown []string
	var said error
	for _, run := range runs {
		_, err := c.run(ctx, scontrol, append([]string{"update"}, args(run)...)...)
		if NotFound(err) {
			missing, rest, look := c.unknown(ctx, run)
			switch {
			case look != nil:
				return fmt.Errorf("%s: %w", what, errors.Join(err, look))
			case len(missing) == 0:
				return fmt.Errorf("%s: %w", what, err)
			}
			unknown, said = append(unknown, missing...), err
			if err = nil; len(rest) > 0 {
				_, err = c.run(ctx, scontrol, append([]string{"update"}, args(rest)...)...)
			}
		}
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
	}
	if len(unknown) > 0 {
		return fmt.Errorf("%s: %w", what, &NotAppliedError{Nodes: unknown, Err: said})
	}
	return nil
}

// unknown splits names into those that Slurm does not have and those it has.
func (c *Commands) unknown(ctx context.Context, names []string) (missing, rest []string, err error) {
	nodes, err := c.Nodes(ctx, names...)
	if err != nil {
		return nil, nil, err
	}
	known := make(map[string]bool, len(nodes))
	for _, n := range nodes {
		known[n.Name] = true
	}
	for _, n := range names {
		if known[n] {
			rest = append(rest, n)
		} else {
			missing = append(missing, n)
		}
	}
	return missing, rest, nil
}

// oneLine makes a text fit for a reason or comment: no line breaks, which
// break the tables of sinfo and squeue, and at most n bytes.
func oneLine(text string, n int) string {
	text = strings.Map(func(r rune) rune {
		if control(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, "?"))
	return shorten(strings.TrimSpace(text), n)
}
