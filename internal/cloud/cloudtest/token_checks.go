package cloudtest

import (
	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/cloud"
)

var tokenChecks = []check{
	{"the same token gives the same instances", (*fixture).sameToken},
	{"the same token gives the same instances after a restart", (*fixture).sameTokenAfterRestart},
	{"the same token from eight callers at once gives one set of instances", (*fixture).sameTokenConcurrently},
	{"the same token gives instances that have ended since, and no new ones", (*fixture).sameTokenAfterEnd},
	{"the same token gives the same part after a partial success", (*fixture).sameTokenAfterPart},
	{"a token with other nodes is refused", (*fixture).tokenWithOtherNodes},
	{"a token with other offerings is refused", (*fixture).tokenWithOtherOfferings},
	{"a new token for the same node gives a new instance", (*fixture).newTokenSameNode},
	{"a new generation of a node stands beside the old one", (*fixture).newGeneration},
}

func (f *fixture) sameToken() {
	for _, r := range []cloud.LaunchRequest{f.request(3), f.job(3)} {
		got := f.launch(r)
		for range 2 {
			require.Equal(f, byNode(got), byNode(f.launch(r)), "the same token gives the same instances")
		}
		f.exactly(r.Token, got)
	}
}

func (f *fixture) sameTokenAfterRestart() {
	r := f.job(2)
	got := f.launch(r)
	p := f.Reopen(f)
	require.Equal(f, byNode(got), byNode(f.launchBy(p, r)), "the same token gives the same instances after a restart")
	f.exactly(r.Token, got)
	require.Equal(f, byNode(got), byNode(f.launchBy(f.Reopen(f), r)), "and after another one")
}

func (f *fixture) sameTokenConcurrently() {
	r := f.job(3)
	requests := make([]cloud.LaunchRequest, 8)
	for i := range requests {
		requests[i] = r
	}
	var got []cloud.Instance
	for _, a := range f.together(requests) {
		require.NoError(f, a.err)
		f.fits(r, a.result)
		require.Len(f, a.result.Instances, len(r.Nodes))
		if got == nil {
			got = a.result.Instances
		}
		require.Equal(f, byNode(got), byNode(a.result.Instances), "two callers with the same token got different instances")
	}
	f.exactly(r.Token, got)
}

func (f *fixture) sameTokenAfterEnd() {
	r := f.request(2)
	got := f.launch(r)
	require.NoError(f, f.Provider.Terminate(f.ctx, []string{got[0].ID}))
	f.eventually("the instance has ended", func(list map[string]cloud.Instance) bool { return !list[got[0].ID].Live() })
	again := f.launch(r)
	require.Equal(f, byNode(got), byNode(again), "the same token gives the same instances, also those that have ended")
	for _, i := range again {
		if i.ID == got[0].ID {
			require.False(f, i.Live(), "the answer shows instance %s as it was and not as it is", i.ID)
		}
	}
	f.exactly(r.Token, got)
}

func (f *fixture) sameTokenAfterPart() {
	f.outOfStockOf(f.first, 1)
	r := f.request(3)
	res, err := f.answer(f.Provider, r)
	require.NoError(f, err)
	f.fits(r, res)
	require.Len(f, res.Instances, 1)
	f.Breaks.Clear(f)
	again, err := f.answer(f.Provider, r)
	require.NoError(f, err)
	require.Equal(f, byNode(res.Instances), byNode(again.Instances), "a repeated token gives what it gave, though there is stock again")
	f.exactly(r.Token, res.Instances)
}

func (f *fixture) tokenWithOtherNodes() {
	r := f.request(2)
	got := f.launch(r)
	for name, change := range map[string]func(*cloud.LaunchRequest){
		"one node more":      func(o *cloud.LaunchRequest) { o.Nodes = append(o.Nodes, f.request(1).Nodes...) },
		"one node fewer":     func(o *cloud.LaunchRequest) { o.Nodes = o.Nodes[:1] },
		"other nodes":        func(o *cloud.LaunchRequest) { o.Nodes = f.request(2).Nodes },
		"another generation": func(o *cloud.LaunchRequest) { o.Nodes[0].Generation++ },
	} {
		other := afresh(r)
		other.Token = r.Token
		change(&other)
		f.Logf("the token again, with %s", name)
		f.refused(other, cloud.Config)
	}
	f.exactly(r.Token, got)
	require.Equal(f, byNode(got), byNode(f.launch(r)), "the token still gives its own instances")
}

func (f *fixture) tokenWithOtherOfferings() {
	r := f.request(1)
	got := f.launch(r)
	for _, offerings := range [][]cloud.Offering{{f.Offerings[1]}, {f.first, f.Offerings[1]}} {
		other := r
		other.Offerings = offerings
		f.refused(other, cloud.Config)
	}
	f.exactly(r.Token, got)
}

func (f *fixture) newTokenSameNode() {
	r := f.request(1)
	first := f.launch(r)
	fallback := afresh(r, f.Offerings[1])
	second := f.launch(fallback)
	require.NotEqual(f, first[0].ID, second[0].ID, "a new token is a new instance, although the node is the same")
	require.Equal(f, f.Offerings[1], second[0].Offering)
	f.exactly(r.Token, first)
	f.exactly(fallback.Token, second)
}

func (f *fixture) newGeneration() {
	r := f.request(1)
	old := f.launch(r)
	next := afresh(r)
	next.Nodes[0].Generation = 2
	young := f.launch(next)
	f.named(old)
	f.named(young)
	require.NotEqual(f, old[0].ID, young[0].ID)
	require.NoError(f, f.Provider.Terminate(f.ctx, idsOf(old)))
	list := f.eventually("the old instance has ended", func(list map[string]cloud.Instance) bool { return !list[old[0].ID].Live() })
	require.True(f, list[young[0].ID].Live(), "ending the old generation leaves the new one alone")
	require.Equal(f, 1, list[old[0].ID].Generation)
	require.Equal(f, 2, list[young[0].ID].Generation)
}
