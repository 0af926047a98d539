package cloudtest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/cloud"
)

// fixture is an account and what one check has done with it.
type fixture struct {
	testing.TB
	Harness
	Account
	ctx     context.Context
	first   cloud.Offering
	nodes   int // named so far
	cluster []string
}

func newFixture(tb testing.TB, h Harness) *fixture {
	f := &fixture{TB: tb, Harness: h.withDefaults()}
	f.first = f.Offerings[0]
	f.cluster = []string{f.Cluster}
	ctx, cancel := context.WithTimeout(tb.Context(), 10*f.Patience)
	f.ctx = ctx
	tb.Cleanup(cancel)
	f.Account = f.New(tb)
	tb.Cleanup(f.endAll)
	return f
}

// endAll ends what the check has left running, so that a suite run against a
// cloud that costs money leaves nothing behind.
func (f *fixture) endAll() {
	if f.Breaks.Clear != nil {
		f.Breaks.Clear(f)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(f.ctx), f.Patience)
	defer cancel()
	for _, cluster := range f.cluster {
		list, err := f.Provider.List(ctx, cluster)
		if err != nil {
			f.Logf("list what the check has left: %v", err)
			continue
		}
		var ids []string
		for _, i := range list {
			if i.Live() {
				ids = append(ids, i.ID)
			}
		}
		if err := f.Provider.Terminate(ctx, ids); err != nil {
			f.Logf("end what the check has left: %v", err)
		}
	}
}

// need skips the check if the harness cannot provoke a fault.
func (f *fixture) need(name string, there bool) {
	f.Helper()
	if !there {
		f.Skipf("the harness cannot provoke %s", name)
	}
}

// newToken gives a token of the shape that midair uses.
func newToken() string {
	b := make([]byte, 16)
	rand.Read(b)
	return "mda-" + hex.EncodeToString(b)
}

// request asks for n new nodes from the first offering, best effort, with a
// token of its own.
func (f *fixture) request(n int) cloud.LaunchRequest {
	r := cloud.LaunchRequest{
		Token: newToken(), Cluster: f.Cluster, Pool: "ct-pool", Offerings: []cloud.Offering{f.first},
		CPUs: f.CPUs, MemoryMiB: f.MemoryMiB, GPUs: f.GPUs,
	}
	for range n {
		f.nodes++
		r.Nodes = append(r.Nodes, cloud.NodeRequest{
			Name: fmt.Sprintf("ct-%04d", f.nodes), Generation: 1, Launch: fmt.Sprintf("launch-%d", f.nodes),
			Tags: map[string]string{cloud.TagTier: "p2", cloud.TagJob: fmt.Sprint(1000 + f.nodes), cloud.TagAccount: "ml", cloud.TagUser: "ada"},
		})
	}
	return r
}

// job is a request for all nodes or none.
func (f *fixture) job(n int) cloud.LaunchRequest {
	r := f.request(n)
	r.AllOrNothing = true
	return r
}

// afresh is the same request as a new attempt: with a token of its own.
func afresh(r cloud.LaunchRequest, offerings ...cloud.Offering) cloud.LaunchRequest {
	r.Token = newToken()
	r.Nodes = slices.Clone(r.Nodes)
	if len(offerings) > 0 {
		r.Offerings = offerings
	}
	return r
}

// answer repeats a request as the contract says, until the answer is definite.
func (f *fixture) answer(p cloud.Provider, r cloud.LaunchRequest) (cloud.LaunchResult, error) {
	deadline := time.Now().Add(f.Patience)
	for {
		res, err := p.Launch(f.ctx, r)
		var e *cloud.Error
		if err == nil || !errors.As(err, &e) || !e.Ambiguous && e.Class != cloud.Throttled || time.Now().After(deadline) {
			return res, err
		}
		time.Sleep(f.Poll)
	}
}

// launch wants an instance for every node.
func (f *fixture) launch(r cloud.LaunchRequest) []cloud.Instance {
	f.Helper()
	return f.launchBy(f.Provider, r)
}

