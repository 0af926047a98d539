package planner

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/ledger"
)

const (
	p4dA   = "p4d.24xlarge/us-east-1a/spot"
	p4dB   = "p4d.24xlarge/us-east-1b/spot"
	p4deA  = "p4de.24xlarge/us-east-1a/spot"
	p4dAod = "p4d.24xlarge/us-east-1a/on-demand"
)

func TestRefusal(t *testing.T) {
	const at = 2*time.Hour + 5*time.Minute + 10*time.Second // 14:05:10
	long := strings.Repeat("x", 70)
	mem := func(key string, class cloud.Class, d time.Duration) ledger.MemoryEntry {
		return out(t, "east", key, class, d)
	}
	for _, c := range []struct {
		name    string
		keys    []string
		memory  []ledger.MemoryEntry
		tried   []string
		pool    string
		class   cloud.Class
		message string
		retry   time.Duration // after noon; 0: none
	}{
		{
			name: "the only offering", keys: []string{p4dA},
			memory: []ledger.MemoryEntry{mem(p4dA, cloud.OutOfStock, at)},
			class:  cloud.OutOfStock, retry: at,
			message: "the only offering of pool a100-spot is passed over: p4d.24xlarge/us-east-1a/spot out-of-stock until 14:05:10",
		},
		{
			name: "both offerings, of equals out-of-stock stands", keys: []string{p4dA, p4dB},
			memory: []ledger.MemoryEntry{mem(p4dA, cloud.Quota, at), mem(p4dB, cloud.OutOfStock, at+time.Second)},
			class:  cloud.OutOfStock, retry: at,
			message: "both offerings of pool a100-spot are passed over: p4d.24xlarge/us-east-1a/spot quota until 14:05:10; p4d.24xlarge/us-east-1b/spot out-of-stock until 14:05:11",
		},
		{
			name: "two are named, the others counted; RetryAt is the earliest of all", keys: []string{p4dA, p4dB, p4deA, p4dAod},
			memory: []ledger.MemoryEntry{
				mem(p4dA, cloud.OutOfStock, at+time.Minute), mem(p4dB, cloud.OutOfStock, at),
				mem(p4deA, cloud.OutOfStock, at-time.Hour), mem(p4dAod, cloud.Quota, at),
			},
			class: cloud.OutOfStock, retry: at - time.Hour,
			message: "all 4 offerings of pool a100-spot are passed over: p4d.24xlarge/us-east-1a/spot out-of-stock until 14:06:10; p4d.24xlarge/us-east-1b/spot out-of-stock until 14:05:10; and 2 more",
		},
		{
			name: "the majority stands", keys: []string{p4dA, p4dB, p4deA},
			memory: []ledger.MemoryEntry{mem(p4dA, cloud.OutOfStock, at), mem(p4dB, cloud.Quota, at), mem(p4deA, cloud.Quota, at)},
			class:  cloud.Quota, retry: at,
			message: "all 3 offerings of pool a100-spot are passed over: p4d.24xlarge/us-east-1a/spot out-of-stock until 14:05:10; p4d.24xlarge/us-east-1b/spot quota until 14:05:10; and 1 more",
		},
		{
			name: "one offering that comes back by itself outweighs any number that do not, so the job is not held", keys: []string{p4dA, p4dB, p4deA},
			memory: []ledger.MemoryEntry{mem(p4dA, cloud.SpecMismatch, at), mem(p4dB, cloud.SpecMismatch, at), mem(p4deA, cloud.OutOfStock, time.Minute)},
			class:  cloud.OutOfStock, retry: time.Minute,
			message: "all 3 offerings of pool a100-spot are passed over: p4d.24xlarge/us-east-1a/spot spec-mismatch until 14:05:10; p4d.24xlarge/us-east-1b/spot spec-mismatch until 14:05:10; and 1 more",
		},
		{
			name: "only spec-mismatches", keys: []string{p4dA, p4dB},
			memory: []ledger.MemoryEntry{mem(p4dA, cloud.SpecMismatch, at), mem(p4dB, cloud.SpecMismatch, at)},
			class:  cloud.SpecMismatch, retry: at,
			message: "both offerings of pool a100-spot are passed over: p4d.24xlarge/us-east-1a/spot spec-mismatch until 14:05:10; p4d.24xlarge/us-east-1b/spot spec-mismatch until 14:05:10",
		},
		{
			name: "tried in this round and not remembered", keys: []string{p4dA}, tried: []string{p4dA},
			class:   cloud.Unknown,
			message: "the only offering of pool a100-spot is passed over: p4d.24xlarge/us-east-1a/spot failed in this round",
		},
		{
			name: "tried and remembered: memory says more", keys: []string{p4dA}, tried: []string{p4dA},
			memory: []ledger.MemoryEntry{mem(p4dA, cloud.OutOfStock, at)},
			class:  cloud.OutOfStock, retry: at,
			message: "the only offering of pool a100-spot is passed over: p4d.24xlarge/us-east-1a/spot out-of-stock until 14:05:10",
		},
		{
			name: "one tried, one remembered", keys: []string{p4dA, p4dB}, tried: []string{p4dA},
			memory: []ledger.MemoryEntry{mem(p4dB, cloud.OutOfStock, at)},
			class:  cloud.OutOfStock, retry: at,
			message: "both offerings of pool a100-spot are passed over: p4d.24xlarge/us-east-1a/spot failed in this round; p4d.24xlarge/us-east-1b/spot out-of-stock until 14:05:10",
		},
		{
			name: "after today the day is named", keys: []string{p4dA},
			memory: []ledger.MemoryEntry{mem(p4dA, cloud.Quota, 13*time.Hour)},
			class:  cloud.Quota, retry: 13 * time.Hour,
			message: "the only offering of pool a100-spot is passed over: p4d.24xlarge/us-east-1a/spot quota until Mar 15 01:00:00",
		},
		{
			name: "long names: one offering", keys: []string{long + "/z/spot", long + "/y/spot"},
			memory: []ledger.MemoryEntry{mem(long+"/z/spot", cloud.OutOfStock, at), mem(long+"/y/spot", cloud.OutOfStock, at)},
			class:  cloud.OutOfStock, retry: at,
			message: "both offerings of pool a100-spot are passed over: " + long + "/z/spot out-of-stock until 14:05:10; and 1 more",
		},
		{
			name: "longer names: none", keys: []string{long + long + "/z/spot", long + long + "/y/spot"},
			memory: []ledger.MemoryEntry{mem(long+long+"/z/spot", cloud.OutOfStock, at), mem(long+long+"/y/spot", cloud.OutOfStock, at+1)},
			class:  cloud.OutOfStock, retry: at,
			message: "both offerings of pool a100-spot are passed over, the first until 14:05:10",
		},
		{
			name: "longer names, only tried", keys: []string{long + long + "/z/spot"}, tried: []string{long + long + "/z/spot"},
			class:   cloud.Unknown,
			message: "the only offering of pool a100-spot is passed over",
		},
		{
			name: "a pool that is not configured", pool: "a100-od", keys: []string{p4dA},
			class: cloud.Config, message: "pool a100-od is not in midair.yaml",
		},
		{
			name:  "a pool without offerings",
			class: cloud.Config, message: "pool a100-spot has no offerings in midair.yaml",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.pool == "" {
				c.pool = "a100-spot"
			}
			res := Plan(Input{
				Now: noon, Pools: []Pool{pool(t, "a100-spot", "east", c.keys...)}, Memory: c.memory,
				Demands: []Demand{single("L1", c.pool, "n1").afterTrying(c.tried...)},
			})
			require.Empty(t, res.Calls)
			require.Len(t, res.Refusals, 1)
			r := res.Refusals[0]
			require.Equal(t, "L1", r.Launch)
			require.Equal(t, c.pool, r.Pool)
			require.Equal(t, c.message, r.Err.Message)
			require.Equal(t, c.class, r.Err.Class)
			require.False(t, r.Err.Ambiguous)
			require.LessOrEqual(t, len(r.Err.Message), maxMessage)
			if c.retry == 0 {
				require.True(t, r.RetryAt.IsZero())
			} else {
				require.Equal(t, noon.Add(c.retry), r.RetryAt)
			}
		})
	}
}

func TestRefusalTellsTheTimeWherePlanIsMade(t *testing.T) {
	cet := time.FixedZone("CET", 3600)
	res := Plan(Input{
		Now: noon.In(cet), Pools: []Pool{pool(t, "p", "east", s1)}, Demands: []Demand{single("L1", "p", "n1")},
		Memory: []ledger.MemoryEntry{out(t, "east", s1, cloud.OutOfStock, time.Minute)},
	})
	require.Contains(t, res.Refusals[0].Err.Message, "until 13:01:00")
}
