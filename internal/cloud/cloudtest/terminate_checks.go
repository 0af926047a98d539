package cloudtest

import (
	"slices"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/cloud"
)

var terminateChecks = []check{
	{"terminated instances are shown as ended for a while", (*fixture).terminated},
	{"terminate may be repeated", (*fixture).terminateAgain},
	{"terminating unknown ids is success", (*fixture).terminateUnknown},
	{"an instance can be terminated while it boots", (*fixture).terminatePending},
	{"an instance can be terminated before the list shows it", (*fixture).terminateUnseen},
	{"a slow delete is shown as shutting down until it is done", (*fixture).slowDelete},
}

func (f *fixture) isTerminated(id string) func(map[string]cloud.Instance) bool {
	return func(list map[string]cloud.Instance) bool { return list[id].State == cloud.Terminated }
}

func (f *fixture) terminated() {
	r := f.request(2)
	got := f.launch(r)
	f.named(got)
	require.NoError(f, f.Provider.Terminate(f.ctx, []string{got[0].ID}))
	list := f.eventually("the instance is terminated", f.isTerminated(got[0].ID))
	f.ended(list[got[0].ID])
	f.alike(got[0], list[got[0].ID])
	for k, v := range wantTags(r, node(r, got[0].Node)) {
		require.Equal(f, v, list[got[0].ID].Tags[k], "tag %s of a terminated instance", k)
	}
	require.True(f, list[got[1].ID].Live(), "the other instance is still there")
	again := f.listOf(f.Reopen(f), f.Cluster)[got[0].ID]
	f.ended(again)
	require.True(f, again.EndedAt.Equal(list[got[0].ID].EndedAt), "the end does not move")
}

func node(r cloud.LaunchRequest, name string) cloud.NodeRequest {
	return r.Nodes[slices.IndexFunc(r.Nodes, func(n cloud.NodeRequest) bool { return n.Name == name })]
}

func (f *fixture) terminateAgain() {
	got := f.launch(f.request(2))
	for range 2 {
		require.NoError(f, f.Provider.Terminate(f.ctx, idsOf(got)), "terminating twice at once is success")
	}
	at := f.eventually("the instance is terminated", f.isTerminated(got[0].ID))[got[0].ID].EndedAt
	time.Sleep(f.Poll)
	require.NoError(f, f.Provider.Terminate(f.ctx, idsOf(got)), "terminating what has ended is success")
	require.True(f, at.Equal(f.list()[got[0].ID].EndedAt), "the end does not move when it is asked for again")
}

func (f *fixture) terminateUnknown() {
	require.NoError(f, f.Provider.Terminate(f.ctx, nil), "nothing to terminate is success")
	require.NoError(f, f.Provider.Terminate(f.ctx, []string{"i-00000000000000000"}), "an unknown id is success, though nothing was ever launched")
	got := f.launch(f.request(1))
	require.NoError(f, f.Provider.Terminate(f.ctx, []string{"i-00000000000000000", got[0].ID, "i-00000000000000001"}))
	f.eventually("the known instance among unknown ids is terminated", f.isTerminated(got[0].ID))
}

func (f *fixture) terminatePending() {
	r := f.request(1)
	got := f.launch(r)
	require.NoError(f, f.Provider.Terminate(f.ctx, idsOf(got)))
	list := f.eventually("the instance is terminated", f.isTerminated(got[0].ID))
	f.ended(list[got[0].ID])
	time.Sleep(f.Poll)
	require.Equal(f, cloud.Terminated, f.list()[got[0].ID].State, "it stays ended")
}

func (f *fixture) terminateUnseen() {
	f.lagList()
	got := f.launch(f.request(1))
	require.NoError(f, f.Provider.Terminate(f.ctx, idsOf(got)))
	f.Breaks.Clear(f)
	f.eventually("the instance is terminated", f.isTerminated(got[0].ID))
}

func (f *fixture) slowDelete() {
	f.need("a slow delete", f.Breaks.SlowDelete != nil)
	got := f.launch(f.request(1))
	f.Breaks.SlowDelete(f, f.Delay)
	before := time.Now()
	require.NoError(f, f.Provider.Terminate(f.ctx, idsOf(got)))
	accepted := time.Since(before)
	seen := false
	list := f.eventually("the instance is terminated", func(list map[string]cloud.Instance) bool {
		i, ok := list[got[0].ID]
		require.True(f, ok, "an instance that is shutting down is still listed")
		seen = seen || i.State == cloud.ShuttingDown
		return i.State == cloud.Terminated
	})
	took := time.Since(before)
	require.GreaterOrEqual(f, took, f.Delay, "the delete was not as slow as the harness promised")
	require.Less(f, accepted, f.Delay, "Terminate returns when the cloud has accepted, not when the instance is gone")
	require.True(f, seen, "the instance was never shown as shutting down")
	f.ended(list[got[0].ID])
}
