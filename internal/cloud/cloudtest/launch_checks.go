package cloudtest

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/hostlist"
)

var launchChecks = []check{
	{"launch gives one instance per node", (*fixture).oneInstancePerNode},
	{"instances carry all tags", (*fixture).tags},
	{"instances get an address of their own", (*fixture).addresses},
	{"instances come to run", (*fixture).running},
	{"an instance that never becomes a node runs all the same", (*fixture).noRegister},
	{"launch leaves the request as it is", (*fixture).requestUntouched},
	{"many nodes in one request", (*fixture).large},
	{"launches side by side do not mix", (*fixture).sideBySide},
	{"instances may be named twice, in parts, and after their end", (*fixture).nameAgain},
	{"instances that have not been named are told by their token", (*fixture).unnamed},
}

func (f *fixture) oneInstancePerNode() {
	r := f.request(3)
	before := time.Now()
	got := f.launch(r)
	for _, i := range got {
		require.True(f, i.Live(), "a new instance is live; %s is %s", i.ID, i.State)
		require.True(f, i.EndedAt.IsZero(), "a new instance has not ended")
		// The cloud's clock is its own.
		require.WithinDuration(f, before, i.CreatedAt, time.Minute+time.Since(before), "CreatedAt of %s", i.ID)
		require.Equal(f, f.first, i.Offering)
	}
	f.exactly(r.Token, got)

	again := f.launch(f.job(2))
	require.Empty(f, intersection(idsOf(got), idsOf(again)), "another request gives other instances")
}

func intersection(a, b []string) []string {
	var both []string
	for _, s := range a {
		if slices.Contains(b, s) {
			both = append(both, s)
		}
	}
	return both
}

// wantTags is what an instance of the node must be tagged with.
func wantTags(r cloud.LaunchRequest, n cloud.NodeRequest) map[string]string {
	tags := map[string]string{
		cloud.TagCluster: r.Cluster, cloud.TagNode: n.Name, cloud.TagGeneration: fmt.Sprint(n.Generation),
		cloud.TagLaunch: n.Launch, cloud.TagToken: r.Token, cloud.TagPool: r.Pool,
	}
	maps.Copy(tags, n.Tags)
	return tags
}

func (f *fixture) tags() {
	r := f.request(2)
	r.Nodes[1].Generation = 12
	r.Nodes[1].Launch = r.Nodes[0].Launch
	r.Nodes[1].Tags = nil
	got := f.launch(r)
	f.exactly(r.Token, got)
	f.named(got)
	answered, listed, reopened := map[string]cloud.Instance{}, f.list(), f.listOf(f.Reopen(f), f.Cluster)
	for _, i := range got {
		answered[i.Node] = i
	}
	for _, n := range r.Nodes {
		want, id := wantTags(r, n), answered[n.Name].ID
		for where, tags := range map[string]map[string]string{
			"Launch": answered[n.Name].Tags, "List": listed[id].Tags, "List after a restart": reopened[id].Tags,
		} {
			for k, v := range want {
				require.Equal(f, v, tags[k], "tag %s of node %s in %s", k, n.Name, where)
			}
		}
	}
	for k := range answered[r.Nodes[0].Name].Tags {
		answered[r.Nodes[0].Name].Tags[k] = "changed by the caller"
	}
	require.Equal(f, r.Token, f.list()[answered[r.Nodes[0].Name].ID].Tags[cloud.TagToken], "tags handed out are the caller's own")
}

func (f *fixture) addresses() {
	r := f.request(3)
	got := f.launch(r)
	list := f.eventually("every instance has an address", func(list map[string]cloud.Instance) bool {
		for _, i := range got {
			if list[i.ID].Addr == "" {
				return false
			}
		}
		return true
	})
	seen := map[string]string{}
	for _, i := range got {
		addr := list[i.ID].Addr
		require.Empty(f, seen[addr], "instances %s and %s have the same address %s", seen[addr], i.ID, addr)
		seen[addr] = i.ID
		if i.Addr != "" {
			require.Equal(f, i.Addr, addr, "Launch and List differ on the address of %s", i.ID)
		}
	}
}

func (f *fixture) running() {
	got := f.launch(f.request(2))
	f.eventually("both instances run", func(list map[string]cloud.Instance) bool {
		return list[got[0].ID].State == cloud.Running && list[got[1].ID].State == cloud.Running
	})
}

func (f *fixture) noRegister() {
	f.need("an instance that never registers", f.Breaks.NoRegister != nil)
	f.Breaks.NoRegister(f)
	got := f.launch(f.request(1))
	f.eventually("the instance is live", func(list map[string]cloud.Instance) bool { return list[got[0].ID].Live() })
	_, err := f.Provider.Console(f.ctx, got[0].ID)
	require.NoError(f, err, "console of an instance that never registers")
}

