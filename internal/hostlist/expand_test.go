package hostlist_test

import (
	"errors"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/hostlist"
)

// readable are expressions that Slurm reads as midair does; the test against
// Slurm's own program goes through them too.
var readable = []struct{ name, expr, want string }{
	{"nothing", "", ""},
	{"only separators", " ,\t, ", ""},
	{"one name", "login1", "login1"},
	{"a name without digits", "login", "login"},
	{"a name of digits", "17", "17"},
	{"range", "n[1-3]", "n1 n2 n3"},
	{"range of one", "n[5-5]", "n5"},
	{"one number", "n[7]", "n7"},
	{"zero padding", "n[001-003]", "n001 n002 n003"},
	{"padding ends where the digits suffice", "n[08-11]", "n08 n09 n10 n11"},
	{"no padding grows", "n[8-11]", "n8 n9 n10 n11"},
	{"width of the end does not matter", "n[8-011]", "n8 n9 n10 n11"},
	{"start wider than the end", "n[0008-11]", "n0008 n0009 n0010 n0011"},
	{"padding past a power of ten", "n[098-101]", "n098 n099 n100 n101"},
	{"zero", "n[0-1],n[00-01]", "n0 n1 n00 n01"},
	{"each range has its width", "n[1-3,07,010-011]", "n1 n2 n3 n07 n010 n011"},
	{"order is as written", "n[5,1-2,4]", "n5 n1 n2 n4"},
	{"duplicates stay", "a[1],a[1-2],a1", "a1 a1 a2 a1"},
	{"terms", "a[1-2],b3,c[4,6-7]", "a1 a2 b3 c4 c6 c7"},
	{"commas in a row", ",a,,b,", "a b"},
	{"blanks and tabs part", "a b\tc , d", "a b c d"},
	{"a blank ends the term before a bracket", "a [1-2]", "a 1 2"},
	{"no text before the bracket", "[1-3]", "1 2 3"},
	{"two brackets", "rack[1-2]n[01-02]", "rack1n01 rack1n02 rack2n01 rack2n02"},
	{"two brackets together", "n[1-2][3-4]", "n13 n14 n23 n24"},
	{"three brackets: the middle one is slowest", "a[1-2]b[3-4]c[5-6]", "a1b3c5 a1b3c6 a2b3c5 a2b3c6 a1b4c5 a1b4c6 a2b4c5 a2b4c6"},
	{"four brackets", "a[1-2]b[3-4]c[5-6]d[7-8]", "" +
		"a1b3c5d7 a1b3c5d8 a2b3c5d7 a2b3c5d8 a1b4c5d7 a1b4c5d8 a2b4c5d7 a2b4c5d8 " +
		"a1b3c6d7 a1b3c6d8 a2b3c6d7 a2b3c6d8 a1b4c6d7 a1b4c6d8 a2b4c6d7 a2b4c6d8"},
	{"padding in both brackets", "r[08-10]n[9-10]", "r08n9 r08n10 r09n9 r09n10 r10n9 r10n10"},
	{"digits before the bracket", "n1[0-2]", "n10 n11 n12"},
	{"dots, dashes, capitals", "GPU-a.b_c[1-2]", "GPU-a.b_c1 GPU-a.b_c2"},
	{"a name that ends with a dash", "n-", "n-"},
	{"large numbers", "n[18446744073709551613-18446744073709551614]", "n18446744073709551613 n18446744073709551614"},
	{"nodes of a resume call", "p1-od-[1-3],p2-spot-[1-2]", "p1-od-1 p1-od-2 p1-od-3 p2-spot-1 p2-spot-2"},
}

func TestExpand(t *testing.T) {
	for _, c := range readable {
		t.Run(c.name, func(t *testing.T) {
			got, err := hostlist.Expand(c.expr)
			require.NoError(t, err)
			require.Equal(t, strings.Fields(c.want), append([]string{}, got...))
		})
	}
}

