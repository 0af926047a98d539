package aws

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/aws-sdk-go-v2/service/servicequotas"

	"github.com/midair-hpc/midair/internal/cloud"
)

// bucket is a vCPU quota of EC2, as Service Quotas has it for "ec2".
type bucket struct {
	code   string
	family string
	spot   bool
	name   string
}

var buckets = []bucket{
	{"L-1216C47A", "standard", false, "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances"},
	{"L-34B43A08", "standard", true, "All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests"},
	{"L-DB2E81BA", "g", false, "Running On-Demand G and VT instances"},
	{"L-3819A6DF", "g", true, "All G and VT Spot Instance Requests"},
	{"L-417A185B", "p", false, "Running On-Demand P instances"},
	{"L-7212CCBC", "p", true, "All P4, P3 and P2 Spot Instance Requests"},
	{"L-C4BD4855", "p5", true, "All P5 Spot Instance Requests"},
	{"L-74FC7D96", "f", false, "Running On-Demand F instances"},
	{"L-88CF9481", "f", true, "All F Spot Instance Requests"},
	{"L-1945791B", "inf", false, "Running On-Demand Inf instances"},
	{"L-B5D1601B", "inf", true, "All Inf Spot Instance Requests"},
	{"L-2C3B7624", "trn", false, "Running On-Demand Trn instances"},
	{"L-6B0D517C", "trn", true, "All Trn Spot Instance Requests"},
	{"L-6E869C2A", "dl", false, "Running On-Demand DL instances"},
	{"L-85EED4F7", "dl", true, "All DL Spot Instance Requests"},
	{"L-7295265B", "x", false, "Running On-Demand X instances"},
	{"L-E3A00192", "x", true, "All X Spot Instance Requests"},
	{"L-F7808C92", "hpc", false, "Running On-Demand HPC instances"},
	{"L-43DA4232", "u", false, "Running On-Demand High Memory instances"},
}

// QuotaBucket gives the code of the vCPU quota that an offering counts against,
// such as L-417A185B; empty where it is not known. A reservation's instances
// count as on-demand ones.
func (p *Provider) QuotaBucket(o cloud.Offering) string {
	b, _ := bucketOf(o.Type, o.Market)
	return b.code
}

// bucketOf gives the quota that a type counts against. P5 and what came after it
// have a spot quota of their own, but share the on-demand one.
func bucketOf(typ string, market cloud.Market) (bucket, bool) {
	spot := market == cloud.Spot
	f := family(typ)
	if spot && f == "p" && !strings.HasPrefix(typ, "p2.") && !strings.HasPrefix(typ, "p3") && !strings.HasPrefix(typ, "p4") {
		f = "p5"
	}
	k := slices.IndexFunc(buckets, func(b bucket) bool { return b.family == f && b.spot == spot })
	if k < 0 {
		return bucket{}, false
	}
	return buckets[k], true
}

// family is the group of types that EC2 counts together, told by the letters
// that a type's name begins with.
func family(typ string) string {
	end := strings.IndexFunc(typ, func(r rune) bool { return r < 'a' || r > 'z' })
	switch letters := typ[:max(0, end)]; letters {
	case "g", "gr", "vt":
		return "g"
	case "p", "f", "inf", "trn", "dl", "x", "hpc", "u":
		return letters
	case "a", "c", "d", "h", "i", "im", "is", "m", "r", "t", "z":
		return "standard"
	}
	return ""
}

// usage is the vCPUs in use of a quota.
type usage struct{ all, others int }

// Limits implements cloud.LimitReporter. Quotas count vCPUs. Capacity blocks
// count against none.
func (p *Provider) Limits(ctx context.Context, cluster string, pools []cloud.PoolSize) (cloud.LimitReport, error) {
	r, err := p.limits(ctx, cluster, pools)
	if err != nil {
		return cloud.LimitReport{}, p.classify("Limits", "", err)
	}
	return r, nil
}

func (p *Provider) limits(ctx context.Context, cluster string, pools []cloud.PoolSize) (cloud.LimitReport, error) {
	var names []string
	for _, pool := range pools {
		for _, o := range pool.Offerings {
			if !slices.Contains(names, o.Type) {
				names = append(names, o.Type)
			}
		}
	}
	sizes, err := p.typesOf(ctx, names)
	if err != nil {
		return cloud.LimitReport{}, err
	}
	for _, pool := range pools {
		for _, o := range pool.Offerings {
			if _, ok := sizes[o.Type]; !ok {
				return cloud.LimitReport{}, p.notSold(o, false)
			}
		}
	}
	granted, err := p.granted(ctx)
	if err != nil {
		return cloud.LimitReport{}, err
	}
	used, err := p.used(ctx, cluster)
	if err != nil {
		return cloud.LimitReport{}, err
	}
	return p.compare(pools, sizes, granted, used), nil
}

