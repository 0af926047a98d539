package planner

import (
	"fmt"
	"testing"
	"time"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/ledger"
)

// The size a large cluster asks for at once: 5000 nodes for 500 jobs.
const benchJobs, benchNodesPerJob = 500, 10

func BenchmarkPlan(b *testing.B) {
	for _, c := range []struct {
		name   string
		single bool
		out    int // offerings of eight that are remembered
	}{{"jobs", false, 2}, {"single", true, 2}, {"refused", false, 8}} {
		b.Run(c.name, func(b *testing.B) {
			in := Input{Now: noon, MaxNodesPerCall: 1000}
			for p := range 4 {
				pl := Pool{Name: fmt.Sprintf("pool%d", p), Provider: "east"}
				for o := range 8 {
					of := cloud.Offering{Type: fmt.Sprintf("type%d", o), Zone: fmt.Sprintf("zone%d", p), Market: cloud.Spot}
					pl.Offerings = append(pl.Offerings, of)
					if o < c.out {
						in.Memory = append(in.Memory, ledger.MemoryEntry{Provider: "east", Offering: of, Class: cloud.OutOfStock, Until: noon.Add(time.Minute)})
					}
				}
				in.Pools = append(in.Pools, pl)
			}
			for j := range benchJobs {
				d := Demand{Launch: fmt.Sprintf("L%d", j), Pool: fmt.Sprintf("pool%d", j%4), AllOrNothing: !c.single}
				for n := range benchNodesPerJob {
					d.Nodes = append(d.Nodes, ledger.IntentNode{Node: fmt.Sprintf("node%d-%d", j, n), Generation: 1, Launch: d.Launch})
				}
				in.Demands = append(in.Demands, d)
			}
			for b.Loop() {
				Plan(in)
			}
		})
	}
}

func BenchmarkLaunches(b *testing.B) {
	var r Request
	infos := map[int]JobInfo{}
	for j := range benchJobs {
		job := JobNodes{JobID: j + 1}
		for n := range benchNodesPerJob {
			job.Nodes = append(job.Nodes, fmt.Sprintf("a%d-%d", j, n))
		}
		infos[job.JobID] = JobInfo{JobID: job.JobID, QOS: "p2"}
		r.Jobs = append(r.Jobs, job)
		r.Nodes = append(r.Nodes, job.Nodes...)
	}
	for b.Loop() {
		Launches(r, infos, poolByPrefix, nil)
	}
}

func BenchmarkToken(b *testing.B) {
	var nodes []ledger.IntentNode
	for n := range 5000 {
		nodes = append(nodes, ledger.IntentNode{Node: fmt.Sprintf("node%d", n), Generation: 1})
	}
	offerings := []cloud.Offering{{Type: "s", Zone: "z", Market: cloud.Spot}}
	for b.Loop() {
		Token("gpu1", nodes, offerings)
	}
}
