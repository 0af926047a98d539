package cloudtest

import (
	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/cloud"
)

var faultChecks = []check{
	{"instances whose answer was lost are listed with all tags", (*fixture).lostAnswerTags},
	{"a lost answer is ambiguous, and the token gives the instances", (*fixture).lostAnswer},
	{"a lost answer is made up for after a restart", (*fixture).lostAnswerRestart},
	{"a lost answer is made up for though the list lags", (*fixture).lostAnswerLag},
	{"a lost answer of a partial success is made up for", (*fixture).lostAnswerPart},
	{"a throttled launch creates nothing and works later", (*fixture).throttled},
	{"other calls say that they are throttled", (*fixture).throttledOthers},
}

func (f *fixture) loseAnswer(r cloud.LaunchRequest) {
	f.Helper()
	f.need("a lost answer", f.Breaks.LoseAnswer != nil)
	f.Breaks.LoseAnswer(f)
	res, err := f.Provider.Launch(f.ctx, r)
	require.Error(f, err, "the answer was lost")
	e := f.sound(err)
	require.True(f, e.Ambiguous, "nobody knows what a call has done whose answer was lost: %v", e)
	require.Empty(f, res.Instances, "an error comes without instances")
}

// lostAnswerTags: the tags are in the create call itself, so that what nobody
// asks for again is found and ended; with NamedLater, those that all nodes share.
func (f *fixture) lostAnswerTags() {
	r := f.request(2)
	f.loseAnswer(r)
	list := f.eventually("both instances are there", func(list map[string]cloud.Instance) bool { return len(withToken(list, r.Token)) == 2 })
	for _, i := range withToken(list, r.Token) {
		f.identified(r, i)
	}
}

func (f *fixture) lostAnswer() {
	r := f.job(3)
	f.loseAnswer(r)
	got := f.launch(r)
	f.exactly(r.Token, got)
	require.Equal(f, byNode(got), byNode(f.launch(r)))
}

func (f *fixture) lostAnswerRestart() {
	r := f.request(2)
	f.loseAnswer(r)
	got := f.launchBy(f.Reopen(f), r)
	f.exactly(r.Token, got)
}

func (f *fixture) lostAnswerLag() {
	f.lagList()
	r := f.job(2)
	f.loseAnswer(r)
	got := f.launchBy(f.Reopen(f), r)
	require.Equal(f, byNode(got), byNode(f.launch(r)), "the same token gives the same instances though List does not show them yet")
	f.Breaks.Clear(f)
	f.exactly(r.Token, got)
}

func (f *fixture) lostAnswerPart() {
	f.outOfStockOf(f.first, 1)
	r := f.request(3)
	f.loseAnswer(r)
	f.short(r, 1, shortOf(f.first, 2, cloud.OutOfStock))
}

func (f *fixture) throttle(n int) {
	f.Helper()
	f.need("throttling", f.Breaks.Throttle != nil)
	f.Breaks.Throttle(f, n)
}

func (f *fixture) throttled() {
	f.throttle(2)
	r := f.job(2)
	f.refused(r, cloud.Throttled)
	f.refused(r, cloud.Throttled)
	f.Breaks.Clear(f)
	f.nothing(r.Token)
	f.exactly(r.Token, f.launch(r))
}

func (f *fixture) throttledOthers() {
	got := f.launch(f.request(1))
	for name, call := range map[string]func() error{
		"List":      func() error { _, err := f.Provider.List(f.ctx, f.Cluster); return err },
		"Terminate": func() error { return f.Provider.Terminate(f.ctx, idsOf(got)) },
	} {
		f.throttle(1)
		err := call()
		require.Error(f, err, "%s is throttled", name)
		require.Equal(f, cloud.Throttled, f.sound(err).Class, "class of the error of %s: %v", name, err)
		require.NoError(f, call(), "%s works later", name)
	}
	f.eventually("the instance has ended", func(list map[string]cloud.Instance) bool { return !list[got[0].ID].Live() })
}
