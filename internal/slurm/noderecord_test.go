package slurm

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func nodesOf(t *testing.T, file string) map[string]Node {
	t.Helper()
	out, err := os.ReadFile("testdata/" + file)
	require.NoError(t, err)
	byName := map[string]Node{}
	for _, n := range parseNodes(out) {
		require.NotContains(t, byName, n.Name)
		byName[n.Name] = n
	}
	return byName
}

func TestNodesOf2205(t *testing.T) {
	n := nodesOf(t, "node-22.05.8.txt")
	require.Len(t, n, 8, "a record in a comment is no node, nor is the word on an unknown one")

	require.Equal(t, Node{
		Name: "onp-1", Addr: "127.0.0.1", HostName: "onp-1", State: ParseStates("UNKNOWN+NOT_RESPONDING"),
		Partitions: []string{"onprem"}, CPUs: 8, MemoryMiB: 1000,
	}, n["onp-1"])

	require.Equal(t, "MIXED+CLOUD+NOT_RESPONDING+POWERING_UP", n["p1-od-0001"].State.String())
	require.Equal(t, "10.0.0.1", n["p1-od-0001"].Addr)
	require.Equal(t, "h1", n["p1-od-0001"].HostName)
	require.Empty(t, n["p1-od-0001"].Reason, "a Reason in a Comment is not the node's")
	require.Equal(t, []string{"a100", "big"}, n["p1-od-0001"].Features)

	require.Equal(t, "State=IDLE NodeName=x Comment=fake [root@1] Extra=2", n["p1-od-0040"].Reason)
	require.Equal(t, "IDLE+CLOUD+DRAIN+POWERED_DOWN", n["p1-od-0040"].State.String())
	require.Empty(t, n["p1-od-0040"].Comment)

	require.Equal(t, "midair: out-of-stock: no capacity (InsufficientInstanceCapacity)", n["p1-od-0041"].Reason)
	require.Equal(t, "x Reason=none [a@1] OS=Linux", n["p1-od-0041"].Comment)

	require.Equal(t, "first line Comment=second", n["p1-od-0042"].Reason)
	require.Equal(t, "one\nNodeName=p1-od-0043 CoresPerSocket=1 State=DOWN\nthree", n["p1-od-0042"].Comment)
	require.Equal(t, "DOWN+CLOUD+POWERED_DOWN", n["p1-od-0042"].State.String())
	require.Equal(t, "IDLE+CLOUD+POWERED_DOWN", n["p1-od-0043"].State.String())

	require.Equal(t, "ResumeTimeout reached", n["p1-od-0030"].Reason)
}

func TestNodesOf2605(t *testing.T) {
	n := nodesOf(t, "node-26.05.5.txt")
	require.Len(t, n, 5)
	require.Equal(t, "10.0.0.2", n["p1-od-0002"].Addr)
	require.Equal(t, "ip-2", n["p1-od-0002"].HostName)
	require.Equal(t, "DOWN+CLOUD+POWERED_DOWN", n["p1-od-0003"].State.String())
	require.Equal(t, "midair: quota: State=IDLE Comment=x [root@1]", n["p1-od-0003"].Reason)
	require.Equal(t, "a State=IDLE\nNodeName=p1-od-0004 CoresPerSocket=1 State=DOWN\nb", n["p1-od-0003"].Comment)
	require.Equal(t, "IDLE+CLOUD+DRAIN+POWERED_DOWN", n["p1-od-0004"].State.String())
	require.Equal(t, "two lines", n["p1-od-0004"].Reason)
	require.True(t, n["p1-od-0005"].State.PoweringUp())
}

// Constructed after slurm_sprint_node_table, with every key a site may have.
func TestNodesWithAllKeys(t *testing.T) {
	n := nodesOf(t, "node-26.05-constructed.txt")
	require.Len(t, n, 2)
	require.Equal(t, Node{
		Name: "gpu-001", Addr: "10.1.2.3", HostName: "ip-10-1-2-3", State: ParseStates("ALLOCATED+CLOUD+BLOCKED+PLANNED"),
		Reason: "maintenance of rack 7", Comment: "see ticket State=DOWN", Partitions: []string{"a100-spot", "all"},
		Features: []string{"a100", "east"}, Gres: "gpu:a100:8(S:0-1)", CPUs: 96, MemoryMiB: 1126400,
		BootTime: time.Unix(1796100000, 0),
	}, n["gpu-001"])
	require.Equal(t, "IDLE+CLOUD+POWERED_DOWN", n["gpu-002"].State.String())
	require.Equal(t, 1126400, n["gpu-002"].MemoryMiB, "an unknown key whose value has a space is passed over")
	require.True(t, n["gpu-002"].BootTime.IsZero())
}

func TestReasonWithoutItsStamp(t *testing.T) {
	for text, want := range map[string]string{
		"Not responding [slurm@2026-12-01T05:25:02]": "Not responding",
		"bad [disk] [root@1796103957]":               "bad [disk]",
		"see [a@1796103957] there [root@1796103957]": "see [a@1796103957] there",
		"no stamp":         "no stamp",
		"":                 "",
		"(null)":           "",
		"x [root@Unknown]": "x",
		"first [root@1796103957]        second [line]": "first second [line]",
	} {
		require.Equal(t, want, reason(text), text)
	}
}

func TestListKeepsBracketedCommas(t *testing.T) {
	require.Equal(t, []string{"gpu:a100:8(S:0,1)", "x[1,2]", "y"}, list("gpu:a100:8(S:0,1),x[1,2],y"))
	require.Nil(t, list("(null)"))
	require.Nil(t, list(""))
}

// Whatever stands in the texts, the name and state of the record before it
// hold, and no line of a text becomes a node unless it is a full record.
func FuzzNodeRecord(f *testing.F) {
	for _, file := range []string{"node-22.05.8.txt", "node-26.05.5.txt", "node-26.05-constructed.txt"} {
		out, err := os.ReadFile("testdata/" + file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(out))
	}
	f.Add("x [root@1796103957] State=DOWN NodeName=b\nNodeName=c Comment=d")
	f.Fuzz(func(t *testing.T, text string) {
		parseNodes([]byte(text))
		record := "NodeName=a CoresPerSocket=1  CPUAlloc=0 CPUTot=8 RealMemory=10 State=IDLE+CLOUD ThreadsPerCore=1 Partitions=p "
		for _, key := range []string{"Reason=", "Comment=", "Extra="} {
			nodes := parseNodes([]byte(record + key + text + "\n"))
			require.NotEmpty(t, nodes)
			require.Equal(t, "a", nodes[0].Name)
			require.Equal(t, "IDLE+CLOUD", nodes[0].State.String())
			require.Equal(t, []string{"p"}, nodes[0].Partitions)
		}
	})
}

func BenchmarkParseNodes(b *testing.B) {
	out, err := os.ReadFile("testdata/node-26.05-constructed.txt")
	require.NoError(b, err)
	b.SetBytes(int64(len(out)))
	for b.Loop() {
		parseNodes(out)
	}
}
