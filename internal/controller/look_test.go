package controller

import (
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/ledger"
	"github.com/midair-hpc/midair/internal/slurm"
)

func (w *world) job(id int) slurm.Job { return w.ctld.PeekJob(id) }

func (w *world) node(name string) slurm.Node {
	if list := w.ctld.PeekNodes(name); len(list) > 0 {
		return list[0]
	}
	return slurm.Node{}
}

func (w *world) held(id int) func() bool {
	return func() bool { j := w.job(id); return j.State == "PENDING" && strings.HasPrefix(j.Reason, "JobHeld") }
}

// settled lets idle nodes go and everything end, then checks that nothing is
// left open, billed or forgotten.
func (w *world) settled() {
	w.t.Helper()
	w.until(10*time.Minute, "everything to be powered down", func() bool {
		for _, m := range w.stands {
			if len(there(m)) > 0 {
				return false
			}
		}
		return len(w.c.launches)+len(w.c.intents)+len(w.c.instances) == 0
	})
	w.consistent()
}

// consistent checks what must hold at rest.
func (w *world) consistent() {
	w.t.Helper()
	open, err := w.led.OpenLaunches(w.ctx)
	require.NoError(w.t, err)
	require.Empty(w.t, open, "open launches")
	intents, err := w.led.OpenIntents(w.ctx)
	require.NoError(w.t, err)
	require.Empty(w.t, intents, "open create calls")
	onRecord := map[string]ledger.Instance{}
	all, err := w.led.Instances(w.ctx, time.Time{})
	require.NoError(w.t, err)
	for _, i := range all {
		onRecord[i.ID] = i
	}
	byNode := map[string]string{}
	for _, m := range w.stands {
		for _, i := range m.all() {
			rec, ok := onRecord[i.ID]
			if !ok && ended(i) && (i.EndedAt.Before(w.rebuilt) || m.forgot(i.ID) && i.CreatedAt.Before(w.rebuilt)) {
				continue
			}
			require.True(w.t, ok, "instance %s of node %s was never recorded\n%s", i.ID, i.Node, w.describe())
			require.Equal(w.t, !ended(i), rec.State != ledger.Ended, "instance %s of node %s is %s in the cloud and %s on record\n%s", i.ID, i.Node, i.State, rec.State, w.describe())
			if !ended(i) {
				require.Empty(w.t, byNode[i.Node], "node %s has two live instances", i.Node)
				byNode[i.Node] = i.ID
				require.True(w.t, w.node(i.Node).State.Registered(), "instance %s has no owner\n%s", i.ID, w.describe())
			}
		}
	}
}

func (w *world) launchesOf(id int) []ledger.Launch {
	w.t.Helper()
	list, err := w.led.LaunchesOfJob(w.ctx, id)
	require.NoError(w.t, err)
	return list
}
