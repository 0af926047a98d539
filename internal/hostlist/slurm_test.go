package hostlist_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/hostlist"
)

// scontrol is Slurm's own program. `show hostnames` and `show hostlist` need a
// slurm.conf that can be read, and no running slurmctld.
type scontrol struct {
	path, conf   string
	year, number int // 22, 5 for 22.05
}

func findScontrol(t *testing.T) scontrol {
	t.Helper()
	path, err := exec.LookPath("scontrol")
	if err != nil {
		t.Skip("Slurm's scontrol is not installed, so there is nothing to compare with")
	}
	s := scontrol{path: path, conf: filepath.Join(t.TempDir(), "slurm.conf")}
	require.NoError(t, os.WriteFile(s.conf, []byte("ClusterName=hostlist\nSlurmctldHost=localhost(127.0.0.1)\nNodeName=localhost\nPartitionName=p Nodes=ALL\n"), 0o600))
	version := s.run(t, "--version") // "slurm 24.11.5"; Debian's says slurm-wlm
	_, err = fmt.Sscanf(version[strings.LastIndexByte(version, ' ')+1:], "%d.%d", &s.year, &s.number)
	require.NoError(t, err, version)
	return s
}

func (s scontrol) since(year, number int) bool {
	return s.year > year || s.year == year && s.number >= number
}

// run gives what scontrol prints. It exits 0 for a bad hostlist too; there is
// then nothing on stdout.
func (s scontrol) run(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.path, args...)
	cmd.Env = []string{"SLURM_CONF=" + s.conf}
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	if err := cmd.Run(); err != nil {
		// 22.05 exits 1 for a bad argument of hostlist.
		require.Empty(t, out.String(), "scontrol %q: %v: %s", args, err, stderr.String())
	}
	return out.String()
}

// hostnames gives the names of one expression, nil where Slurm finds it
// invalid.
func (s scontrol) hostnames(t *testing.T, expr string) []string {
	t.Helper()
	return lines(s.run(t, "show", "hostnames", expr))
}

// hostnamesOfAll gives the names of many valid expressions, with few runs of
// scontrol: a marker, which no expression has, stands between them.
func (s scontrol) hostnamesOfAll(t *testing.T, exprs []string) [][]string {
	t.Helper()
	const marker = "=mark="
	var all [][]string
	for chunk := range slices.Chunk(exprs, 100) {
		out := s.run(t, "show", "hostnames", marker+","+strings.Join(chunk, ","+marker+","))
		require.NotEmpty(t, out, "scontrol finds one of %q invalid", chunk)
		for _, names := range strings.Split(out, marker+"\n")[1:] {
			all = append(all, lines(names))
		}
	}
	require.Len(t, all, len(exprs))
	return all
}

// lines gives what scontrol printed, one name a line. It cuts at line ends
// only: Slurm leaves other blanks in a name, and that must show.
func lines(out string) []string {
	return append([]string{}, strings.FieldsFunc(out, func(c rune) bool { return c == '\n' })...)
}

// hostlists gives how Slurm folds each of the lists.
func (s scontrol) hostlists(t *testing.T, lists [][]string) []string {
	t.Helper()
	const marker = "=mark="
	var all []string
	for chunk := range slices.Chunk(lists, 50) {
		parts := make([]string, len(chunk))
		for i, names := range chunk {
			parts[i] = strings.Join(names, ",")
		}
		out := s.run(t, "show", "hostlist", strings.Join(parts, ","+marker+","))
		all = append(all, strings.Split(strings.TrimSuffix(out, "\n"), ","+marker+",")...)
	}
	require.Len(t, all, len(lists))
	return all
}

func TestExpandIsWhatSlurmExpands(t *testing.T) {
	s := findScontrol(t)
	r := rand.New(rand.NewPCG(2205, 8))
	var exprs []string
	for _, c := range readable {
		exprs = append(exprs, c.expr)
	}
	for range 600 {
		exprs = append(exprs, randomExpr(r, 3, s.since(23, 11)))
	}
	for i, names := range s.hostnamesOfAll(t, exprs) {
		got, err := hostlist.Expand(exprs[i])
		require.NoError(t, err)
		require.Equal(t, names, append([]string{}, got...), "expression %q", exprs[i])
	}
}

// Of a damaged expression, midair either expands what Slurm expands, or
// refuses it; and then Slurm does too, or it is one of the guesses that
// TestWhereMidairDiffersFromSlurm lists.
func TestDamagedExpressionsAreReadAsSlurmDoesOrRefused(t *testing.T) {
	s := findScontrol(t)
	r := rand.New(rand.NewPCG(2205, 9))
	guesses := []string{"has no end", "blank inside [ ]", "is not a number", "stands for"}
	var read []string
	refused := 0
	for range 400 {
		// Of three brackets Slurm drops what it cannot read.
		expr := damage(r, randomExpr(r, 2, false))
		_, err := hostlist.Expand(expr)
		switch {
		case err == nil && !s.since(23, 11) && textAfterBracket(expr):
			require.Empty(t, s.hostnames(t, expr), "expression %q", expr)
		case err == nil:
			read = append(read, expr)
		case refused < 120:
			refused++
			if names := s.hostnames(t, expr); len(names) > 0 {
				require.True(t, !balanced(expr) || slices.ContainsFunc(guesses, func(g string) bool { return strings.Contains(err.Error(), g) }),
					"midair: %v; Slurm: %q", err, names)
			}
		}
	}
	require.Greater(t, len(read), 50)
	require.Greater(t, refused, 50)
	for i, names := range s.hostnamesOfAll(t, read) {
		got, err := hostlist.Expand(read[i])
		require.NoError(t, err)
		require.Equal(t, names, append([]string{}, got...), "expression %q", read[i])
	}
}

