package ledger

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/cloud"
)

// record gives what the ledger holds about an instance of "east".
func record(t *testing.T, l *Ledger, id string) Instance {
	t.Helper()
	all, err := l.instances(t.Context(), "instance", selectInstances+`WHERE provider = 'east' AND id = ?`, id)
	require.NoError(t, err)
	require.Len(t, all, 1)
	return all[0]
}

func addInstances(t *testing.T, l *Ledger, list ...Instance) {
	t.Helper()
	update(t, l, func(tx *Tx) error { return tx.AddInstances(list) })
}

func TestInstanceKeepsEveryField(t *testing.T) {
	l := fresh(t)
	want := Instance{
		Provider: "east", ID: "i-1", Node: "n1", Generation: 4, Launch: "L1", Token: "t1", Pool: "a100-spot",
		Offering: cloud.Offering{Type: "p4d/odd", Zone: "", Market: "unheard-of"}, Addr: "10.0.0.1", HostName: "ip-10-0-0-1",
		Price: 9_832_123, State: Terminating, CreatedAt: noon, ReadyAt: noon.Add(time.Minute), EndedAt: noon.Add(time.Hour),
		EndCause: "reclaimed", Console: "boot \x00 \x1b[31mred\xff\xfe\n",
	}
	addInstances(t, l, want)
	require.Equal(t, want, record(t, l, "i-1"))
}

func TestAddInstancesIsAnUpsertThatTakesNothingAway(t *testing.T) {
	full := Instance{
		Provider: "east", ID: "i-1", Node: "n1", Generation: 4, Launch: "L1", Token: "t1", Pool: "a", Offering: spotA,
		Addr: "10.0.0.1", HostName: "h1", Price: 100, State: Live, CreatedAt: noon, ReadyAt: noon.Add(time.Minute), Console: "c",
	}
	edit := func(fn func(i *Instance)) Instance { i := full; fn(&i); return i }
	ended := edit(func(i *Instance) { i.State, i.EndedAt, i.EndCause = Ended, noon.Add(time.Hour), "suspended" })
	leaving := edit(func(i *Instance) { i.State, i.EndCause = Terminating, "suspended" })
	for name, c := range map[string]struct{ old, add, want Instance }{
		"the same again": {full, full, full},
		"address and host name are learned": {
			edit(func(i *Instance) { i.Addr, i.HostName = "", "" }), full, full},
		"a bare listing keeps what is known": {
			full, Instance{Provider: "east", ID: "i-1", State: Live}, full},
		"a bare record is filled in": {
			Instance{Provider: "east", ID: "i-1", State: Live}, full, full},
		"the address may change": {
			full, edit(func(i *Instance) { i.Addr = "10.0.0.2" }), edit(func(i *Instance) { i.Addr = "10.0.0.2" })},
		"price and creation stay as bought": {
			full, edit(func(i *Instance) { i.Price, i.CreatedAt = 999, noon.Add(time.Hour) }), full},
		"live again after the end": {
			ended, full, ended},
		"terminating after the end": {
			ended, edit(func(i *Instance) { i.State, i.EndCause = Terminating, "other" }), ended},
		"ended twice keeps the first time and cause": {
			ended, edit(func(i *Instance) { i.State, i.EndedAt, i.EndCause = Ended, noon.Add(2*time.Hour), "other" }), ended},
		"an unknown end is filled in": {
			edit(func(i *Instance) { i.State = Ended }), ended, ended},
		"live again while terminating": {
			leaving, full, leaving},
		"ended while terminating keeps why": {
			leaving, edit(func(i *Instance) { i.State, i.EndedAt, i.EndCause = Ended, noon.Add(time.Hour), "user-initiated" }), ended},
		"live to ended": {
			full, ended, ended},
	} {
		t.Run(name, func(t *testing.T) {
			l := fresh(t)
			addInstances(t, l, c.old)
			addInstances(t, l, c.add)
			require.Equal(t, c.want, record(t, l, "i-1"))
			// Also when both come in one call.
			l = fresh(t)
			addInstances(t, l, c.old, c.add)
			require.Equal(t, c.want, record(t, l, "i-1"))
		})
	}
}

func TestInstanceIDsAreTheProvidersOwn(t *testing.T) {
	l := fresh(t)
	addInstances(t, l, Instance{Provider: "east", ID: "i-1", State: Live}, Instance{Provider: "west", ID: "i-1", State: Live})
	update(t, l, func(tx *Tx) error { return tx.SetEnded("west", []string{"i-1"}, noon, "gone") })
	live, err := l.LiveInstances(t.Context())
	require.NoError(t, err)
	require.Equal(t, []Instance{{Provider: "east", ID: "i-1", State: Live}}, live)
}

