package aws

import (
	"context"
	"fmt"
	"slices"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/midair-hpc/midair/internal/cloud"
)

// typesKept is how long sizes of types, and the zones that sell them, are
// remembered. EC2 changes neither often.
const typesKept = 12 * time.Hour

// typeInfo is an instance type's size.
type typeInfo struct {
	vcpus, cores, threads int // threads: of one core
	memoryMiB             int // nominal; Linux sees some percent less
	gpus                  int
}

// cpus is how many CPUs Slurm finds on the type when it is launched from a
// template, which may turn the second thread of each core off, or cores.
func (i typeInfo) cpus(t template) int {
	o := t.data.CpuOptions
	if o == nil || o.CoreCount == nil && o.ThreadsPerCore == nil {
		return i.vcpus
	}
	cores, threads := i.cores, i.threads
	if o.CoreCount != nil {
		cores = int(*o.CoreCount)
	}
	if o.ThreadsPerCore != nil {
		threads = int(*o.ThreadsPerCore)
	}
	return cores * threads
}

// mismatch says why a type is not what the pool has promised; nil: it is.
func (i typeInfo) mismatch(name string, t template, r cloud.LaunchRequest) *cloud.Error {
	for _, m := range []struct {
		what       string
		has, wants int
	}{{"CPUs", i.cpus(t), r.CPUs}, {"MiB of memory", i.memoryMiB, r.MemoryMiB}, {"GPUs", i.gpus, r.GPUs}} {
		if m.has < m.wants {
			return &cloud.Error{Class: cloud.SpecMismatch, Message: fmt.Sprintf("%s has %d %s, but pool %s promises Slurm %d", name, m.has, m.what, r.Pool, m.wants)}
		}
	}
	return nil
}

// filterValues is how many values EC2 takes in one filter.
const filterValues = 200

// typesOf gives the sizes of types. One that EC2 does not know is missing.
func (p *Provider) typesOf(ctx context.Context, names []string) (map[string]typeInfo, error) {
	found, err := p.types.get(ctx, names, func(ctx context.Context, missing []string) (map[string]typeInfo, error) {
		all := map[string]typeInfo{}
		for some := range slices.Chunk(missing, filterValues) {
			// A filter, because InstanceTypes fails for all if one is unknown.
			pages := ec2.NewDescribeInstanceTypesPaginator(p.ec2, &ec2.DescribeInstanceTypesInput{Filters: []types.Filter{filter("instance-type", some...)}, MaxResults: awssdk.Int32(100)})
			for pages.HasMorePages() {
				page, err := read(ctx, p, "DescribeInstanceTypes", func(ctx context.Context) (*ec2.DescribeInstanceTypesOutput, error) { return pages.NextPage(ctx) })
				if err != nil {
					return nil, err
				}
				for _, t := range page.InstanceTypes {
					all[string(t.InstanceType)] = size(t)
				}
			}
		}
		return all, nil
	})
	if err != nil {
		return nil, p.classify("DescribeInstanceTypes", "", err)
	}
	return found, nil
}

func size(t types.InstanceTypeInfo) typeInfo {
	var i typeInfo
	if v := t.VCpuInfo; v != nil {
		i.vcpus, i.cores, i.threads = int(awssdk.ToInt32(v.DefaultVCpus)), int(awssdk.ToInt32(v.DefaultCores)), int(awssdk.ToInt32(v.DefaultThreadsPerCore))
	}
	if t.MemoryInfo != nil {
		i.memoryMiB = int(awssdk.ToInt64(t.MemoryInfo.SizeInMiB))
	}
	if t.GpuInfo != nil {
		for _, g := range t.GpuInfo.Gpus {
			i.gpus += int(awssdk.ToInt32(g.Count))
		}
	}
	return i
}

// sold checks that EC2 sells every offering in its zone.
func (p *Provider) sold(ctx context.Context, offerings []cloud.Offering) error {
	var names []string
	for _, o := range offerings {
		if !slices.Contains(names, o.Type) {
			names = append(names, o.Type)
		}
	}
	zones, err := p.zones.get(ctx, names, func(ctx context.Context, missing []string) (map[string]map[string]bool, error) {
		all := map[string]map[string]bool{}
		for some := range slices.Chunk(missing, filterValues) {
			pages := ec2.NewDescribeInstanceTypeOfferingsPaginator(p.ec2, &ec2.DescribeInstanceTypeOfferingsInput{
				LocationType: types.LocationTypeAvailabilityZone, Filters: []types.Filter{filter("instance-type", some...)}, MaxResults: awssdk.Int32(1000),
			})
			for pages.HasMorePages() {
				page, err := read(ctx, p, "DescribeInstanceTypeOfferings", func(ctx context.Context) (*ec2.DescribeInstanceTypeOfferingsOutput, error) {
					return pages.NextPage(ctx)
				})
				if err != nil {
					return nil, err
				}
				for _, o := range page.InstanceTypeOfferings {
					name := string(o.InstanceType)
					if all[name] == nil {
						all[name] = map[string]bool{}
					}
					all[name][awssdk.ToString(o.Location)] = true
				}
			}
		}
		return all, nil
	})
	if err != nil {
		return p.classify("DescribeInstanceTypeOfferings", "", err)
	}
	for _, o := range offerings {
		if !zones[o.Type][o.Zone] {
			return p.notSold(o, len(zones[o.Type]) > 0)
		}
	}
	return nil
}

func (p *Provider) notSold(o cloud.Offering, elsewhere bool) *cloud.Error {
	if elsewhere {
		return &cloud.Error{Class: cloud.Config, Message: fmt.Sprintf("EC2 does not sell %s in zone %s: correct types and zones of the pool", o.Type, o.Zone)}
	}
	return &cloud.Error{Class: cloud.Config, Message: fmt.Sprintf("EC2 has no type %s in %s: correct types of the pool", o.Type, p.conf.Region)}
}