func TestBadExpressionsSayWhereAndWhatToDo(t *testing.T) {
	long := strings.Repeat("n[1-2],", 100)
	for _, c := range []struct{ name, expr, want string }{
		{"open bracket", "a,n[1-2", `hostlist "a,n[1-2": position 4: [ without ]; add the ]`},
		{"stray closing bracket", "n1]", `hostlist "n1]": position 3: ] without [; add the [ or remove the ]`},
		{"nested", "n[1-[2-3]]", `hostlist "n[1-[2-3]]": position 5: [ inside [ ]; close the first [ before it; brackets cannot be nested`},
		{"empty bracket", "n[]", `hostlist "n[]": position 3: a number is missing; write numbers and ranges such as [1-3,07]`},
		{"empty part", "n[1,,2]", `position 5: a number is missing`},
		{"comma at the end", "n[1,2,]", `position 7: a number is missing`},
		{"no start", "n[-3]", `position 3: a number is missing`},
		{"no end", "n[1-]", `position 3: the range "1-" has no end`},
		{"two dashes", "n[1--3]", `position 5: "-3" is not a number`},
		{"three numbers", "n[1-2-3]", `position 6: "2-3" is not a number`},
		{"letters", "n[a-b]", `position 3: "a" is not a number`},
		{"hexadecimal", "n[0x10]", `position 4: "0x10" is not a number`},
		{"sign", "n[+1-3]", `position 3: "+1" is not a number`},
		{"blank", "n[1, 3]", `position 5: blank inside [ ]; remove it, because Slurm would count it as a leading zero`},
		{"line end in a bracket", "n[1,\n3]", `position 5: blank inside [ ]`},
		{"backwards", "n[3-1]", `position 3: the range "3-1" runs backwards; write the smaller number first`},
		{"range too large for Slurm", "n[1-65537]", `position 3: the range "1-65537" has 65537 names, and Slurm takes at most 65536 in one range; check its ends, or split it`},
		{"number too large", "n[18446744073709551615]", `position 3: the number "18446744073709551615" is larger than Slurm can count; check it`},
		{"number far too large", "n[1-" + strings.Repeat("9", 60) + "]", `position 5: the number "` + strings.Repeat("9", 40) + `..." is larger than Slurm can count`},
		{"too many digits", "n[" + strings.Repeat("0", 300) + "]", `position 3: a number of 300 digits; check it`},
		{"name too long", "a," + strings.Repeat("n", 300), `position 3: a name of 300 bytes, more than 253; shorten it`},
		{"name too long with its number", strings.Repeat("n", 250) + "[1-1000]", `position 1: a name of 254 bytes, more than 253`},
		{"control character", "a\x1b[1-2]", `position 2: control character '\x1b' in a name; remove it`},
		{"nul", "a\x00", `position 2: control character '\x00' in a name; remove it`},
		{"a long expression is cut around the fault", long + "n[2-1]," + long, `hostlist "...` + (long + "n[2-1]," + long)[702-40:702+40] + `...": position 703: the range "2-1" runs backwards`},
	} {
		t.Run(c.name, func(t *testing.T) {
			names, err := hostlist.Expand(c.expr)
			require.Empty(t, names)
			require.ErrorContains(t, err, c.want)
			var e *hostlist.Error
			require.ErrorAs(t, err, &e)
			require.Equal(t, c.expr, e.Expr)
			require.NotEmpty(t, e.Advice)
			require.False(t, e.TooMany)
		})
	}
}

func TestTextAfterABracketIsPartOfTheName(t *testing.T) {
	for expr, want := range map[string]string{
		"n[1-2]-ib":               "n1-ib n2-ib",
		"n[1-2]-ib,m[01].cluster": "n1-ib n2-ib m01.cluster",
		"rack[1-2]n[3-4]-ib":      "rack1n3-ib rack1n4-ib rack2n3-ib rack2n4-ib",
		"n[9-10]0":                "n90 n100",
		"[1-2]x":                  "1x 2x",
	} {
		got, err := hostlist.Expand(expr)
		require.NoError(t, err)
		require.Equal(t, strings.Fields(want), got)
	}
}