func (f *fixture) launchBy(p cloud.Provider, r cloud.LaunchRequest) []cloud.Instance {
	f.Helper()
	res, err := f.answer(p, r)
	require.NoError(f, err, "launch %d nodes", len(r.Nodes))
	require.Len(f, res.Instances, len(r.Nodes), "a launch gives one instance per node; shortfalls: %v", shown(res.Shortfalls))
	f.fits(r, res)
	return res.Instances
}

// named writes onto instances what their create call could not say of each, and
// waits until List shows it.
func (f *fixture) named(got []cloud.Instance) {
	f.Helper()
	if !f.NamedLater {
		return
	}
	require.NoError(f, f.Provider.Name(f.ctx, got), "name instances")
	f.eventually("all instances have their names", func(list map[string]cloud.Instance) bool {
		for _, i := range got {
			if list[i.ID].Node != i.Node || list[i.ID].Launch != i.Launch {
				return false
			}
		}
		return true
	})
}

// fits checks what holds for every definite answer, full or partial: no node
// twice, no node or offering that was not asked for, every offering that was
// short of instances explained.
func (f *fixture) fits(r cloud.LaunchRequest, res cloud.LaunchResult) {
	f.Helper()
	asked := map[string]cloud.NodeRequest{}
	for _, n := range r.Nodes {
		asked[n.Name] = n
	}
	ids, got := map[string]bool{}, map[string]bool{}
	used := map[cloud.Offering]bool{}
	for _, i := range res.Instances {
		n, ok := asked[i.Node]
		require.True(f, ok, "instance %s carries node %q, which was not asked for", i.ID, i.Node)
		require.False(f, got[i.Node], "node %s has two instances", i.Node)
		require.NotEmpty(f, i.ID, "the instance of node %s has no id", i.Node)
		require.False(f, ids[i.ID], "two instances have the id %s", i.ID)
		require.Contains(f, r.Offerings, i.Offering, "instance %s is of an offering that was not asked for", i.ID)
		require.Equal(f, n.Generation, i.Generation, "generation of instance %s", i.ID)
		require.Equal(f, n.Launch, i.Launch, "launch of instance %s", i.ID)
		require.Equal(f, r.Token, i.Token, "token of instance %s", i.ID)
		require.Equal(f, r.Pool, i.Pool, "pool of instance %s", i.ID)
		got[i.Node], ids[i.ID], used[i.Offering] = true, true, true
	}
	if r.AllOrNothing {
		require.Contains(f, []int{0, len(r.Nodes)}, len(res.Instances), "all or nothing: some of the nodes have an instance")
		require.LessOrEqual(f, len(used), 1, "all or nothing: instances come from several offerings")
	}
	if len(res.Instances) < len(r.Nodes) {
		require.NotEmpty(f, res.Shortfalls, "%d nodes have no instance and nothing says why", len(r.Nodes)-len(res.Instances))
	}
	for _, s := range res.Shortfalls {
		require.Contains(f, r.Offerings, s.Offering, "a shortfall of an offering that was not asked for")
		require.Positive(f, s.Nodes, "a shortfall of no nodes")
		require.LessOrEqual(f, s.Nodes, len(r.Nodes), "a shortfall of more nodes than were asked for")
		require.NotNil(f, s.Err, "a shortfall without an error")
		f.sound(s.Err)
		require.False(f, s.Err.Ambiguous, "a shortfall is definite, so its error is not ambiguous: %v", s.Err)
	}
}

// sound checks an error: its class and its sentence.
func (f *fixture) sound(err error) *cloud.Error {
	f.Helper()
	var e *cloud.Error
	require.True(f, errors.As(err, &e), "every error is a *cloud.Error; got %T: %v", err, err)
	require.Contains(f, cloud.Classes, e.Class, "class of the error %v", e)
	require.NotEmpty(f, strings.TrimSpace(e.Message), "an error of class %s without a sentence", e.Class)
	require.False(f, strings.HasSuffix(e.Message, "."), "an error's sentence has no final stop: %q", e.Message)
	require.NotContains(f, e.Message, "\n", "an error's sentence is one line")
	return e
}