func (f *fixture) requestUntouched() {
	r := f.request(2)
	was := r
	was.Nodes = slices.Clone(r.Nodes)
	for i := range was.Nodes {
		was.Nodes[i].Tags = maps.Clone(r.Nodes[i].Tags)
	}
	was.Offerings = slices.Clone(r.Offerings)
	f.launch(r)
	require.Equal(f, was, r)
}

func (f *fixture) large() {
	r := f.job(f.Large)
	got := f.launch(r)
	f.exactly(r.Token, got)
	list := f.eventually("every instance has an address", func(list map[string]cloud.Instance) bool {
		for _, i := range got {
			if list[i.ID].Addr == "" {
				return false
			}
		}
		return true
	})
	addrs := map[string]bool{}
	for _, i := range got {
		addrs[list[i.ID].Addr] = true
	}
	require.Len(f, addrs, f.Large, "every instance has an address of its own")
	require.NoError(f, f.Provider.Terminate(f.ctx, idsOf(got)), "end them in one call")
	f.eventually("none is live", func(list map[string]cloud.Instance) bool {
		for _, i := range list {
			if i.Live() {
				return false
			}
		}
		return true
	})
}

func (f *fixture) nameAgain() {
	r := f.request(3)
	got := f.launch(r)
	require.NoError(f, f.Provider.Name(f.ctx, nil), "naming nothing is success")
	require.NoError(f, f.Provider.Name(f.ctx, got[:1]), "name one of three")
	for _, p := range []cloud.Provider{f.Provider, f.Reopen(f)} {
		require.NoError(f, p.Name(f.ctx, got), "name all, one of them for the second time")
	}
	list := f.eventually("all instances have their nodes", func(list map[string]cloud.Instance) bool {
		for _, i := range got {
			if list[i.ID].Node != i.Node {
				return false
			}
		}
		return true
	})
	for _, i := range got {
		f.alike(i, list[i.ID])
		for k, v := range wantTags(r, node(r, i.Node)) {
			require.Equal(f, v, list[i.ID].Tags[k], "tag %s of node %s", k, i.Node)
		}
	}
	require.NoError(f, f.Provider.Terminate(f.ctx, idsOf(got)))
	f.eventually("all have ended", func(list map[string]cloud.Instance) bool {
		for _, i := range got {
			if list[i.ID].State != cloud.Terminated {
				return false
			}
		}
		return true
	})
	require.NoError(f, f.Provider.Name(f.ctx, got), "naming what has ended is success")
}

// unnamed: between the create call and Name an instance has either all of its
// identity or none, and its token in any case.
func (f *fixture) unnamed() {
	r := f.request(2)
	got := f.launch(r)
	f.exactly(r.Token, got)
	for _, i := range f.list() {
		f.identified(r, i)
	}
}

// identified wants an instance as List shows it before Name to be traceable to
// its request.
func (f *fixture) identified(r cloud.LaunchRequest, i cloud.Instance) {
	f.Helper()
	if i.Node != "" || !f.NamedLater {
		for k, v := range wantTags(r, node(r, i.Node)) {
			require.Equal(f, v, i.Tags[k], "tag %s of node %s", k, i.Node)
		}
		return
	}
	require.Zero(f, i.Generation, "generation of an instance without a name")
	require.Empty(f, i.Launch, "launch of an instance without a name")
	require.Equal(f, r.Token, i.Token, "token of an instance without a name")
	require.Equal(f, r.Pool, i.Pool, "pool of an instance without a name")
	require.Equal(f, r.Token, i.Tags[cloud.TagToken])
	require.Equal(f, r.Cluster, i.Tags[cloud.TagCluster])
	nodes, err := hostlist.Expand(i.Tags[cloud.TagNodes])
	require.NoError(f, err, "nodes of the create call")
	require.Len(f, nodes, len(r.Nodes), "nodes of the create call")
	for _, n := range r.Nodes {
		require.Contains(f, nodes, n.Name, "nodes of the create call")
	}
}

// answered is one answer of several calls side by side.
type answered struct {
	request cloud.LaunchRequest
	result  cloud.LaunchResult
	err     error
}

// together makes the requests at the same time, alternating between two
// providers on the account.
func (f *fixture) together(requests []cloud.LaunchRequest) []answered {
	providers := []cloud.Provider{f.Provider, f.Reopen(f)}
	answers := make([]answered, len(requests))
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i, r := range requests {
		wg.Go(func() {
			<-start
			res, err := f.answer(providers[i%2], r)
			answers[i] = answered{r, res, err}
		})
	}
	close(start)
	wg.Wait()
	return answers
}

func (f *fixture) sideBySide() {
	var requests []cloud.LaunchRequest
	for range 8 {
		requests = append(requests, f.request(2))
	}
	ids := map[string]bool{}
	for _, a := range f.together(requests) {
		require.NoError(f, a.err)
		require.Len(f, a.result.Instances, 2)
		f.fits(a.request, a.result)
		for _, i := range a.result.Instances {
			require.False(f, ids[i.ID], "instance %s was given to two requests", i.ID)
			ids[i.ID] = true
		}
	}
}
