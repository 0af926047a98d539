package cloudtest

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/cloud"
)

var listChecks = []check{
	{"an empty account has no instances", (*fixture).listEmpty},
	{"list shows what launch gave", (*fixture).listAsLaunched},
	{"list shows the same after a restart", (*fixture).listAfterRestart},
	{"list leaves out other clusters", (*fixture).listOtherCluster},
	{"a list that lags comes to show the instance", (*fixture).listLag},
	{"an instance that the cloud takes away is shown with the cause", (*fixture).vanished},
}

func (f *fixture) listEmpty() {
	require.Empty(f, f.list())
}

// alike compares what does not change in an instance's life.
func (f *fixture) alike(want, got cloud.Instance) {
	f.Helper()
	require.Equal(f, want.ID, got.ID)
	require.Equal(f, want.Node, got.Node, "node of %s", want.ID)
	require.Equal(f, want.Generation, got.Generation, "generation of %s", want.ID)
	require.Equal(f, want.Launch, got.Launch, "launch of %s", want.ID)
	require.Equal(f, want.Token, got.Token, "token of %s", want.ID)
	require.Equal(f, want.Pool, got.Pool, "pool of %s", want.ID)
	require.Equal(f, want.Offering, got.Offering, "offering of %s", want.ID)
	require.True(f, want.CreatedAt.Equal(got.CreatedAt), "CreatedAt of %s: %s and %s", want.ID, want.CreatedAt, got.CreatedAt)
}

func (f *fixture) listAsLaunched() {
	r := f.request(2)
	r.Nodes[1].Generation = 7
	got := f.launch(r)
	f.exactly(r.Token, got)
	f.named(got)
	list := f.list()
	require.Len(f, list, 2)
	for _, i := range got {
		f.alike(i, list[i.ID])
		require.True(f, list[i.ID].Live())
		require.True(f, list[i.ID].EndedAt.IsZero(), "a live instance has not ended")
	}
}

func (f *fixture) listAfterRestart() {
	r := f.request(2)
	got := f.launch(r)
	f.exactly(r.Token, got)
	f.named(got)
	p := f.Reopen(f)
	list := f.listOf(p, f.Cluster)
	require.Len(f, list, 2)
	for _, i := range got {
		f.alike(i, list[i.ID])
	}
	require.NoError(f, p.Terminate(f.ctx, idsOf(got)))
	f.eventually("both have ended, also here", func(list map[string]cloud.Instance) bool {
		return !list[got[0].ID].Live() && !list[got[1].ID].Live()
	})
}

func (f *fixture) listOtherCluster() {
	mine := f.request(2)
	got := f.launch(mine)
	other := afresh(mine)
	other.Cluster = f.Cluster + "-other"
	f.cluster = append(f.cluster, other.Cluster)
	theirs := f.launch(other)
	f.exactly(mine.Token, got)
	f.nothing(other.Token)
	list := f.listOf(f.Provider, other.Cluster)
	require.Len(f, list, len(theirs), "the other cluster sees its own instances only")
	for _, i := range theirs {
		require.Contains(f, list, i.ID)
	}
	require.Empty(f, f.listOf(f.Provider, f.Cluster+"-none"))
}

func (f *fixture) lagList() {
	f.Helper()
	f.need("a list that lags", f.Breaks.LagList != nil)
	f.Breaks.LagList(f, f.Delay)
}

func (f *fixture) listLag() {
	f.lagList()
	before := time.Now()
	r := f.request(1)
	got := f.launch(r)
	f.eventually("the instance is there", func(list map[string]cloud.Instance) bool {
		_, ok := list[got[0].ID]
		return ok
	})
	require.GreaterOrEqual(f, time.Since(before), f.Delay, "the list did not lag as the harness promised")
	f.exactly(r.Token, got)
}

func (f *fixture) vanished() {
	f.need("a vanishing instance", f.Breaks.Vanish != nil)
	r := f.request(2)
	got := f.launch(r)
	f.Breaks.Vanish(f, got[0].ID)
	list := f.eventually("the instance has ended", func(list map[string]cloud.Instance) bool {
		return list[got[0].ID].State == cloud.Terminated
	})
	f.ended(list[got[0].ID])
	require.NotEmpty(f, list[got[0].ID].StateCause, "nobody asked for the end, so it is to say why")
	require.True(f, list[got[1].ID].Live(), "the other instance is still there")
	require.NoError(f, f.Provider.Terminate(f.ctx, idsOf(got[:1])), "terminating what has vanished is success")
	require.Equal(f, byNode(got), byNode(f.launch(r)), "the token gives the same instances, also the one that has vanished")
}

// ended checks a terminated instance.
func (f *fixture) ended(i cloud.Instance) {
	f.Helper()
	require.Equal(f, cloud.Terminated, i.State)
	require.False(f, i.EndedAt.IsZero(), "instance %s has ended, but when?", i.ID)
	require.False(f, i.EndedAt.Before(i.CreatedAt), "instance %s ended before it was created", i.ID)
}