// refused wants a definite error of the class and nothing created.
func (f *fixture) refused(r cloud.LaunchRequest, class cloud.Class) *cloud.Error {
	f.Helper()
	res, err := f.Provider.Launch(f.ctx, r)
	require.Error(f, err)
	e := f.sound(err)
	require.Equal(f, class, e.Class, "class of the error %v", e)
	require.False(f, e.Ambiguous, "nothing was tried, so the error is not ambiguous: %v", e)
	require.Empty(f, res.Instances, "an error comes without instances")
	return e
}

// list gives what the account has for the suite's cluster, by id.
func (f *fixture) list() map[string]cloud.Instance {
	f.Helper()
	return f.listOf(f.Provider, f.Cluster)
}

func (f *fixture) listOf(p cloud.Provider, cluster string) map[string]cloud.Instance {
	f.Helper()
	list, err := p.List(f.ctx, cluster)
	require.NoError(f, err, "list instances")
	byID := map[string]cloud.Instance{}
	for _, i := range list {
		require.NotContains(f, byID, i.ID, "List shows an instance twice")
		byID[i.ID] = i
	}
	return byID
}

// eventually looks at the list until ok is content with it.
func (f *fixture) eventually(what string, ok func(map[string]cloud.Instance) bool) map[string]cloud.Instance {
	f.Helper()
	deadline := time.Now().Add(f.Patience)
	for {
		list := f.list()
		if ok(list) {
			return list
		}
		if time.Now().After(deadline) {
			require.FailNow(f, "List does not come to show that "+what, "after %s it shows %s", f.Patience, shownInstances(list))
		}
		time.Sleep(f.Poll)
	}
}

// exactly wants List to come to show these instances for the token, and no
// others.
func (f *fixture) exactly(token string, instances []cloud.Instance) {
	f.Helper()
	want := idsOf(instances)
	f.eventually("all instances are there", func(list map[string]cloud.Instance) bool {
		for _, id := range want {
			if _, ok := list[id]; !ok {
				return false
			}
		}
		return true
	})
	time.Sleep(f.Settle)
	require.Equal(f, want, idsOf(withToken(f.list(), token)), "List shows one set of instances for the token")
}

// nothing wants no instance to exist for the token.
func (f *fixture) nothing(token string) {
	f.Helper()
	time.Sleep(f.Settle)
	require.Empty(f, withToken(f.list(), token), "nothing was to be created")
}

func withToken(list map[string]cloud.Instance, token string) []cloud.Instance {
	var found []cloud.Instance
	for _, i := range list {
		if i.Token == token || i.Tags[cloud.TagToken] == token {
			found = append(found, i)
		}
	}
	return found
}

func idsOf(list []cloud.Instance) []string {
	ids := make([]string, 0, len(list))
	for _, i := range list {
		ids = append(ids, i.ID)
	}
	slices.Sort(ids)
	return ids
}

// byNode maps nodes to instance ids.
func byNode(list []cloud.Instance) map[string]string {
	m := map[string]string{}
	for _, i := range list {
		m[i.Node] = i.ID
	}
	return m
}

func shown(list []cloud.Shortfall) []string {
	var out []string
	for _, s := range list {
		out = append(out, fmt.Sprintf("%s %d nodes: %v", s.Offering, s.Nodes, s.Err))
	}
	return out
}

func shownInstances(list map[string]cloud.Instance) string {
	if len(list) == 0 {
		return "nothing"
	}
	var out []string
	for _, id := range slices.Sorted(maps.Keys(list)) {
		i := list[id]
		out = append(out, fmt.Sprintf("%s %s generation %d %s", id, i.Node, i.Generation, i.State))
		if len(out) == 10 && len(list) > 10 {
			out = append(out, fmt.Sprintf("and %d more", len(list)-10))
			break
		}
	}
	return strings.Join(out, ", ")
}