func TestLineEndsPartTerms(t *testing.T) {
	got, err := hostlist.Expand("n[1-2]\r\na\n\nb\n")
	require.NoError(t, err)
	require.Equal(t, []string{"n1", "n2", "a", "b"}, got)
}

func TestANameKeepsANumberThatDoesNotFit(t *testing.T) {
	const huge = "n99999999999999999999999"
	got, err := hostlist.Expand(huge + ",n18446744073709551615")
	require.NoError(t, err)
	require.Equal(t, []string{huge, "n18446744073709551615"}, got)
}

func TestTheBoundIsExact(t *testing.T) {
	for _, c := range []struct {
		expr string
		n    int
	}{{"a", 1}, {"a,b,c", 3}, {"n[1-10]", 10}, {"n[1-10]x[1-3,7]", 40}, {"a,n[1-10],b[1-2]c[1-2]d[1-2]-ib", 19}} {
		got, err := hostlist.ExpandMax(c.expr, c.n)
		require.NoError(t, err)
		require.Len(t, got, c.n)
		_, err = hostlist.ExpandMax(c.expr, c.n-1)
		require.Error(t, err, c.expr)
	}
	_, err := hostlist.ExpandMax("a", -1)
	require.Error(t, err)
	none, err := hostlist.ExpandMax("", 0)
	require.NoError(t, err)
	require.Empty(t, none)

	_, err = hostlist.ExpandMax("a,n[1-10],b", 10)
	require.EqualError(t, err, `hostlist "a,n[1-10],b": position 3: up to here it stands for 11 names, and the bound is 10; check its ranges, or expand it in parts`)
	most, err := hostlist.Expand("n[0-65535]x[0-15]")
	require.NoError(t, err)
	require.Len(t, most, hostlist.DefaultMax)
}

// One expression of a few bytes must not take the memory or the time of a
// controller.
func TestAHugeExpressionCostsNothing(t *testing.T) {
	for _, c := range []struct{ name, expr, want string }{
		{"ten digits", "n[0-9999999999]", `has 10000000000 names`},
		{"two large brackets", "n[0-65535]x[0-65535]", `stands for 4294967296 names, and the bound is 1048576`},
		{"more than 64 bits count", strings.Repeat("[0-65535]", 5), `more than 10^19 names`},
		{"many brackets", strings.Repeat("[0-1]", 64), `more than 10^19 names`},
		{"many ranges in one bracket", "n[" + strings.Repeat("0-65535,", 100_000) + "0]", `stands for 6553600001 names`},
		{"many terms", strings.Repeat("n[0-65535],", 10_000), `stands for 1114112 names`},
		{"a long text many times", strings.Repeat("n", 1<<20) + "[0-65535]", `a name of 1048581 bytes`},
		{"wide padding", "n[" + strings.Repeat("0", 1<<20) + "-65535]", `a number of 1048576 digits`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			start := time.Now()
			_, err := hostlist.Expand(c.expr)
			took := time.Since(start)
			runtime.ReadMemStats(&after)
			require.ErrorContains(t, err, c.want)
			require.Less(t, took, time.Second)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(20*len(c.expr)+64<<10))
			require.Less(t, len(err.Error()), 300)
		})
	}
}

// A bound of 2^63-1 once let the count through and make() panicked.
func TestNoBoundIsAboveTheHighest(t *testing.T) {
	for _, expr := range []string{
		"[0-65535][0-65535][0-65535][0-65535]",
		"n[0-65535]x[0-65535]x[0-65535]",
		"n[0-65535]x[0-65535]",
		"n[0-65535]x[0-63],one-more",
	} {
		_, err := hostlist.ExpandMax(expr, math.MaxInt)
		var e *hostlist.Error
		require.True(t, errors.As(err, &e) && e.TooMany, "%s: %v", expr, err)
		require.ErrorContains(t, err, "the bound is 4194304")
	}
}
