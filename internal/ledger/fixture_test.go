package ledger

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/cloud"
)

var noon = time.Date(2026, 3, 4, 12, 0, 0, 123456789, time.UTC)

func clock() time.Time { return noon }

var quiet = slog.New(slog.DiscardHandler)

var (
	spotA = cloud.Offering{Type: "p4d.24xlarge", Zone: "us-east-1a", Market: cloud.Spot}
	spotB = cloud.Offering{Type: "p4d.24xlarge", Zone: "us-east-1b", Market: cloud.Spot}
)

func fresh(t testing.TB) *Ledger {
	t.Helper()
	l, r, err := Open(t.Context(), filepath.Join(t.TempDir(), "ledger.db"), quiet, clock)
	require.NoError(t, err)
	require.True(t, r.Created)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	return l
}

func update(t testing.TB, l *Ledger, fn func(tx *Tx) error) {
	t.Helper()
	require.NoError(t, l.Update(context.WithoutCancel(t.Context()), fn))
}

// aLaunch gives a launch of nodes named ID-0, ID-1, …
func aLaunch(id string, job, nodes int, at time.Time) Launch {
	l := Launch{
		ID: id, JobID: job, Tier: "p2", QOS: "spot", User: "ada", Account: "ml", Partition: "gpu",
		State: Launching, CreatedAt: at,
	}
	for n := range nodes {
		l.Nodes = append(l.Nodes, LaunchNode{Node: fmt.Sprintf("%s-%d", id, n), Generation: 1, Pool: "a100-spot", Provider: "east"})
	}
	return l
}

func anIntent(token string, l Launch) Intent {
	in := Intent{Token: token, Provider: "east", Pool: "a100-spot", Offerings: []cloud.Offering{spotA, spotB}, AllOrNothing: true, Open: true, CreatedAt: l.CreatedAt}
	for _, n := range l.Nodes {
		in.Nodes = append(in.Nodes, IntentNode{Node: n.Node, Generation: n.Generation, Launch: l.ID})
	}
	return in
}

// instancesOf gives a live instance for each node of a launch.
func instancesOf(l Launch, token string) []Instance {
	var list []Instance
	for _, n := range l.Nodes {
		list = append(list, Instance{
			Provider: "east", ID: "i-" + n.Node, Node: n.Node, Generation: n.Generation, Launch: l.ID, Token: token, Pool: n.Pool,
			Offering: spotA, Addr: "10.0.0.1", HostName: n.Node + ".internal", Price: 9_832_000, State: Live, CreatedAt: l.CreatedAt.Add(time.Second),
		})
	}
	return list
}
