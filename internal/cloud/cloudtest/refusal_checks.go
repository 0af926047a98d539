package cloudtest

import (
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/cloud"
)

var refusalChecks = []check{
	{"an instance smaller than promised is never launched", (*fixture).specMismatch},
	{"an offering that is too small is passed over for one that fits", (*fixture).specMismatchFallback},
	{"an offering that is not sold is a config error", (*fixture).unknownOffering},
}

// more than any machine has.
const tooMany = 1 << 24

func (f *fixture) specMismatch() {
	q := f.quotes([]cloud.Offering{f.first})[0]
	asks := map[string]func(*cloud.LaunchRequest){"CPUs": func(r *cloud.LaunchRequest) { r.CPUs = tooMany }}
	if q.MemoryMiB > 0 {
		asks["memory"] = func(r *cloud.LaunchRequest) { r.MemoryMiB = tooMany << 10 }
	}
	if q.CPUs > 0 { // the provider knows its types, so it knows that this one has fewer GPUs
		asks["GPUs"] = func(r *cloud.LaunchRequest) { r.GPUs = tooMany }
	}
	for what, ask := range asks {
		for _, r := range []cloud.LaunchRequest{f.request(2), f.job(2)} {
			ask(&r)
			e := f.unserved(r)
			require.Equal(f, cloud.SpecMismatch, e.Class, "class of the error %v, asked for too many %s", e, what)
		}
	}
}

// unserved wants no instance, and gives the reason: that of the one shortfall,
// or an error, which is right too where nothing was tried.
func (f *fixture) unserved(r cloud.LaunchRequest) *cloud.Error {
	f.Helper()
	res, err := f.answer(f.Provider, r)
	var e *cloud.Error
	if err != nil {
		e = f.sound(err)
		require.False(f, e.Ambiguous, "nothing was tried, so the error is not ambiguous: %v", e)
	} else {
		f.fits(r, res)
		require.Empty(f, res.Instances)
		require.Len(f, res.Shortfalls, len(r.Offerings), "shortfalls: %v", shown(res.Shortfalls))
		e = res.Shortfalls[0].Err
	}
	f.nothing(r.Token)
	return e
}

// specMismatchFallback needs offerings of different sizes.
func (f *fixture) specMismatchFallback() {
	quotes := f.quotes(f.Offerings)
	for _, small := range quotes {
		for _, big := range quotes {
			if small.CPUs == 0 || small.CPUs >= big.CPUs {
				continue
			}
			r := f.job(2)
			r.CPUs = big.CPUs
			r.Offerings = []cloud.Offering{small.Offering, big.Offering}
			got := f.short(r, 2, shortOf(small.Offering, 2, cloud.SpecMismatch))
			require.Equal(f, map[cloud.Offering]int{big.Offering: 2}, perOffering(got))
			return
		}
	}
	f.Skip("the harness has no two offerings whose CPUs are known and differ")
}

// notSold is an offering of a type that no cloud has.
func (f *fixture) notSold() cloud.Offering {
	o := f.first
	o.Type = "midair-no-such-type"
	return o
}

func (f *fixture) unknownOffering() {
	for _, offerings := range [][]cloud.Offering{{f.notSold()}, {f.first, f.notSold()}} {
		r := f.request(2)
		r.Offerings = offerings
		e := f.refused(r, cloud.Config)
		require.True(f, strings.Contains(e.Message, f.notSold().Type), "the error names what is not sold: %v", e)
		f.nothing(r.Token)
	}
}
