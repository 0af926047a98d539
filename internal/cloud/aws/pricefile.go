package aws

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"

	"github.com/midair-hpc/midair/internal/cloud"
)

// priceFile is a site's own list of prices, for where AWS's cannot be asked or
// does not know an offering. It is JSON:
//
//	{
//	  "currency": "USD",
//	  "prices": {
//	    "p5.48xlarge":            {"on-demand": 55.04, "spot": 22.50},
//	    "p5.48xlarge/us-east-1b": {"spot": 19.80, "reserved": 31.46}
//	  }
//	}
//
// Keys are a type, or a type in a zone, which goes first; prices are of one
// instance-hour. Market reserved, where the file has no price for it, costs as
// much as on-demand, which is what EC2 bills for an On-Demand Capacity
// Reservation; for a capacity block write what was paid, divided by
// instance-hours.
type priceFile struct {
	path   string
	prices map[string]map[cloud.Market]cloud.MicroUSD
}

func loadPriceFile(path string) (*priceFile, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the price file: %w", err)
	}
	return parsePriceFile(path, text)
}

func parsePriceFile(path string, text []byte) (*priceFile, error) {
	var f struct {
		Currency string                              `json:"currency"`
		Prices   map[string]map[cloud.Market]float64 `json:"prices"`
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return nil, fmt.Errorf("read the price file %s: %w; want {\"currency\": \"USD\", \"prices\": {\"TYPE\": {\"on-demand\": 1.5}}}", path, err)
	}
	if f.Currency != "USD" {
		return nil, fmt.Errorf("read the price file %s: currency %q; only \"USD\" is read", path, f.Currency)
	}
	p := &priceFile{path: path, prices: map[string]map[cloud.Market]cloud.MicroUSD{}}
	for key, by := range f.Prices {
		if key == "" || strings.Count(key, "/") > 1 {
			return nil, fmt.Errorf("read the price file %s: %q is neither TYPE nor TYPE/ZONE", path, key)
		}
		p.prices[key] = map[cloud.Market]cloud.MicroUSD{}
		for m, usd := range by {
			if m != cloud.OnDemand && m != cloud.Spot && m != cloud.Reserved {
				return nil, fmt.Errorf("read the price file %s: %s: market %q is none of on-demand, spot, reserved", path, key, m)
			}
			if usd <= 0 || usd > 1e6 {
				return nil, fmt.Errorf("read the price file %s: %s: %s: %g is no price of an instance-hour in USD", path, key, m, usd)
			}
			p.prices[key][m] = microUSD(usd)
		}
	}
	return p, nil
}

func microUSD(usd float64) cloud.MicroUSD { return cloud.MicroUSD(math.Round(usd * 1e6)) }

// price gives an offering's price; 0: the file, if there is one, has none.
func (f *priceFile) price(o cloud.Offering) cloud.MicroUSD {
	if f == nil {
		return 0
	}
	markets := []cloud.Market{o.Market}
	if o.Market == cloud.Reserved {
		markets = append(markets, cloud.OnDemand)
	}
	for _, m := range markets {
		for _, key := range []string{o.Type + "/" + o.Zone, o.Type} {
			if v := f.prices[key][m]; v != 0 {
				return v
			}
		}
	}
	return 0
}