// differences are where midair departs from Slurm 22.05 on purpose. An empty
// list of names means refused.
var differences = []struct {
	why, expr     string
	midair, slurm string
	until         [2]int // the Slurm that reads it as midair does; zero: none
}{
	{"text after a bracket is part of the name, as in Slurm 23.11", "n[1-2]-ib", "n1-ib n2-ib", "", [2]int{23, 11}},
	{"the same with two brackets", "r[1-2]n[3]-ib", "r1n3-ib r2n3-ib", "", [2]int{23, 11}},
	{"a carriage return ends a term", "a\rb", "a b", "a\rb", [2]int{}},
	{"so do a vertical tab and a form feed", "a\vb\fc", "a b c", "a\vb\fc", [2]int{}},
	{"a control character is no part of a name", "a\x01b", "", "a\x01b", [2]int{}},
	{"a forgotten ] is no node", "n[1-2", "", "n]", [2]int{23, 2}},
	{"so is a forgotten [", "n1-2]", "", "n1-2]", [2]int{}},
	{"a range without an end is half typed", "n[1-]", "", "n1", [2]int{}},
	{"a blank is no zero", "n[1, 3]", "", "n1 n03", [2]int{}},
	{"a sign is no zero", "n[+1-3]", "", "n01 n02 n03", [2]int{}},
	{"a letter is no zero", "n[1a-3]", "", "n01 n02 n03", [2]int{}},
	{"of three brackets, Slurm reports no fault in the first and drops the term", "b,a[3-1]c[1]d[1]", "", "b", [2]int{}},
	{"a number that does not fit is kept in a name", "n99999999999999999999999", "n99999999999999999999999", "n00018446744073709551615", [2]int{}},
}

func TestWhereMidairDiffersFromSlurm(t *testing.T) {
	for _, d := range differences {
		names, err := hostlist.Expand(d.expr)
		require.Equal(t, d.midair == "", err != nil, "%s: %v", d.why, err)
		require.Equal(t, strings.Fields(d.midair), append([]string{}, names...), d.why)
	}
	s := findScontrol(t)
	for _, d := range differences {
		want := d.slurm
		if d.until != [2]int{} && s.since(d.until[0], d.until[1]) {
			want = d.midair
		}
		require.Equal(t, want, strings.Join(s.hostnames(t, d.expr), " "), "%s: Slurm %d.%02d", d.why, s.year, s.number)
	}
}

// A line end in a name cannot be told from the one between names, but Slurm
// does not join the two, so it has read one node called "a1\na2".
func TestSlurmTakesALineEndIntoTheName(t *testing.T) {
	names, err := hostlist.Expand("a1\na2")
	require.NoError(t, err)
	require.Equal(t, []string{"a1", "a2"}, names)
	s := findScontrol(t)
	require.Equal(t, "a[1-2]\n", s.run(t, "show", "hostlist", "a1,a2"))
	require.Equal(t, "a1\na2\n", s.run(t, "show", "hostlist", "a1\na2"))
}

func TestFoldIsWhatSlurmFolds(t *testing.T) {
	s := findScontrol(t)
	r := rand.New(rand.NewPCG(2205, 10))
	var lists [][]string
	for _, c := range foldable {
		lists = append(lists, strings.Fields(c.names))
	}
	for range 600 {
		lists = append(lists, randomNames(r, 1+r.IntN(40)))
	}
	for i, want := range s.hostlists(t, lists) {
		require.Equal(t, want, hostlist.Fold(lists[i]), "names %q", lists[i])
	}
}

func TestFoldSortedIsWhatSlurmSorts(t *testing.T) {
	s := findScontrol(t)
	r := rand.New(rand.NewPCG(2205, 11))
	for range 30 {
		names := randomNames(r, 300)
		sorted := hostlist.FoldSorted(names)
		// Slurm finds nothing left to sort or to join.
		require.Equal(t, sorted+"\n", s.run(t, "show", "hostlistsorted", sorted))

		// It sorts ranges, not names, so where 9 and 009 are mixed its text
		// depends on the order of the names. Without the mix it does not.
		names = slices.DeleteFunc(names, func(n string) bool { return strings.Contains(n, "0") })
		slices.Sort(names)
		names = slices.Compact(names)
		r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		require.Equal(t, s.run(t, "show", "hostlistsorted", strings.Join(names, ",")), hostlist.FoldSorted(names)+"\n")
	}
}
