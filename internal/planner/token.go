package planner

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/ledger"
)

// tokenDigits is how much of the hash a token carries: 128 bits. EC2's
// ClientToken allows 64 ASCII characters.
const tokenDigits = 32

// Token gives the idempotency token of a create call: a hash of the cluster,
// the nodes with their generations in any order, and the offerings in order of
// preference. A retry of the same call has the same token; another offering or
// another generation of a node has another one.
func Token(cluster string, nodes []ledger.IntentNode, offerings []cloud.Offering) string {
	sorted := slices.Clone(nodes)
	slices.SortFunc(sorted, func(a, b ledger.IntentNode) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Generation, b.Generation))
	})
	// Every part carries its length, so that no two inputs give the same bytes.
	var b []byte
	number := func(n int) { b = binary.BigEndian.AppendUint64(b, uint64(n)) }
	text := func(s string) { number(len(s)); b = append(b, s...) }
	text(cluster)
	number(len(sorted))
	for _, n := range sorted {
		text(n.Node)
		number(n.Generation)
	}
	number(len(offerings))
	for _, o := range offerings {
		text(o.Type)
		text(o.Zone)
		text(string(o.Market))
	}
	sum := sha256.Sum256(b)
	return "mda-" + hex.EncodeToString(sum[:])[:tokenDigits]
}
