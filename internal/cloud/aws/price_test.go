package aws

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/cloud"
)

func quote(t testing.TB, p *Provider, offerings ...cloud.Offering) []cloud.Quote {
	t.Helper()
	q, err := p.Quotes(context.Background(), offerings)
	require.NoError(t, err)
	return q
}

func priceFileOf(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "prices.json")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestQuotesGiveSizesAndPrices(t *testing.T) {
	l := newLab(t)
	require.NoError(t, l.SetSpotPrice("p5.48xlarge", zoneA, 20.5))
	p := l.open()
	q := quote(t, p, p5odA, p5spotA, offering("p5.48xlarge", zoneA, cloud.Reserved))
	require.Equal(t, cloud.Quote{Offering: p5odA, Price: 55_040_000, CPUs: 192, MemoryMiB: 2097152, GPUs: 8}, q[0])
	require.Equal(t, cloud.MicroUSD(20_500_000), q[1].Price)
	require.Equal(t, cloud.MicroUSD(55_040_000), q[2].Price, "a reservation is billed as on-demand")
}

func TestPricesAreAskedForAgainWhenTheyAreOld(t *testing.T) {
	c := &clock{at: time.Now()}
	l := newLab(t)
	p := l.open(func(o *Options) { o.Now = c.now })
	for range 3 {
		quote(t, p, p5odA, p5spotA, p5spotB)
	}
	require.Equal(t, 1, l.Calls()["DescribeSpotPriceHistory"])
	require.Equal(t, 1, l.Calls()["GetProducts"])
	c.forward(spotKept)
	require.NoError(t, l.SetSpotPrice("p5.48xlarge", zoneA, 1.25))
	require.Equal(t, cloud.MicroUSD(1_250_000), quote(t, p, p5spotA)[0].Price)
	require.Equal(t, 1, l.Calls()["GetProducts"])
	require.Equal(t, 1, l.Calls()["DescribeInstanceTypes"])
}

func TestPriceFileStandsInForThePriceList(t *testing.T) {
	path := priceFileOf(t, `{"currency": "USD", "prices": {"p5.48xlarge": {"on-demand": 50, "reserved": 31.46}, "p5.48xlarge/us-east-1b": {"on-demand": 51, "spot": 19.8}}}`)
	l := newLab(t)
	p := l.open(func(o *Options) { o.AWS.PriceFile = path })
	require.Equal(t, cloud.MicroUSD(55_040_000), quote(t, p, p5odA)[0].Price, "AWS knows it")
	require.Equal(t, cloud.MicroUSD(31_460_000), quote(t, p, offering("p5.48xlarge", zoneA, cloud.Reserved))[0].Price, "the site knows what it has paid")

	require.NoError(t, l.Deny("GetProducts", "DescribeSpotPriceHistory"))
	p = l.open(func(o *Options) { o.AWS.PriceFile = path })
	q := quote(t, p, p5odA, p5odB, p5spotB)
	require.Equal(t, []cloud.MicroUSD{50_000_000, 51_000_000, 19_800_000}, []cloud.MicroUSD{q[0].Price, q[1].Price, q[2].Price})
	_, err := p.Quotes(context.Background(), []cloud.Offering{p5odB, p5spotA})
	e := cloud.AsError(err)
	require.Equal(t, cloud.Unauthorized, e.Class)
	require.Contains(t, e.Message, "no price of p5.48xlarge/us-east-1a/spot: the credentials lack the permission ec2:DescribeSpotPriceHistory, and neither has "+path)
	_, err = l.open().Quotes(context.Background(), []cloud.Offering{p5odA})
	require.ErrorContains(t, err, "no price of p5.48xlarge/us-east-1a/on-demand: the credentials lack the permission pricing:GetProducts, and provider east has no price_file")
}

func TestPriceListThatFailsIsNotAskedWithEveryQuote(t *testing.T) {
	c := &clock{at: time.Now()}
	l := newLab(t)
	require.NoError(t, l.Deny("GetProducts"))
	p := l.open(func(o *Options) {
		o.Now = c.now
		o.AWS.PriceFile = priceFileOf(t, `{"currency": "USD", "prices": {"p5.48xlarge": {"on-demand": 50}}}`)
	})
	for range 5 {
		require.Equal(t, cloud.MicroUSD(50_000_000), quote(t, p, p5odA)[0].Price)
	}
	require.Equal(t, 1, l.Calls()["GetProducts"])
	require.NoError(t, l.Allow())
	c.forward(listRetry)
	require.Equal(t, cloud.MicroUSD(55_040_000), quote(t, p, p5odA)[0].Price)
}

func TestZoneThatDoesNotSellATypeIsNamed(t *testing.T) {
	_, err := newLab(t).open().Quotes(context.Background(), []cloud.Offering{p5odA, offering("p5e.48xlarge", zoneC, cloud.OnDemand)})
	require.Equal(t, "config: EC2 does not sell p5e.48xlarge in zone us-east-1c: correct types and zones of the pool", err.Error())
}

func TestBadPriceFilesAreRefused(t *testing.T) {
	for text, says := range map[string]string{
		"": "EOF", `{"currency": "EUR", "prices": {}}`: `currency "EUR"; only "USD" is read`,
		`{"currency": "USD", "price": {}}`:                     "unknown field",
		`{"currency": "USD", "prices": {"a/b/c": {}}}`:         `"a/b/c" is neither TYPE nor TYPE/ZONE`,
		`{"currency": "USD", "prices": {"p5": {"cheap": 1}}}`:  `market "cheap" is none of`,
		`{"currency": "USD", "prices": {"p5": {"spot": -1}}}`:  "no price of an instance-hour",
		`{"currency": "USD", "prices": {"p5": {"spot": "1"}}}`: "cannot unmarshal",
	} {
		_, err := parsePriceFile("prices.json", []byte(text))
		require.ErrorContains(t, err, says, text)
		require.ErrorContains(t, err, "prices.json")
	}
}

func FuzzPriceFile(f *testing.F) {
	f.Add([]byte(`{"currency": "USD", "prices": {"p5": {"spot": 1.5}}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := parsePriceFile("x", text)
		if err != nil {
			return
		}
		for _, by := range p.prices {
			for m, v := range by {
				if v < 0 || m == "" {
					t.Fatalf("%q: %v", text, p.prices)
				}
			}
		}
	})
}

func FuzzPriceList(f *testing.F) {
	f.Add(`{"terms":{"OnDemand":{"a":{"priceDimensions":{"b":{"unit":"Hrs","pricePerUnit":{"USD":"1.5"}}}}}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		if hourly(text) < 0 {
			t.Fatal(text)
		}
	})
}
