package planner

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/ledger"
)

// mixed is a pool of two list entries: the first sells two types in two zones on
// spot and on demand, the second one type more.
func mixed(t testing.TB) Pool {
	p := pool(t, "p", "east", "s/za/spot", "l/za/spot", "s/zb/spot", "l/zb/spot", "s/za/on-demand", "l/za/on-demand", "x/za/spot")
	p.Entries = []int{0, 0, 0, 0, 0, 0, 1}
	return p
}

func pricesOf(t testing.TB, provider string, list ...string) map[Key]cloud.MicroUSD {
	m := map[Key]cloud.MicroUSD{}
	for _, text := range list {
		key, price, _ := strings.Cut(text, "=")
		var v int64
		for _, c := range price {
			v = v*10 + int64(c-'0')
		}
		m[Key{provider, offering(t, key)}] = cloud.MicroUSD(v)
	}
	return m
}

func TestOfferingsAreAskedForInTheTiersOrderAndByPriceAmongEquals(t *testing.T) {
	prices := pricesOf(t, "east", "s/za/spot=30", "l/za/spot=20", "s/zb/spot=40", "s/za/on-demand=90", "l/za/on-demand=80", "x/za/spot=1")
	for name, c := range map[string]struct {
		policy  Policy
		factors []float64
		prices  map[Key]cloud.MicroUSD
		tried   []string
		want    string
	}{
		"cheapest first, unknown prices last, in one call": {prices: prices, want: "l/za/spot+s/za/spot+s/zb/spot+l/zb/spot"},
		"without prices as they are listed":                {want: "s/za/spot+l/za/spot+s/zb/spot+l/zb/spot"},
		"weighed by locality and interconnect": {prices: prices, factors: []float64{1, 1, 0.4, 1, 1, 1, 1},
			want: "s/zb/spot+l/za/spot+s/za/spot+l/zb/spot"},
		"an entry is preferred to a cheaper one after it": {prices: prices, tried: []string{"l/za/spot", "s/za/spot", "s/zb/spot"}, want: "l/zb/spot"},
		"markets of an entry come before the next entry": {prices: prices, tried: []string{"l/za/spot", "s/za/spot", "s/zb/spot", "l/zb/spot"},
			want: "l/za/on-demand+s/za/on-demand"},
		"a tier's order of markets comes before entries": {policy: Policy{Markets: []cloud.Market{cloud.Spot, cloud.OnDemand}}, prices: prices,
			tried: []string{"l/za/spot", "s/za/spot", "s/zb/spot", "l/zb/spot"}, want: "x/za/spot"},
		"a tier may want on-demand first": {policy: Policy{Markets: []cloud.Market{cloud.OnDemand, cloud.Spot}}, prices: prices, want: "l/za/on-demand+s/za/on-demand"},
		"a market that the tier does not name is not bought on": {policy: Policy{Markets: []cloud.Market{cloud.OnDemand}}, prices: prices,
			tried: []string{"l/za/on-demand", "s/za/on-demand"}, want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := mixed(t)
			p.Factors = c.factors
			d := single("L", "p", "n").afterTrying(c.tried...)
			d.Tier = "t"
			res := Plan(Input{Now: noon, Pools: []Pool{p}, Demands: []Demand{d}, Prices: c.prices, Policies: map[string]Policy{"t": c.policy}})
			if c.want == "" {
				require.Empty(t, res.Calls)
				return
			}
			require.Len(t, res.Calls, 1)
			require.Equal(t, c.want, keysOf(res.Calls[0].Offerings))
		})
	}
}