func TestInstancesAreLinkedToTheirLaunchNodes(t *testing.T) {
	l := fresh(t)
	la := aLaunch("L1", 1, 2, noon)
	la.Nodes[1].Generation = 2
	update(t, l, func(tx *Tx) error { return tx.AddLaunches([]Launch{la, aLaunch("L2", 2, 1, noon)}) })
	linked := func() (ids []string) {
		open, err := l.OpenLaunches(t.Context())
		require.NoError(t, err)
		for _, o := range open {
			for _, n := range o.Nodes {
				ids = append(ids, n.InstanceID)
			}
		}
		return ids
	}
	at := func(id, launch, node string, generation int, s InstanceState) Instance {
		return Instance{Provider: "east", ID: id, Launch: launch, Node: node, Generation: generation, State: s, CreatedAt: noon}
	}
	addInstances(t, l, at("i-1", "L1", "L1-0", 1, Live),
		at("i-2", "L1", "L1-1", 1, Live), // an earlier generation's
		at("i-3", "L2", "L1-1", 2, Live), // not a node of that launch
		at("i-4", "L9", "L1-1", 2, Live), // a launch nobody knows
		at("i-5", "", "L2-0", 1, Live))
	require.Equal(t, []string{"i-1", "", ""}, linked())
	addInstances(t, l, at("i-6", "L1", "L1-1", 2, Ended), at("i-7", "L2", "L2-0", 1, Live))
	require.Equal(t, []string{"i-1", "i-6", "i-7"}, linked(), "an ended one is still the node's")
	addInstances(t, l, at("i-8", "L1", "L1-1", 2, Live), at("i-9", "L2", "L2-0", 1, Ended))
	require.Equal(t, []string{"i-1", "i-8", "i-7"}, linked(), "a live one replaces it, an ended one does not replace a live one")
	addInstances(t, l, at("i-6", "L1", "L1-1", 2, Live))
	require.Equal(t, []string{"i-1", "i-8", "i-7"}, linked(), "nor does one that is on record as ended")
}

func TestOfTwoTimesOfCreationTheEarlierCounts(t *testing.T) {
	l := fresh(t)
	for _, at := range []time.Time{noon, noon.Add(time.Hour), noon.Add(-time.Minute), {}} {
		addInstances(t, l, Instance{Provider: "east", ID: "i-1", State: Live, CreatedAt: at})
	}
	require.Equal(t, noon.Add(-time.Minute), record(t, l, "i-1").CreatedAt)
}

func TestKnownInstancesAreThoseOfTheProvider(t *testing.T) {
	l := fresh(t)
	addInstances(t, l, Instance{Provider: "east", ID: "i-1", State: Live}, Instance{Provider: "east", ID: "i-2", State: Ended}, Instance{Provider: "west", ID: "i-3", State: Live})
	known, err := l.KnownInstances(t.Context(), "east", []string{"i-1", "i-2", "i-3", "i-4", ""})
	require.NoError(t, err)
	require.Equal(t, map[string]bool{"i-1": true, "i-2": true}, known)
}

func TestInstanceThatIsThereAfterAllIsLiveAgain(t *testing.T) {
	l := fresh(t)
	addInstances(t, l, Instance{Provider: "east", ID: "i-1", State: Live, CreatedAt: noon}, Instance{Provider: "east", ID: "i-2", State: Terminating, CreatedAt: noon, EndCause: "idle"})
	update(t, l, func(tx *Tx) error { return tx.SetEnded("east", []string{"i-1"}, noon.Add(time.Minute), "not listed") })
	update(t, l, func(tx *Tx) error { return tx.Revive("east", []string{"i-1", "i-2", "i-3"}) })
	require.Equal(t, Instance{Provider: "east", ID: "i-1", State: Live, CreatedAt: noon}, record(t, l, "i-1"))
	require.Equal(t, Terminating, record(t, l, "i-2").State, "only what has ended")
	update(t, l, func(tx *Tx) error { return tx.SetEnded("east", []string{"i-1"}, noon.Add(time.Hour), "gone") })
	require.Equal(t, noon.Add(time.Hour), record(t, l, "i-1").EndedAt)
}

func TestSetReadyKeepsTheFirstTime(t *testing.T) {
	l := fresh(t)
	addInstances(t, l, Instance{Provider: "east", ID: "i-1", State: Live}, Instance{Provider: "east", ID: "i-2", State: Ended})
	update(t, l, func(tx *Tx) error { return tx.SetReady("east", []string{"i-1", "i-2", "i-9"}, noon) })
	update(t, l, func(tx *Tx) error { return tx.SetReady("east", []string{"i-1"}, noon.Add(time.Hour)) })
	require.Equal(t, noon, record(t, l, "i-1").ReadyAt)
	require.Zero(t, record(t, l, "i-2").ReadyAt)
}