// granted gives the account's quotas by code.
func (p *Provider) granted(ctx context.Context) (map[string]float64, error) {
	all := map[string]float64{}
	in := &servicequotas.ListServiceQuotasInput{ServiceCode: awssdk.String("ec2"), MaxResults: awssdk.Int32(100)}
	for {
		page, err := read(ctx, p, "ListServiceQuotas", func(ctx context.Context) (*servicequotas.ListServiceQuotasOutput, error) {
			return p.quotas.ListServiceQuotas(ctx, in)
		})
		if err != nil {
			return nil, err
		}
		for _, q := range page.Quotas {
			if q.Value != nil {
				all[awssdk.ToString(q.QuotaCode)] = *q.Value
			}
		}
		if awssdk.ToString(page.NextToken) == "" {
			return all, nil
		}
		in.NextToken = page.NextToken
	}
}

// used counts the vCPUs of what runs in the account, by quota.
func (p *Provider) used(ctx context.Context, cluster string) (map[string]usage, error) {
	type kind struct {
		typ    string
		market cloud.Market
		ours   bool
	}
	count := map[kind]int{}
	err := p.eachInstance(ctx, []types.Filter{filter("instance-state-name", "pending", "running")}, func(x types.Instance) {
		if x.InstanceLifecycle == types.InstanceLifecycleTypeCapacityBlock {
			return
		}
		k := kind{typ: string(x.InstanceType), market: cloud.OnDemand}
		if x.InstanceLifecycle == types.InstanceLifecycleTypeSpot {
			k.market = cloud.Spot
		}
		for _, t := range x.Tags {
			k.ours = k.ours || awssdk.ToString(t.Key) == cloud.TagCluster && awssdk.ToString(t.Value) == cluster
		}
		count[k]++
	})
	if err != nil {
		return nil, err
	}
	var names []string
	for k := range count {
		if k.typ != "" && !slices.Contains(names, k.typ) {
			names = append(names, k.typ)
		}
	}
	sizes, err := p.typesOf(ctx, names)
	if err != nil {
		return nil, err
	}
	used := map[string]usage{}
	for k, n := range count {
		b, ok := bucketOf(k.typ, k.market)
		if !ok {
			continue
		}
		u := used[b.code]
		u.all += n * sizes[k.typ].vcpus
		if !k.ours {
			u.others += n * sizes[k.typ].vcpus
		}
		used[b.code] = u
	}
	return used, nil
}

// compare sets what the pools could ask for beside what the account may have.
func (p *Provider) compare(pools []cloud.PoolSize, sizes map[string]typeInfo, granted map[string]float64, used map[string]usage) cloud.LimitReport {
	r := cloud.LimitReport{Limits: []cloud.Limit{}, Pools: []cloud.PoolFit{}}
	free := map[string]int{}
	at := map[string]int{} // place in r.Limits
	for _, pool := range pools {
		most, least := map[string]int{}, map[string]int{}
		var order []bucket
		uncounted := false
		for _, o := range pool.Offerings {
			b, ok := bucketOf(o.Type, o.Market)
			if !ok || o.Market == cloud.Reserved && p.isBlock(o) {
				uncounted = true
				continue
			}
			v := sizes[o.Type].vcpus
			if most[b.code] == 0 {
				order = append(order, b)
				least[b.code] = v
			}
			most[b.code], least[b.code] = max(most[b.code], v), min(least[b.code], v)
		}
		fit := cloud.PoolFit{Pool: pool.Name, Nodes: pool.Nodes}
		for _, b := range order {
			if _, there := at[b.code]; !there {
				at[b.code] = len(r.Limits)
				l := cloud.Limit{Name: b.name, Code: b.code, Market: cloud.OnDemand, Unit: "vCPU", Limit: floor(granted[b.code]), InUse: used[b.code].all, Others: used[b.code].others}
				if b.spot {
					l.Market = cloud.Spot
				}
				r.Limits = append(r.Limits, l)
				free[b.code] = max(0, l.Limit-l.Others)
			}
			l := &r.Limits[at[b.code]]
			l.Wanted += pool.Nodes * most[b.code]
			l.Pools = append(l.Pools, pool.Name)
			n := min(pool.Nodes-fit.Fit, free[b.code]/max(1, least[b.code]))
			fit.Fit += n
			free[b.code] -= n * least[b.code]
		}
		if uncounted {
			fit.Fit = pool.Nodes // no quota bounds it
		}
		r.Pools = append(r.Pools, fit)
	}
	for k := range r.Limits {
		l := &r.Limits[k]
		if need := l.Others + l.Wanted; need > l.Limit {
			l.Request = need
			l.Command = fmt.Sprintf("aws service-quotas request-service-quota-increase --region %s --service-code ec2 --quota-code %s --desired-value %d", p.conf.Region, l.Code, need)
		}
	}
	slices.SortStableFunc(r.Limits, func(a, b cloud.Limit) int { return cmp.Compare(a.Name, b.Name) })
	return r
}

func floor(v float64) int { return int(math.Floor(min(v, math.MaxInt32))) }

// isBlock reports whether an offering is bought from capacity blocks alone.
func (p *Provider) isBlock(o cloud.Offering) bool {
	block := false
	for _, r := range p.conf.Reservations {
		if r.Type == o.Type && r.Zone == o.Zone {
			if !r.Block {
				return false
			}
			block = true
		}
	}
	return block
}
