package ec2sim_test

import (
	"fmt"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/cloud"
)

// BenchmarkFiveThousandNodes launches nodes as midair does, names each, lists
// them all and ends them.
func BenchmarkFiveThousandNodes(b *testing.B) {
	for range b.N {
		launchNodes(b, 5000)
	}
}

func launchNodes(b testing.TB, n int) {
	l := newLab(b)
	a := l.fleet(strconv.Itoa(n), cloud.OnDemand, []string{"c7i.large/" + subnetA, "g5.xlarge/" + subnetB}, "OnDemandOptions.AllocationStrategy", "prioritized",
		"TagSpecification.1.ResourceType", "instance", "TagSpecification.1.Tag.1.Key", "midair:cluster", "TagSpecification.1.Tag.1.Value", "c1").ok(b)
	ids := a.fleetIDs()
	require.Len(b, ids, n)
	for k, id := range ids {
		l.call("CreateTags", "ResourceId.1", id, "Tag.1.Key", "midair:node", "Tag.1.Value", fmt.Sprintf("n-%04d", k), "Tag.2.Key", "Name", "Tag.2.Value", fmt.Sprintf("n-%04d", k)).ok(b)
	}
	l.forward(time.Minute)
	seen, token := 0, ""
	for {
		args := []string{"Filter.1.Name", "tag:midair:cluster", "Filter.1.Value.1", "c1", "MaxResults", "1000"}
		if token != "" {
			args = append(args, "NextToken", token)
		}
		page := l.call("DescribeInstances", args...).ok(b)
		seen += len(page.Described)
		if token = page.NextToken; token == "" {
			break
		}
	}
	require.Equal(b, n, seen)
	for from := 0; from < n; from += 500 {
		args := []string{}
		for k, id := range ids[from:min(n, from+500)] {
			args = append(args, "InstanceId."+strconv.Itoa(k+1), id)
		}
		l.call("TerminateInstances", args...).ok(b)
	}
	l.forward(time.Minute)
	require.Equal(b, n, l.Status().Instances[cloud.Terminated])
}

func TestMemoryOfFiveThousandInstancesIsSmall(t *testing.T) {
	before := heap()
	l := newLab(t)
	l.fleet("5000", cloud.OnDemand, []string{"c7i.large/" + subnetA},
		"TagSpecification.1.ResourceType", "instance", "TagSpecification.1.Tag.1.Key", "midair:cluster", "TagSpecification.1.Tag.1.Value", "c1").ok(t)
	require.Less(t, heap()-before, int64(16<<20))
	runtime.KeepAlive(l)
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
