package aws

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/pricing"
	pricingtypes "github.com/aws/aws-sdk-go-v2/service/pricing/types"

	"github.com/midair-hpc/midair/internal/cloud"
)

// How long prices are remembered. Spot prices move a few times a day, those of
// the price list a few times a year.
const (
	spotKept     = 10 * time.Minute
	onDemandKept = 24 * time.Hour
)

// product is what spot prices are of.
const product = "Linux/UNIX"

// Quotes implements cloud.Provider. Memory is EC2's nominal size.
func (p *Provider) Quotes(ctx context.Context, offerings []cloud.Offering) ([]cloud.Quote, error) {
	if len(offerings) == 0 {
		return nil, ctx.Err()
	}
	quotes, err := p.quote(ctx, offerings)
	if err != nil {
		return nil, p.classify("Quotes", "", err)
	}
	return quotes, nil
}

func (p *Provider) quote(ctx context.Context, offerings []cloud.Offering) ([]cloud.Quote, error) {
	if err := p.sold(ctx, offerings); err != nil {
		return nil, err
	}
	var names, spot, listed []string
	for _, o := range offerings {
		add := func(to *[]string) {
			if !slices.Contains(*to, o.Type) {
				*to = append(*to, o.Type)
			}
		}
		add(&names)
		switch o.Market {
		case cloud.Spot:
			add(&spot)
		case cloud.OnDemand, cloud.Reserved:
			if o.Market == cloud.OnDemand || p.file.price(o) == 0 {
				add(&listed)
			}
		}
	}
	sizes, err := p.typesOf(ctx, names)
	if err != nil {
		return nil, err
	}
	spotPrices, spotErr := p.spotPrices(ctx, spot)
	listPrices, listErr := p.listPrices(ctx, listed)
	quotes := make([]cloud.Quote, 0, len(offerings))
	for _, o := range offerings {
		s, ok := sizes[o.Type]
		if !ok {
			return nil, p.notSold(o, false)
		}
		q := cloud.Quote{Offering: o, CPUs: s.vcpus, MemoryMiB: s.memoryMiB, GPUs: s.gpus}
		why := listErr
		switch o.Market {
		case cloud.Spot:
			q.Price, why = spotPrices[o.Type][o.Zone], spotErr
		case cloud.Reserved:
			// A site knows what it has paid for its reservations.
			if q.Price = p.file.price(o); q.Price == 0 {
				q.Price = listPrices[o.Type]
			}
		case cloud.OnDemand:
			q.Price = listPrices[o.Type]
		}
		if q.Price == 0 {
			q.Price = p.file.price(o)
		}
		if q.Price == 0 {
			return nil, p.noPrice(o, why)
		}
		quotes = append(quotes, q)
	}
	return quotes, nil
}

// noPrice says that neither AWS nor the price file knows a price.
func (p *Provider) noPrice(o cloud.Offering, why error) *cloud.Error {
	file := "and provider " + p.name + " has no price_file"
	if p.file != nil {
		file = "and neither has " + p.file.path
	}
	if why != nil {
		e := p.classify("Quotes", "", why)
		return &cloud.Error{Class: e.Class, Code: e.Code, Err: why, Ambiguous: e.Ambiguous, Message: fmt.Sprintf("no price of %s: %s, %s", o.Key(), e.Message, file)}
	}
	return &cloud.Error{Class: cloud.Config, Message: fmt.Sprintf("AWS has no price of %s, %s", o.Key(), file)}
}

// spotPrices gives the latest price of types by zone.
func (p *Provider) spotPrices(ctx context.Context, names []string) (map[string]map[string]cloud.MicroUSD, error) {
	return p.spot.get(ctx, names, func(ctx context.Context, missing []string) (map[string]map[string]cloud.MicroUSD, error) {
		all := map[string]map[string]cloud.MicroUSD{}
		latest := map[string]time.Time{}
		now := p.now()
		in := &ec2.DescribeSpotPriceHistoryInput{StartTime: &now, EndTime: &now, ProductDescriptions: []string{product}, MaxResults: awssdk.Int32(1000)}
		for _, n := range missing {
			in.InstanceTypes = append(in.InstanceTypes, types.InstanceType(n))
			all[n] = map[string]cloud.MicroUSD{}
		}
		for {
			page, err := read(ctx, p, "DescribeSpotPriceHistory", func(ctx context.Context) (*ec2.DescribeSpotPriceHistoryOutput, error) {
				return p.ec2.DescribeSpotPriceHistory(ctx, in)
			})
			if err != nil {
				return nil, err
			}
			for _, s := range page.SpotPriceHistory {
				usd, err := strconv.ParseFloat(awssdk.ToString(s.SpotPrice), 64)
				name, zone := string(s.InstanceType), awssdk.ToString(s.AvailabilityZone)
				if err != nil || all[name] == nil || awssdk.ToTime(s.Timestamp).Before(latest[name+"/"+zone]) {
					continue
				}
				all[name][zone], latest[name+"/"+zone] = microUSD(usd), awssdk.ToTime(s.Timestamp)
			}
			if awssdk.ToString(page.NextToken) == "" {
				return all, nil
			}
			in.NextToken = page.NextToken
		}
	})
}

