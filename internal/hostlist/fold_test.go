package hostlist_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/hostlist"
)

// foldable are lists that Slurm writes as midair does; the test against
// Slurm's own program goes through them too.
var foldable = []struct{ name, names, want string }{
	{"one", "n1", "n1"},
	{"a name without digits", "login", "login"},
	{"a run", "n1 n2 n3", "n[1-3]"},
	{"two in a row", "n1 n2", "n[1-2]"},
	{"a hole", "n1 n3", "n[1,3]"},
	{"order stays, duplicates stay", "b2 b1 a3 a4 b2", "b[2,1],a[3-4],b2"},
	{"the same twice", "n1 n1 n2", "n[1,1-2]"},
	{"names without digits do not share", "a a", "a,a"},
	{"padding", "n001 n002 n010", "n[001-002,010]"},
	{"padding ends where the digits suffice", "n08 n09 n10 n11", "n[08-11]"},
	{"no padding grows", "n9 n10 n99 n100", "n[9-10,99-100]"},
	{"different padding is a different range", "n9 n10 n009 n010", "n[9-10,009-010]"},
	{"padding that does not go on", "n9 n010", "n[9,010]"},
	{"999 to 1000 of wider names", "n0999 n1000", "n[0999-1000]"},
	{"zero", "n0 n00 n1", "n[0,00,1]"},
	{"only the last number counts", "rack1n01 rack1n02 rack2n01", "rack1n[01-02],rack2n01"},
	{"a text after the number", "n1-ib n2-ib", "n1-ib,n2-ib"},
	{"names of digits", "1 2 4", "[1-2,4]"},
	{"a name and the same with a number", "n n1 n2", "n,n[1-2]"},
	{"an interrupted run", "n1 m n2", "n1,m,n2"},
}

func TestFold(t *testing.T) {
	for _, c := range foldable {
		t.Run(c.name, func(t *testing.T) {
			names := strings.Fields(c.names)
			require.Equal(t, c.want, hostlist.Fold(names))
			require.Equal(t, strings.Fields(c.names), names)
			back, err := hostlist.Expand(c.want)
			require.NoError(t, err)
			require.Equal(t, names, back)
		})
	}
	require.Empty(t, hostlist.Fold(nil))
	require.Equal(t, "a,b", hostlist.Fold([]string{"", "a", "", "b"}))
}

// Slurm writes n[0-70000] and then cannot read it.
func TestFoldWritesNoRangeThatSlurmCannotRead(t *testing.T) {
	names := make([]string, 70_001)
	for i := range names {
		names[i] = fmt.Sprintf("n%d", i)
	}
	require.Equal(t, "n[0-65535,65536-70000]", hostlist.Fold(names))
	back, err := hostlist.Expand(hostlist.Fold(names))
	require.NoError(t, err)
	require.Equal(t, names, back)
}

func TestFoldKeepsANumberThatDoesNotFit(t *testing.T) {
	names := []string{"n18446744073709551614", "n18446744073709551615", "n18446744073709551616", "n99999999999999999999999"}
	require.Equal(t, strings.Join(names, ","), hostlist.Fold(names))
}

func TestFoldSortedIsOneTextForOneSet(t *testing.T) {
	for _, c := range []struct{ name, names, want string }{
		{"order and duplicates do not matter", "b2 b1 a3 a2 b2", "a[2-3],b[1-2]"},
		{"numbers before the last are counted too", "rack10n1 rack2n1 rack1n2 rack1n1", "rack1n[1-2],rack2n1,rack10n1"},
		{"a leading zero comes first", "a1b1 a01b1 a002b1 a10b1", "a002b1,a01b1,a1b1,a10b1"},
		{"by width, then number", "n10 n9 n010 n009 n100", "n[9-10,009-010,100]"},
		{"the bare name first", "n2 n n1", "n,n[1-2]"},
		{"capitals first", "a1 B1", "B1,a1"},
		{"nothing", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			names := strings.Fields(c.names)
			r := rand.New(rand.NewPCG(1, 2))
			for range 20 {
				given := slices.Clone(names)
				require.Equal(t, c.want, hostlist.FoldSorted(given))
				require.Equal(t, names, given, "the caller's slice is changed")
				r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
			}
			names = append(names, names...)
			require.Equal(t, c.want, hostlist.FoldSorted(names))
		})
	}
}
