package planner

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/ledger"
)

func TestTokenStaysTheSame(t *testing.T) {
	nodes := []ledger.IntentNode{{Node: "n1", Generation: 3, Launch: "L1"}, {Node: "n2", Generation: 1, Launch: "L2"}}
	offerings := []cloud.Offering{offering(t, s1), offering(t, s2)}
	token := Token("gpu1", nodes, offerings)
	require.Regexp(t, regexp.MustCompile(`^mda-[0-9a-f]{32}$`), token)
	// Tokens are in ledgers and in tags: an upgrade must not change them.
	require.Equal(t, "mda-233784a526c43611fa9a1dc156762086", token)

	turned := []ledger.IntentNode{nodes[1], nodes[0]}
	require.Equal(t, token, Token("gpu1", turned, offerings), "the order of nodes does not matter")
	require.Equal(t, "n2", turned[0].Node, "the caller's slice is not sorted")
}

func TestTokenDiffers(t *testing.T) {
	n := func(name string, gen int) ledger.IntentNode { return ledger.IntentNode{Node: name, Generation: gen} }
	o := func(typ, zone string, m cloud.Market) cloud.Offering {
		return cloud.Offering{Type: typ, Zone: zone, Market: m}
	}
	type in struct {
		cluster   string
		nodes     []ledger.IntentNode
		offerings []cloud.Offering
	}
	a := o("s", "z", cloud.Spot)
	inputs := map[string]in{
		"base":                       {"c", []ledger.IntentNode{n("n1", 1), n("n2", 1)}, []cloud.Offering{a}},
		"other cluster":              {"d", []ledger.IntentNode{n("n1", 1), n("n2", 1)}, []cloud.Offering{a}},
		"other generation":           {"c", []ledger.IntentNode{n("n1", 1), n("n2", 2)}, []cloud.Offering{a}},
		"generations swapped":        {"c", []ledger.IntentNode{n("n1", 2), n("n2", 1)}, []cloud.Offering{a}},
		"fewer nodes":                {"c", []ledger.IntentNode{n("n1", 1)}, []cloud.Offering{a}},
		"node twice":                 {"c", []ledger.IntentNode{n("n1", 1), n("n1", 1)}, []cloud.Offering{a}},
		"names run together":         {"c", []ledger.IntentNode{n("n1n2", 1)}, []cloud.Offering{a}},
		"cluster runs into the node": {"cn1", []ledger.IntentNode{n("", 1), n("n2", 1)}, []cloud.Offering{a}},
		"digits run together":        {"c", []ledger.IntentNode{n("n", 11), n("n2", 1)}, []cloud.Offering{a}},
		"other type":                 {"c", []ledger.IntentNode{n("n1", 1), n("n2", 1)}, []cloud.Offering{o("t", "z", cloud.Spot)}},
		"other zone":                 {"c", []ledger.IntentNode{n("n1", 1), n("n2", 1)}, []cloud.Offering{o("s", "y", cloud.Spot)}},
		"other market":               {"c", []ledger.IntentNode{n("n1", 1), n("n2", 1)}, []cloud.Offering{o("s", "z", cloud.OnDemand)}},
		"type runs into the zone":    {"c", []ledger.IntentNode{n("n1", 1), n("n2", 1)}, []cloud.Offering{o("sz", "", cloud.Spot)}},
		"two offerings":              {"c", []ledger.IntentNode{n("n1", 1), n("n2", 1)}, []cloud.Offering{a, o("t", "z", cloud.Spot)}},
		"two offerings, other order": {"c", []ledger.IntentNode{n("n1", 1), n("n2", 1)}, []cloud.Offering{o("t", "z", cloud.Spot), a}},
		"no offerings":               {"c", []ledger.IntentNode{n("n1", 1), n("n2", 1)}, nil},
		"nothing":                    {},
	}
	seen := map[string]string{}
	for name, i := range inputs {
		token := Token(i.cluster, i.nodes, i.offerings)
		require.Empty(t, seen[token], "%s and %s have the same token", name, seen[token])
		seen[token] = name
	}
}
