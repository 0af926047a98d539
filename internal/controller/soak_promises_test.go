package controller

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/ledger"
	"github.com/midair-hpc/midair/internal/reconcile"
	"github.com/midair-hpc/midair/internal/slurm"
	"github.com/midair-hpc/midair/internal/slurm/slurmtest"
)

type (
	slurmNode   = slurm.Node
	slurmUpdate = slurm.NodeUpdate
)

// guard is a Slurm that sees to it that midair leaves nodes alone that somebody
// else has.
type guard struct {
	slurm.Client
	ctld   *slurmtest.Ctld
	broken func(what string)
}

func (g *guard) UpdateNodes(ctx context.Context, names []string, u slurm.NodeUpdate) error {
	if u.State != "" && len(names) > 0 {
		for _, n := range g.ctld.PeekNodes(names...) {
			if reconcile.Theirs(n) {
				g.broken(fmt.Sprintf("midair sets node %s to %s, which somebody has: %s (%s)", n.Name, u.State, n.State, n.Reason))
			}
		}
	}
	return g.Client.UpdateNodes(ctx, names, u)
}

// look notes since when instances have had no owner, and that no node is
// carried by two that are both meant to stay.
func (s *soak) look() {
	live := map[string]string{}
	orphans := map[string]time.Time{}
	for _, m := range s.stands {
		for _, i := range there(m) {
			rec := s.c.instances[instanceKey{m.id(), i.ID}]
			if rec != nil && rec.State == ledger.Live && i.State != cloud.Stopped {
				require.Empty(s.t, live[rec.Node], "%s and %s both carry %s\n%s", live[rec.Node], i.ID, rec.Node, s.describe())
				live[rec.Node] = i.ID
			}
			n := s.node(i.Node)
			wanted := !n.State.PoweredDown() && !n.State.Has("POWERING_DOWN") || n.State.PoweringUp()
			owned := wanted && (rec != nil || s.works(i) || reconcile.Theirs(n)) || s.c.intents[i.Token] != nil
			if !owned {
				if orphans[i.ID] = s.orphaned[i.ID]; orphans[i.ID].IsZero() {
					orphans[i.ID] = s.now
				}
			}
		}
	}
	s.orphaned = orphans
}

// owned: after a while of calm no instance has been without an owner for longer
// than the grace and the passes that it takes, and no node has two.
func (s *soak) owned() {
	longest := s.conf.Reconcile.Grace + 4*s.conf.Reconcile.Every
	for id, since := range s.orphaned {
		require.Less(s.t, s.now.Sub(since), longest, "%s has no owner\n%s", id, s.describe())
	}
	byNode := map[string]string{}
	for _, m := range s.stands {
		for _, i := range there(m) {
			if s.now.Sub(i.CreatedAt) > longest {
				require.Empty(s.t, byNode[i.Node], "%s and %s are both of node %s\n%s", byNode[i.Node], i.ID, i.Node, s.describe())
				byNode[i.Node] = i.ID
			}
		}
	}
}

// mostOver bounds what the ledger may count of one instance after its end: how
// long midair could not be told that it had ended. Trouble lasts for an hour and
// a half at most, and an instance that is not listed is not lost as long as
// Slurm does not answer.
const mostOver = 2 * time.Hour

// counted compares the ledger with the clouds' own record of who lived when.
// What ended before a lost ledger was rebuilt may be missing from the new one,
// and what the cloud then forgot.
func (s *soak) counted(calm bool) {
	all, err := s.led.Instances(s.ctx, time.Time{})
	require.NoError(s.t, err)
	onRecord := map[string]ledger.Instance{}
	for _, i := range all {
		onRecord[i.ID] = i
	}
	s.lived, s.over = 0, 0
	for _, m := range s.stands {
		for _, i := range m.all() {
			rec, ok := onRecord[i.ID]
			young := calm && s.now.Sub(i.CreatedAt) < 5*time.Minute
			if !ok && (young || s.ledgers > 0 && ended(i) && (i.EndedAt.Before(s.rebuilt) || m.forgot(i.ID) && i.CreatedAt.Before(s.rebuilt))) {
				continue
			}
			if _, waits := s.orphaned[i.ID]; !ok && calm && (waits || s.works(i) || reconcile.Theirs(s.node(i.Node))) {
				continue // it cannot be taken over, or not yet be touched
			}
			require.True(s.t, ok, "instance %s of node %s was never recorded\n%s", i.ID, i.Node, s.describe())
			require.False(s.t, rec.CreatedAt.After(i.CreatedAt.Add(s.rough)), "%s was created %s and counts from %s", i.ID, i.CreatedAt, rec.CreatedAt)
			if rec.State != ledger.Ended {
				continue
			}
			require.True(s.t, ended(i), "%s ended on record only\n%s", i.ID, s.describe())
			over := rec.EndedAt.Sub(i.EndedAt)
			require.GreaterOrEqual(s.t, over, -s.rough, "%s ended %s and counts to %s", i.ID, i.EndedAt, rec.EndedAt)
			require.LessOrEqual(s.t, over, mostOver, "%s of %s ended %s and counts to %s (%s)", i.ID, i.Node, i.EndedAt, rec.EndedAt, rec.EndCause)
			s.over += over
			s.lived += i.EndedAt.Sub(i.CreatedAt)
		}
	}
}

// works: a node of Slurm's is up at the instance's address.
func (s *soak) works(i cloud.Instance) bool {
	n := s.node(i.Node)
	return n.Addr == i.Addr && (n.State.Registered() || n.State.Allocated())
}

// noJobLost: each has ended, runs, waits for a time not far away, or is held
// with a reason.
func (s *soak) noJobLost() {
	for _, id := range s.jobs {
		switch j := s.job(id); {
		case j.Ended(), j.State == "RUNNING", j.State == "CONFIGURING":
		case s.held(id)():
			require.Contains(s.t, j.Comment+j.AdminComment, "midair: ", "job %d is held without a reason", id)
		default:
			require.Equal(s.t, "PENDING", j.State, "job %d", id)
			require.Less(s.t, j.StartTime.Sub(s.now), 2*s.conf.Retry.Max, "job %d waits for %s\n%s", id, j.StartTime, s.describe())
		}
	}
}

func (s *soak) jobsDone() bool {
	for _, id := range s.jobs {
		j := s.job(id)
		if !j.Ended() && !(s.held(id)() && strings.Contains(j.Comment+j.AdminComment, "midair: ")) {
			return false
		}
	}
	return true
}
