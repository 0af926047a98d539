package slurm

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/midair-hpc/midair/internal/hostlist"
)

// maxArg bounds one argument in bytes. Linux allows 128 KiB less one
// (MAX_ARG_STRLEN), a key such as "nodename=" included.
const maxArg = 96 << 10

// Nodes implements Client with one `scontrol -a -o show node`, however many
// nodes are named: scontrol loads all nodes anyway, 5,000 in 45 ms on 22.05.8
// and two cores, and printing them all takes 20 ms more.
//
// Before 23.02 slurmctld shows powered-down cloud nodes to nobody unless
// slurm.conf has PrivateData=cloud: without it they are absent here, and
// neither -a nor -F helps (seen on 22.05.8).
func (c *Commands) Nodes(ctx context.Context, names ...string) ([]Node, error) {
	args := []string{"-a", "-o", "show", "node"}
	var wanted map[string]bool
	if len(names) > 0 {
		if err := checkNodeNames(names); err != nil {
			return nil, fmt.Errorf("show nodes: %w", err)
		}
		wanted = make(map[string]bool, len(names))
		for _, n := range names {
			wanted[n] = true
		}
		if folded := hostlist.FoldSorted(names); len(folded) <= maxArg {
			args = append(args, folded)
		}
	}
	out, err := c.run(ctx, scontrol, args...)
	if err != nil && !(len(names) > 0 && onlyUnknownNodes(out, err)) {
		return nil, fmt.Errorf("show nodes: %w", err)
	}
	nodes := parseNodes(out)
	if wanted == nil {
		return nodes, nil
	}
	found := nodes[:0]
	for _, n := range nodes {
		if wanted[n.Name] {
			found = append(found, n)
			// A second record of the same name can only be text in a comment.
			delete(wanted, n.Name)
		}
	}
	return found, nil
}

// onlyUnknownNodes reports whether scontrol failed for no other reason than
// that it does not know some of the nodes: it exits 1 and says so on standard
// output. Where it could not ask slurmctld it prints nothing there.
func onlyUnknownNodes(out []byte, err error) bool {
	e, ok := errors.AsType[*CommandError](err)
	if !ok || e.ExitCode != 1 {
		return false
	}
	for line := range strings.Lines(string(out)) {
		if unknownNode(strings.TrimRight(line, "\n")) {
			return true
		}
	}
	return false
}

// checkNodeNames refuses names that Slurm would read as more than one node, or
// as an option.
func checkNodeNames(names []string) error {
	for _, n := range names {
		switch {
		case n == "":
			return errors.New("a node name is empty")
		case strings.EqualFold(n, "ALL"):
			return fmt.Errorf("node name %q: Slurm reads it as every node", n)
		case n[0] == '-' || strings.ContainsAny(n, ",[](){}=@\"'\\ ") || strings.ContainsFunc(n, control):
			return fmt.Errorf("node name %q: want one plain name", n)
		}
	}
	return nil
}

func control(r rune) bool { return r < ' ' || r == 0x7f }