func TestSetTerminatingOnlyFromLive(t *testing.T) {
	l := fresh(t)
	addInstances(t, l, Instance{Provider: "east", ID: "i-1", State: Live}, Instance{Provider: "east", ID: "i-2", State: Live},
		Instance{Provider: "east", ID: "i-3", State: Ended, EndedAt: noon, EndCause: "reclaimed"}, Instance{Provider: "east", ID: "i-4", State: Ended, EndedAt: noon})
	update(t, l, func(tx *Tx) error { return tx.SetTerminating("east", []string{"i-1"}, "suspended") })
	update(t, l, func(tx *Tx) error {
		return tx.SetTerminating("east", []string{"i-1", "i-3", "i-4", "i-9"}, "orphan")
	})
	require.Equal(t, Instance{Provider: "east", ID: "i-1", State: Terminating, EndCause: "suspended"}, record(t, l, "i-1"))
	require.Equal(t, Live, record(t, l, "i-2").State)
	require.Equal(t, Instance{Provider: "east", ID: "i-3", State: Ended, EndedAt: noon, EndCause: "reclaimed"}, record(t, l, "i-3"))
	require.Equal(t, Instance{Provider: "east", ID: "i-4", State: Ended, EndedAt: noon}, record(t, l, "i-4"))
}

func TestSetEndedKeepsTheFirstCauseAndTime(t *testing.T) {
	l := fresh(t)
	addInstances(t, l, Instance{Provider: "east", ID: "i-1", State: Live}, Instance{Provider: "east", ID: "i-2", State: Live}, Instance{Provider: "east", ID: "i-3", State: Live})
	update(t, l, func(tx *Tx) error { return tx.SetTerminating("east", []string{"i-1"}, "suspended") })
	update(t, l, func(tx *Tx) error { return tx.SetEnded("east", []string{"i-1", "i-2"}, noon, "reclaimed") })
	update(t, l, func(tx *Tx) error { return tx.SetEnded("east", []string{"i-3"}, time.Time{}, "vanished") })
	update(t, l, func(tx *Tx) error {
		return tx.SetEnded("east", []string{"i-1", "i-2", "i-3"}, noon.Add(time.Hour), "late")
	})
	require.Equal(t, Instance{Provider: "east", ID: "i-1", State: Ended, EndedAt: noon, EndCause: "suspended"}, record(t, l, "i-1"))
	require.Equal(t, Instance{Provider: "east", ID: "i-2", State: Ended, EndedAt: noon, EndCause: "reclaimed"}, record(t, l, "i-2"))
	require.Equal(t, Instance{Provider: "east", ID: "i-3", State: Ended, EndedAt: noon.Add(time.Hour), EndCause: "vanished"}, record(t, l, "i-3"), "a time that was not known is filled in")
}

func TestSetConsole(t *testing.T) {
	l := fresh(t)
	addInstances(t, l, Instance{Provider: "east", ID: "i-1", State: Live})
	update(t, l, func(tx *Tx) error { return tx.SetConsole("east", "i-1", "kernel panic") })
	require.Equal(t, "kernel panic", record(t, l, "i-1").Console)
	require.ErrorContains(t, l.Update(t.Context(), func(tx *Tx) error { return tx.SetConsole("east", "i-9", "x") }), "instance i-9 of east: the instance is not on record")
}

func TestInstanceQueries(t *testing.T) {
	l := fresh(t)
	i := func(id, node, launch string, s InstanceState, created, ended int) Instance {
		in := Instance{Provider: "east", ID: id, Node: node, Launch: launch, State: s, CreatedAt: noon.Add(time.Duration(created) * time.Minute)}
		if ended > 0 {
			in.EndedAt = noon.Add(time.Duration(ended) * time.Minute)
		}
		return in
	}
	addInstances(t, l,
		i("i-5", "n1", "L2", Live, 5, 0), i("i-1", "n1", "L1", Ended, 1, 10), i("i-2", "n2", "L1", Ended, 2, 20),
		i("i-3", "n2", "L1", Terminating, 3, 0), i("i-4", "n3", "L2", Ended, 4, 0), i("i-6", "n1", "L3", Live, 5, 0))
	ids := func(list []Instance, err error) (ids []string) {
		require.NoError(t, err)
		for _, l := range list {
			ids = append(ids, l.ID)
		}
		return ids
	}
	require.Equal(t, []string{"i-3", "i-5", "i-6"}, ids(l.LiveInstances(t.Context())))
	require.Equal(t, []string{"i-6", "i-5", "i-1"}, ids(l.InstancesOfNode(t.Context(), "n1")))
	require.Equal(t, []string{"i-1", "i-2", "i-3"}, ids(l.InstancesOfLaunch(t.Context(), "L1")))
	for minute, want := range map[int][]string{
		0:  {"i-1", "i-2", "i-3", "i-4", "i-5", "i-6"},
		10: {"i-1", "i-2", "i-3", "i-4", "i-5", "i-6"},
		11: {"i-2", "i-3", "i-4", "i-5", "i-6"},
		21: {"i-3", "i-4", "i-5", "i-6"}, // i-4 ended nobody knows when
	} {
		require.Equal(t, want, ids(l.Instances(t.Context(), noon.Add(time.Duration(minute)*time.Minute))), "since minute %d", minute)
	}
}
