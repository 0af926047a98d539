package cloudtest

import (
	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/cloud"
)

var shortageChecks = []check{
	{"out of stock is a shortfall and creates nothing", (*fixture).outOfStock},
	{"all or nothing with too little stock creates nothing", (*fixture).allOrNothingShort},
	{"all or nothing with just enough stock gives all", (*fixture).allOrNothingEnough},
	{"best effort with too little stock gives a part and says how many it could not", (*fixture).bestEffortShort},
	{"the first offering that has stock is taken", (*fixture).preference},
	{"best effort fills up from the next offering", (*fixture).bestEffortOverOfferings},
	{"all or nothing comes from one offering", (*fixture).allOrNothingOverOfferings},
	{"all or nothing that fits in no offering creates nothing", (*fixture).allOrNothingNowhere},
	{"callers at once do not share the last instances", (*fixture).lastInstances},
	{"one offering out of stock leaves the others alone", (*fixture).othersInStock},
	{"a quota is told from a shortage", (*fixture).quota},
}

func (f *fixture) outOfStockOf(o cloud.Offering, left int) {
	f.Helper()
	f.need("a shortage", f.Breaks.OutOfStock != nil)
	f.Breaks.OutOfStock(f, o, left)
}

// short wants n instances and the shortfalls given, in that order.
func (f *fixture) short(r cloud.LaunchRequest, n int, want ...cloud.Shortfall) []cloud.Instance {
	f.Helper()
	res, err := f.answer(f.Provider, r)
	require.NoError(f, err, "a shortage is a definite answer, not an error")
	f.fits(r, res)
	require.Len(f, res.Instances, n, "instances; shortfalls: %v", shown(res.Shortfalls))
	require.Len(f, res.Shortfalls, len(want), "shortfalls: %v", shown(res.Shortfalls))
	for i, w := range want {
		s := res.Shortfalls[i]
		require.Equal(f, w.Offering, s.Offering, "offering of a shortfall")
		require.Equal(f, w.Nodes, s.Nodes, "how many nodes %s failed to serve", s.Offering)
		require.Equal(f, w.Err.Class, s.Err.Class, "class of the shortfall %v", s.Err)
	}
	if n == 0 {
		f.nothing(r.Token)
	} else {
		f.exactly(r.Token, res.Instances)
	}
	return res.Instances
}

func shortOf(o cloud.Offering, nodes int, class cloud.Class) cloud.Shortfall {
	return cloud.Shortfall{Offering: o, Nodes: nodes, Err: &cloud.Error{Class: class}}
}

func (f *fixture) outOfStock() {
	f.outOfStockOf(f.first, 0)
	f.short(f.request(2), 0, shortOf(f.first, 2, cloud.OutOfStock))
	f.short(f.job(2), 0, shortOf(f.first, 2, cloud.OutOfStock))
	f.Breaks.Clear(f)
	f.launch(f.request(2))
}

func (f *fixture) allOrNothingShort() {
	f.outOfStockOf(f.first, 2)
	f.short(f.job(3), 0, shortOf(f.first, 3, cloud.OutOfStock))
	// What was refused must not have used up the stock.
	f.launch(f.job(2))
}

func (f *fixture) allOrNothingEnough() {
	f.outOfStockOf(f.first, 3)
	f.launch(f.job(3))
	f.short(f.job(1), 0, shortOf(f.first, 1, cloud.OutOfStock))
}

func (f *fixture) bestEffortShort() {
	f.outOfStockOf(f.first, 2)
	f.short(f.request(5), 2, shortOf(f.first, 3, cloud.OutOfStock))
}

func (f *fixture) preference() {
	o := f.Offerings
	r := f.request(2)
	r.Offerings = []cloud.Offering{o[2], o[0], o[1]}
	for _, i := range f.launch(r) {
		require.Equal(f, o[2], i.Offering, "the offering that is preferred has stock")
	}
	f.outOfStockOf(o[2], 0)
	r = f.request(2)
	r.Offerings = []cloud.Offering{o[2], o[0], o[1]}
	for _, i := range f.short(r, 2, shortOf(o[2], 2, cloud.OutOfStock)) {
		require.Equal(f, o[0], i.Offering, "the next offering has stock")
	}
}

func perOffering(list []cloud.Instance) map[cloud.Offering]int {
	n := map[cloud.Offering]int{}
	for _, i := range list {
		n[i.Offering]++
	}
	return n
}

func (f *fixture) bestEffortOverOfferings() {
	o := f.Offerings
	f.outOfStockOf(o[0], 2)
	f.outOfStockOf(o[1], 1)
	r := f.request(5)
	r.Offerings = o[:2]
	got := f.short(r, 3, shortOf(o[0], 3, cloud.OutOfStock), shortOf(o[1], 2, cloud.OutOfStock))
	require.Equal(f, map[cloud.Offering]int{o[0]: 2, o[1]: 1}, perOffering(got))
}

func (f *fixture) allOrNothingOverOfferings() {
	o := f.Offerings
	f.outOfStockOf(o[0], 2)
	r := f.job(3)
	r.Offerings = o[:2]
	got := f.short(r, 3, shortOf(o[0], 3, cloud.OutOfStock))
	require.Equal(f, map[cloud.Offering]int{o[1]: 3}, perOffering(got), "all instances come from the one offering that has enough")
	r = f.job(2)
	r.Offerings = o[:2]
	require.Equal(f, map[cloud.Offering]int{o[0]: 2}, perOffering(f.launch(r)), "the stock of the first offering is untouched")
}

func (f *fixture) allOrNothingNowhere() {
	o := f.Offerings
	f.outOfStockOf(o[0], 2)
	f.outOfStockOf(o[1], 2)
	r := f.job(3)
	r.Offerings = o[:2]
	f.short(r, 0, shortOf(o[0], 3, cloud.OutOfStock), shortOf(o[1], 3, cloud.OutOfStock))
}

func (f *fixture) lastInstances() {
	f.outOfStockOf(f.first, 5)
	var requests []cloud.LaunchRequest
	for range 8 {
		requests = append(requests, f.job(1))
	}
	served := 0
	for _, a := range f.together(requests) {
		require.NoError(f, a.err)
		f.fits(a.request, a.result)
		served += len(a.result.Instances)
	}
	require.Equal(f, 5, served, "five instances were left for eight callers")
}

func (f *fixture) othersInStock() {
	f.outOfStockOf(f.first, 0)
	r := f.job(2)
	r.Offerings = []cloud.Offering{f.Offerings[1]}
	f.launch(r)
	r = f.job(2)
	r.Offerings = []cloud.Offering{f.Offerings[2]}
	f.launch(r)
}

func (f *fixture) quota() {
	f.need("a quota", f.Breaks.Quota != nil)
	f.Breaks.Quota(f, 2)
	f.short(f.job(3), 0, shortOf(f.first, 3, cloud.Quota))
	f.short(f.request(3), 2, shortOf(f.first, 1, cloud.Quota))
	f.short(f.request(1), 0, shortOf(f.first, 1, cloud.Quota))
}
