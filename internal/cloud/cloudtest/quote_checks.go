package cloudtest

import (
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/cloud"
)

var quoteChecks = []check{
	{"quotes come in the order asked for, with prices", (*fixture).quotesInOrder},
	{"a quote for what is not sold is a config error", (*fixture).quoteNotSold},
	{"console is no error for any instance that was ever launched", (*fixture).console},
}

func (f *fixture) quotes(offerings []cloud.Offering) []cloud.Quote {
	f.Helper()
	quotes, err := f.Provider.Quotes(f.ctx, offerings)
	require.NoError(f, err, "quote %v", offerings)
	require.Len(f, quotes, len(offerings))
	return quotes
}

func (f *fixture) quotesInOrder() {
	n := len(f.Offerings)
	asked := []cloud.Offering{f.Offerings[n-1], f.Offerings[0], f.Offerings[1], f.Offerings[0]}
	for i, q := range f.quotes(asked) {
		require.Equal(f, asked[i], q.Offering, "quotes come in the order asked for")
		require.Positive(f, q.Price, "price of %s", q.Offering)
		for what, size := range map[string][2]int{
			"CPUs": {q.CPUs, f.CPUs}, "MiB of memory": {q.MemoryMiB, f.MemoryMiB},
		} {
			require.True(f, size[0] == 0 || size[0] >= size[1], "%s is said to have %d %s, and the harness promises %d", q.Offering, size[0], what, size[1])
		}
	}
	require.Empty(f, f.quotes(nil), "asking for nothing gives nothing")
}

func (f *fixture) quoteNotSold() {
	_, err := f.Provider.Quotes(f.ctx, []cloud.Offering{f.first, f.notSold()})
	require.Error(f, err)
	e := f.sound(err)
	require.Equal(f, cloud.Config, e.Class, "class of the error %v", e)
	require.True(f, strings.Contains(e.Message, f.notSold().Type), "the error names what is not sold: %v", e)
}

func (f *fixture) console() {
	got := f.launch(f.request(1))
	look := func(when string, p cloud.Provider) {
		_, err := p.Console(f.ctx, got[0].ID)
		require.NoError(f, err, "console of an instance %s", when)
	}
	look("that was just created", f.Provider)
	f.eventually("the instance runs", func(list map[string]cloud.Instance) bool { return list[got[0].ID].State == cloud.Running })
	look("that runs", f.Provider)
	look("after a restart", f.Reopen(f))
	require.NoError(f, f.Provider.Terminate(f.ctx, idsOf(got)))
	look("that is ending", f.Provider)
	f.eventually("the instance is terminated", f.isTerminated(got[0].ID))
	look("that has ended", f.Provider)
}
