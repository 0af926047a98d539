package hostlist_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/midair-hpc/midair/internal/hostlist"
)

// nodes5000 gives the names of a large cluster: 100 racks of 50.
func nodes5000() []string {
	names := make([]string, 0, 5000)
	for rack := range 100 {
		for node := range 50 {
			names = append(names, fmt.Sprintf("rack%d-gpu%03d", rack, node+1))
		}
	}
	return names
}

func BenchmarkExpand5000(b *testing.B) {
	for name, expr := range map[string]string{"one range": "gpu[0001-5000]", "two brackets": "rack[0-99]-gpu[001-050]", "100 terms": hostlist.Fold(nodes5000())} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if names, err := hostlist.Expand(expr); err != nil || len(names) != 5000 {
					b.Fatal(len(names), err)
				}
			}
		})
	}
}

func BenchmarkFold5000(b *testing.B) {
	names := nodes5000()
	shuffled := nodes5000()
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	for _, c := range []struct {
		name  string
		names []string
		fold  func([]string) string
	}{{"Fold in order", names, hostlist.Fold}, {"Fold shuffled", shuffled, hostlist.Fold}, {"FoldSorted in order", names, hostlist.FoldSorted}, {"FoldSorted shuffled", shuffled, hostlist.FoldSorted}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.fold(c.names)
			}
		})
	}
}
