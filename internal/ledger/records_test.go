package ledger

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/cloud"
)

func TestRequestIsTakenOnce(t *testing.T) {
	l := fresh(t)
	update(t, l, func(tx *Tx) error {
		return tx.AddRequests([]Request{{Name: "r1", Kind: "resume", Nodes: "n[1-4]", At: noon}, {Name: "r2", Kind: "suspend", At: noon}})
	})
	update(t, l, func(tx *Tx) error {
		return tx.AddRequests([]Request{{Name: "r1", Kind: "suspend", Nodes: "other", At: noon.Add(1)}, {Name: "r3"}})
	})
	known, err := l.KnownRequests(t.Context(), []string{"r1", "r2", "r3", "r4"})
	require.NoError(t, err)
	require.Equal(t, map[string]bool{"r1": true, "r2": true, "r3": true}, known)
	known, err = l.KnownRequests(t.Context(), nil)
	require.NoError(t, err)
	require.Empty(t, known)
	_, err = l.KnownRequests(t.Context(), []string{"r1", "\xff"})
	require.ErrorContains(t, err, `name "\xff" is not UTF-8`)
	var first Request
	require.NoError(t, one(t.Context(), l.reader, []any{&first.Name, &first.Kind, &first.Nodes, stamp{&first.At}}, `SELECT name, kind, nodes, at FROM requests WHERE name = 'r1'`))
	require.Equal(t, Request{Name: "r1", Kind: "resume", Nodes: "n[1-4]", At: noon}, first)
}

func TestFailures(t *testing.T) {
	l := fresh(t)
	full := Failure{At: noon, Launch: "L1", JobID: 7, Pool: "a", Provider: "east", Offering: spotA.Key(), Class: cloud.OutOfStock,
		Code: "InsufficientInstanceCapacity", Message: "none left", Nodes: "n[1-4]"}
	all := []Failure{full}
	for i := range 5 {
		all = append(all, Failure{At: noon.Add(time.Duration(i%3) * time.Second), JobID: 7 + i%2, Message: fmt.Sprint(i)})
	}
	update(t, l, func(tx *Tx) error { return tx.AddFailures(all) })
	messages := func(list []Failure, err error) (m []string) {
		require.NoError(t, err)
		for _, f := range list {
			m = append(m, f.Message)
		}
		return m
	}
	require.Equal(t, []string{"2", "4", "1", "3", "0", "none left"}, messages(l.RecentFailures(t.Context(), 10)))
	require.Equal(t, []string{"2", "4"}, messages(l.RecentFailures(t.Context(), 2)))
	require.Equal(t, []string{"2", "4", "0"}, messages(l.FailuresOfJob(t.Context(), 7, 3)))
	got, err := l.FailuresOfJob(t.Context(), 7, 10)
	require.NoError(t, err)
	require.Equal(t, full, got[3])
}

func TestMemoryIsReplacedAndForgotten(t *testing.T) {
	l := fresh(t)
	m := func(provider string, o cloud.Offering, n int) MemoryEntry {
		return MemoryEntry{Provider: provider, Offering: o, Class: cloud.Quota, Message: fmt.Sprint("failed ", n), Failures: n, Since: noon, Until: noon.Add(time.Duration(n) * time.Minute)}
	}
	update(t, l, func(tx *Tx) error {
		return tx.PutMemory([]MemoryEntry{m("west", spotA, 1), m("east", spotB, 1), m("east", spotA, 1)})
	})
	update(t, l, func(tx *Tx) error { return tx.PutMemory([]MemoryEntry{m("east", spotA, 2)}) })
	got, err := l.Memory(t.Context())
	require.NoError(t, err)
	require.Equal(t, []MemoryEntry{m("east", spotA, 2), m("east", spotB, 1), m("west", spotA, 1)}, got)

	update(t, l, func(tx *Tx) error {
		return tx.ForgetMemory("east", []cloud.Offering{spotA, {Type: "never", Zone: "heard", Market: cloud.Spot}})
	})
	got, err = l.Memory(t.Context())
	require.NoError(t, err)
	require.Equal(t, []MemoryEntry{m("east", spotB, 1), m("west", spotA, 1)}, got)
}

func TestPruneKeepsTheMoneysRecord(t *testing.T) {
	l := fresh(t)
	old, young := noon.Add(-time.Hour), noon
	la := aLaunch("L1", 1, 2, old)
	la.State = Failed
	update(t, l, func(tx *Tx) error {
		closed := func(token string, at time.Time) Intent {
			in := anIntent(token, la)
			in.Open, in.ClosedAt = false, at
			return in
		}
		for _, err := range []error{
			tx.AddRequests([]Request{{Name: "old", At: old}, {Name: "young", At: young}}),
			tx.AddFailures([]Failure{{Message: "old", At: old}, {Message: "young", At: young}}),
			tx.AddIntents([]Intent{closed("old", old), closed("young", young), anIntent("open", la)}),
			tx.AddLaunches([]Launch{la}),
			tx.AddInstances(instancesOf(la, "old")),
			tx.SetEnded("east", []string{"i-L1-0"}, old, "gone"),
			tx.PruneBefore(young),
		} {
			if err != nil {
				return err
			}
		}
		return nil
	})
	known, err := l.KnownRequests(t.Context(), []string{"old", "young"})
	require.NoError(t, err)
	require.Equal(t, map[string]bool{"young": true}, known)
	failures, err := l.RecentFailures(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, []Failure{{Message: "young", At: young}}, failures)
	known, err = l.KnownIntents(t.Context(), []string{"old", "young", "open"})
	require.NoError(t, err)
	require.Equal(t, map[string]bool{"young": true, "open": true}, known)
	launches, err := l.RecentLaunches(t.Context(), 10)
	require.NoError(t, err)
	require.Len(t, launches, 1)
	require.Len(t, launches[0].Nodes, 2)
	instances, err := l.Instances(t.Context(), time.Time{})
	require.NoError(t, err)
	require.Len(t, instances, 2)
}

func TestTimesSurvive(t *testing.T) {
	l := fresh(t)
	for name, c := range map[string]struct{ put, want time.Time }{
		"nanoseconds": {time.Date(2026, 3, 4, 5, 6, 7, 987654321, time.UTC), time.Date(2026, 3, 4, 5, 6, 7, 987654321, time.UTC)},
		"other zone":  {time.Date(2026, 3, 4, 5, 6, 7, 8, time.FixedZone("X", 3600)), time.Date(2026, 3, 4, 4, 6, 7, 8, time.UTC)},
		"monotonic":   {time.Unix(1e9, 5).Local(), time.Unix(1e9, 5).UTC()},
		"zero":        {time.Time{}, time.Time{}},
		"before 1970": {time.Date(1969, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(1969, 1, 1, 0, 0, 0, 0, time.UTC)},
		"far future":  {time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), time.Unix(0, 1<<63-1).UTC()},
		"far past":    {time.Date(200, 1, 1, 0, 0, 0, 0, time.UTC), time.Unix(0, -1<<63).UTC()},
	} {
		t.Run(name, func(t *testing.T) {
			la := aLaunch(name, 1, 0, c.put)
			update(t, l, func(tx *Tx) error { return tx.AddLaunches([]Launch{la}) })
			got, err := l.launches(t.Context(), "", `WHERE id = ?`, name)
			require.NoError(t, err)
			require.Equal(t, c.want, got[0].CreatedAt)
		})
	}
}
