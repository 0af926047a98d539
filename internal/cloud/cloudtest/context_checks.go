package cloudtest

import (
	"context"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/cloud"
)

var contextChecks = []check{
	{"calls with a cancelled context return promptly", (*fixture).cancelled},
	{"a launch that is cancelled on its way is made up for by its token", (*fixture).cancelledOnItsWay},
}

// promptly wants call to return soon. A provider that holds on to a cancelled
// call would keep the controller from stopping.
func (f *fixture) promptly(name string, call func()) {
	f.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		call()
	}()
	late := time.NewTimer(f.Patience)
	defer late.Stop()
	select {
	case <-done:
	case <-late.C:
		require.FailNow(f, name+" has not returned", "%s after its context was cancelled", f.Patience)
	}
}

func (f *fixture) cancelled() {
	got := f.launch(f.request(1))
	ctx, cancel := context.WithCancel(f.ctx)
	cancel()
	r := f.request(2)
	var err error
	f.promptly("Launch", func() { _, err = f.Provider.Launch(ctx, r) })
	if err != nil {
		if e := f.sound(err); !e.Ambiguous {
			f.nothing(r.Token)
		}
	}
	f.promptly("List", func() { _, _ = f.Provider.List(ctx, f.Cluster) })
	f.promptly("Quotes", func() { _, _ = f.Provider.Quotes(ctx, f.Offerings) })
	f.promptly("Console", func() { _, _ = f.Provider.Console(ctx, got[0].ID) })
	f.promptly("Terminate", func() { _ = f.Provider.Terminate(ctx, idsOf(got)) })
	f.exactly(r.Token, f.launch(r))
	require.NoError(f, f.Provider.Terminate(f.ctx, idsOf(got)))
	f.eventually("the instance is terminated", f.isTerminated(got[0].ID))
}

// cancelledOnItsWay cancels after times of many sizes, so that some of them
// meet the call in its midst.
func (f *fixture) cancelledOnItsWay() {
	for d := time.Microsecond; d < 100*time.Millisecond; d *= 10 {
		r := f.job(2)
		ctx, cancel := context.WithTimeout(f.ctx, d)
		var res cloud.LaunchResult
		var err error
		f.promptly("Launch", func() { res, err = f.Provider.Launch(ctx, r) })
		cancel()
		if err != nil {
			if e := f.sound(err); !e.Ambiguous {
				f.nothing(r.Token)
			}
		} else {
			f.fits(r, res)
		}
		again := f.launch(r)
		if err == nil {
			require.Equal(f, byNode(res.Instances), byNode(again))
		}
		f.exactly(r.Token, again)
	}
}