func TestWhatATierDoesWhenItsFirstMarketIsOut(t *testing.T) {
	p := pool(t, "p", "east", s1, s3)
	gone := []ledger.MemoryEntry{out(t, "east", s1, cloud.OutOfStock, 10*time.Minute)}
	at := func(d time.Duration) time.Time { return noon.Add(d) }
	for name, c := range map[string]struct {
		policy        Policy
		memory        []ledger.MemoryEntry
		since, latest time.Time
		want          string // offering, or the refusal
		retry         time.Time
	}{
		"nothing said: the next market at once": {memory: gone, want: s3},
		"fallback at once":                      {policy: Policy{WhenOut: Fallback}, memory: gone, since: at(0), want: s3},
		"fallback later": {policy: Policy{WhenOut: Fallback, After: 15 * time.Minute}, memory: gone, since: at(-10 * time.Minute),
			want: "out-of-stock: no spot capacity in pool p, tried again at 12:05:00; other markets from 12:05:00", retry: at(5 * time.Minute)},
		"fallback after its time":              {policy: Policy{WhenOut: Fallback, After: 15 * time.Minute}, memory: gone, since: at(-15 * time.Minute), want: s3},
		"spot again once its memory has ended": {policy: Policy{WhenOut: Fallback}, since: at(-time.Hour), want: s1},
		"pause": {policy: Policy{WhenOut: Pause}, memory: gone, since: at(-time.Hour),
			want: "out-of-stock: no spot capacity in pool p, tried again at 12:10:00; tier t buys only there", retry: at(10 * time.Minute)},
		"pause while there is something": {policy: Policy{WhenOut: Pause}, want: s1},
		"deadline without one": {policy: Policy{WhenOut: Deadline}, memory: gone,
			want: "out-of-stock: no spot capacity in pool p, tried again at 12:10:00; tier t buys only there", retry: at(10 * time.Minute)},
		"deadline far": {policy: Policy{WhenOut: Deadline}, memory: gone, latest: at(time.Hour),
			want: "out-of-stock: no spot capacity in pool p, tried again at 12:10:00; other markets from 13:00:00, for its deadline", retry: at(10 * time.Minute)},
		"deadline before spot is tried again": {policy: Policy{WhenOut: Deadline}, memory: gone, latest: at(9 * time.Minute), want: s3},
		"deadline reached":                    {policy: Policy{WhenOut: Deadline}, memory: gone, latest: at(-time.Minute), want: s3},
	} {
		t.Run(name, func(t *testing.T) {
			d := single("L", "p", "n")
			d.Tier, d.Since, d.Latest = "t", c.since, c.latest
			res := Plan(Input{Now: noon, Pools: []Pool{p}, Memory: c.memory, Demands: []Demand{d}, Policies: map[string]Policy{"t": c.policy}})
			if len(res.Calls) > 0 {
				require.Equal(t, c.want, keysOf(res.Calls[0].Offerings))
				return
			}
			require.Equal(t, c.want, res.Refusals[0].Err.Error())
			require.Equal(t, c.retry, res.Refusals[0].RetryAt)
		})
	}
}

func TestPatientJobsAreNotHeldForAnEmptyMarket(t *testing.T) {
	require.True(t, Policy{WhenOut: Pause}.Patient(time.Time{}, time.Time{}, noon))
	require.True(t, Policy{WhenOut: Deadline}.Patient(noon, time.Time{}, noon))
	require.True(t, Policy{WhenOut: Deadline}.Patient(noon, noon.Add(1), noon))
	require.False(t, Policy{WhenOut: Deadline}.Patient(noon, noon, noon))
	require.True(t, Policy{WhenOut: Fallback, After: time.Minute}.Patient(noon, time.Time{}, noon))
	require.False(t, Policy{WhenOut: Fallback, After: time.Minute}.Patient(noon.Add(-time.Minute), time.Time{}, noon))
	require.False(t, Policy{}.Patient(noon, time.Time{}, noon))

	again := AfterFailure(cloud.OutOfStock, 99, noon.Add(2*time.Hour), noon, time.Second, time.Minute, 3, 0, true)
	require.Equal(t, Requeue{StartAt: noon.Add(2 * time.Hour)}, again, "however late, and never held")
	require.True(t, AfterFailure(cloud.InitFailed, 99, time.Time{}, noon, time.Second, time.Minute, 3, 0, true).Hold, "patience is for stock only")
}

func TestShortageOfManyNodesIsNoneOfFew(t *testing.T) {
	p := pool(t, "p", "east", s1, s2)
	m, ok := RememberFor(nil, "east", "p", offering(t, s1), &cloud.Error{Class: cloud.OutOfStock}, 3, noon, time.Minute, time.Hour)
	require.True(t, ok)
	for nodes, want := range map[string]string{"n1 n2": s1, "n1 n2 n3": s2, "n1 n2 n3 n4": s2} {
		res := Plan(Input{Now: noon, Pools: []Pool{p}, Memory: []ledger.MemoryEntry{m}, Demands: []Demand{job("L", "p", nodes)}})
		require.Equal(t, want, res.Calls[0].Offerings[0].Key(), nodes)
	}
	res := Plan(Input{Now: noon, Pools: []Pool{p}, Memory: []ledger.MemoryEntry{m}, Demands: []Demand{single("L", "p", "n1 n2 n3")}})
	require.Equal(t, s1, res.Calls[0].Offerings[0].Key(), "three jobs of one node each are not all or nothing")

	less, ok := RememberFor(&m, "east", "p", offering(t, s1), &cloud.Error{Class: cloud.OutOfStock}, 1, noon, time.Minute, time.Hour)
	require.True(t, ok)
	require.Equal(t, 1, less.Nodes)
}

func TestSpecificationThatDoesNotFitOnePoolIsSoldToAnother(t *testing.T) {
	m, ok := RememberFor(nil, "east", "big", offering(t, s1), &cloud.Error{Class: cloud.SpecMismatch}, 4, noon, time.Minute, time.Hour)
	require.True(t, ok)
	in := Input{Now: noon, Pools: []Pool{pool(t, "big", "east", s1), pool(t, "small", "east", s1)}, Memory: []ledger.MemoryEntry{m},
		Demands: []Demand{single("L1", "big", "b"), single("L2", "small", "s")}}
	calls, refusals := show(Plan(in))
	require.Equal(t, []string{"east:small " + s1 + " L2/s"}, calls)
	require.Equal(t, []string{"L1 big spec-mismatch"}, refusals)
}