// pricingRegion is where the price list of all regions can be asked for.
func pricingRegion(region string) string {
	switch {
	case strings.HasPrefix(region, "eu-"), strings.HasPrefix(region, "me-"), strings.HasPrefix(region, "af-"), strings.HasPrefix(region, "il-"):
		return "eu-central-1"
	case strings.HasPrefix(region, "ap-"):
		return "ap-south-1"
	case strings.HasPrefix(region, "cn-"):
		return "cn-northwest-1"
	}
	return "us-east-1"
}

// listRetry is how soon the price list is asked again after it failed. A site
// whose network reaches EC2 alone must not wait for it with every quote.
const (
	listRetry   = 10 * time.Minute
	listTimeout = 10 * time.Second
)

// listPrices gives the on-demand price of types: Linux on shared hardware.
func (p *Provider) listPrices(ctx context.Context, names []string) (map[string]cloud.MicroUSD, error) {
	p.mu.Lock()
	failed, trouble := p.listFailed, p.listTrouble
	p.mu.Unlock()
	if trouble != nil && p.now().Sub(failed) < listRetry {
		known, _ := p.onDemand.known(names)
		return known, trouble
	}
	prices, err := p.askListPrices(ctx, names)
	if err != nil && ctx.Err() == nil {
		p.log.Warn("ask for the price list; the price file stands in for it, if there is one", "again_in", listRetry, "err", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if ctx.Err() == nil {
		p.listFailed, p.listTrouble = p.now(), err
	}
	return prices, err
}

func (p *Provider) askListPrices(ctx context.Context, names []string) (map[string]cloud.MicroUSD, error) {
	return p.onDemand.get(ctx, names, func(ctx context.Context, missing []string) (map[string]cloud.MicroUSD, error) {
		all := map[string]cloud.MicroUSD{}
		for _, n := range missing {
			usd, err := p.listPrice(ctx, n)
			if err != nil {
				return nil, err
			}
			all[n] = microUSD(usd)
		}
		return all, nil
	})
}

func (p *Provider) listPrice(ctx context.Context, name string) (float64, error) {
	in := &pricing.GetProductsInput{ServiceCode: awssdk.String("AmazonEC2"), MaxResults: awssdk.Int32(10)}
	for field, value := range map[string]string{
		"instanceType": name, "regionCode": p.conf.Region, "operatingSystem": "Linux", "tenancy": "Shared", "preInstalledSw": "NA",
		"capacitystatus": "Used", "marketoption": "OnDemand",
	} {
		in.Filters = append(in.Filters, pricingtypes.Filter{Type: pricingtypes.FilterTypeTermMatch, Field: awssdk.String(field), Value: awssdk.String(value)})
	}
	ask := func(ctx context.Context) (*pricing.GetProductsOutput, error) { return p.prices.GetProducts(ctx, in) }
	out, e := once(ctx, p, "GetProducts", listTimeout, ask)
	if e != nil && e.Class == cloud.Throttled {
		var err error
		if out, err = read(ctx, p, "GetProducts", ask); err != nil {
			return 0, err
		}
	} else if e != nil {
		return 0, e
	}
	for _, text := range out.PriceList {
		if usd := hourly(text); usd > 0 {
			return usd, nil
		}
	}
	return 0, nil
}

// hourly finds the price of an hour in one product of the price list; 0: there
// is none.
func hourly(text string) float64 {
	var p struct {
		Terms struct {
			OnDemand map[string]struct {
				PriceDimensions map[string]struct {
					Unit         string
					PricePerUnit map[string]string
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return 0
	}
	for _, t := range p.Terms.OnDemand {
		for _, d := range t.PriceDimensions {
			usd, err := strconv.ParseFloat(d.PricePerUnit["USD"], 64)
			if err == nil && usd > 0 && d.Unit == "Hrs" {
				return usd
			}
		}
	}
	return 0
}