func TestQuotaOfOneTypeIsThatOfItsFamilyOnThatMarket(t *testing.T) {
	in := Input{Now: noon, Pools: []Pool{pool(t, "p", "east", "g5/za/spot", "g6/zb/spot", "p4/za/spot", "g5/za/on-demand")},
		Memory: []ledger.MemoryEntry{out(t, "east", "g5/za/spot", cloud.Quota, time.Minute)},
		Bucket: func(k Key) string { return k.Offering.Type[:1] + string(k.Offering.Market) }}
	in.Demands = []Demand{single("L", "p", "n")}
	require.Equal(t, "p4/za/spot", Plan(in).Calls[0].Offerings[0].Key())
	in.Demands = []Demand{single("L", "p", "n").afterTrying("p4/za/spot")}
	require.Equal(t, "g5/za/on-demand", Plan(in).Calls[0].Offerings[0].Key())
	in.Demands = []Demand{single("L", "p", "n").afterTrying("p4/za/spot", "g5/za/on-demand")}
	require.Equal(t, cloud.Quota, Plan(in).Refusals[0].Err.Class)
}

func TestNodesOfAJobStayInTheZoneOfThoseThatItHas(t *testing.T) {
	d := job("L", "p", "n3")
	d.Zone = "zb"
	calls, _ := show(Plan(Input{Now: noon, Pools: []Pool{pool(t, "p", "east", s1, s2, s3)}, Demands: []Demand{d}}))
	require.Equal(t, []string{"all east:p " + s2 + " L/n3"}, calls)
}

func TestJobThatMayBeApartIsAloneInItsCallAndMayBeServedInPart(t *testing.T) {
	d := single("L1", "p", "n1 n2")
	d.Alone = true
	calls, _ := show(Plan(Input{Now: noon, Pools: []Pool{pool(t, "p", "east", s1)}, Demands: []Demand{d, single("L2", "p", "n3"), single("L3", "p", "n4")}}))
	require.Equal(t, []string{"east:p " + s1 + " L1/n1 L1/n2", "east:p " + s1 + " L2/n3 L3/n4"}, calls)
}

func TestOfferingWhoseInstancesDoNotBootIsPassedOverThenTriedByOneLaunchAtATime(t *testing.T) {
	bad := offering(t, s1)
	e := &cloud.Error{Class: cloud.InitFailed, Message: "did not register"}
	var m *ledger.MemoryEntry
	for i := range 3 {
		next, ok := RememberInit(m, "east", bad, e, noon, time.Minute, time.Hour, 3)
		require.True(t, ok)
		require.Equal(t, i+1, next.Failures)
		require.Equal(t, i == 2, next.Until.After(noon), "only the third in a row opens the breaker")
		m = &next
	}
	_, ok := RememberInit(m, "east", bad, e, noon, time.Minute, time.Hour, 3)
	require.False(t, ok, "those on their way when it opened do not count")

	p := pool(t, "p", "east", s1, s2)
	p.Entries = []int{0, 0}
	ask := func(now time.Time, probing map[Key]bool) []string {
		calls, _ := show(Plan(Input{Now: now, Pools: []Pool{p}, Memory: []ledger.MemoryEntry{*m}, Breaker: 3, Probing: probing,
			Demands: []Demand{single("L1", "p", "n1"), single("L2", "p", "n2")}}))
		return calls
	}
	require.Equal(t, []string{"east:p " + s2 + " L1/n1 L2/n2"}, ask(noon, nil), "open")
	later := noon.Add(2 * time.Minute)
	require.Equal(t, []string{"east:p " + s1 + " L1/n1", "east:p " + s2 + " L2/n2"}, ask(later, nil), "half open: one launch, alone in its call")
	require.Equal(t, []string{"east:p " + s2 + " L1/n1 L2/n2"}, ask(later, map[Key]bool{{"east", bad}: true}), "somebody is trying it")

	again, ok := RememberInit(m, "east", bad, e, later, time.Minute, time.Hour, 3)
	require.True(t, ok)
	require.Equal(t, later.Add(2*time.Minute), again.Until, "for longer each time")
}

func TestExplanationAgreesWithThePlan(t *testing.T) {
	p := mixed(t)
	in := Input{Now: noon, Pools: []Pool{p}, Policies: map[string]Policy{"t": {WhenOut: Pause}},
		Memory: []ledger.MemoryEntry{out(t, "east", "s/za/spot", cloud.OutOfStock, time.Minute)}}
	d := single("L", "p", "n")
	d.Tier = "t"
	verdicts, refusal := Explain(in, d)
	require.Nil(t, refusal)
	in.Demands = []Demand{d}
	var asked []cloud.Offering
	places := map[string]Place{}
	for _, v := range verdicts {
		places[v.Offering.Key()] = v.Place
		if v.Place == Asked {
			asked = append(asked, v.Offering)
		}
	}
	require.Equal(t, Plan(in).Calls[0].Offerings, asked)
	require.Equal(t, PassedOver, places["s/za/spot"])
	require.Equal(t, Waits, places["s/za/on-demand"])
	require.Equal(t, Next, places["x/za/spot"])
}
