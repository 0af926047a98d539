package hostlist_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/midair-hpc/midair/internal/hostlist"
)

// FuzzExpand holds what every caller relies on for any text: no panic, no more
// names than the bound, a named fault or names that fold and expand again.
func FuzzExpand(f *testing.F) {
	for _, c := range readable {
		f.Add(c.expr, 100)
	}
	for _, expr := range []string{"n[1-2]-ib", "n[3-1]", "n[1-2", "n1]", "n[0-9999999999]", "[0-65535][0-65535]", "n[1, 2]", "a\x00", "n[00000000000000000000000000000000001-3]"} {
		f.Add(expr, 1<<16)
	}
	f.Fuzz(func(t *testing.T, expr string, bound int) {
		bound = min(bound, 1<<16)
		names, err := hostlist.ExpandMax(expr, bound)
		if err != nil {
			var e *hostlist.Error
			if !errors.As(err, &e) || e.Expr != expr || e.Pos < 1 || e.Pos > len(expr) || len(err.Error()) > 2000 {
				t.Fatalf("%q: %v", expr, err)
			}
			return
		}
		if len(names) > max(0, bound) {
			t.Fatalf("%q: %d names, bound %d", expr, len(names), bound)
		}
		for _, n := range names {
			if n == "" || len(n) > hostlist.MaxName {
				t.Fatalf("%q: name %q", expr, n)
			}
		}
		back, err := hostlist.ExpandMax(hostlist.Fold(names), len(names))
		if err != nil || !slices.Equal(back, names) {
			t.Fatalf("%q gives %q, folded %q, and that gives %q, %v", expr, names, hostlist.Fold(names), back, err)
		}
		checkSorted(t, names)
	})
}

// FuzzFold does the same from the other end: any names that can be in an
// expression.
func FuzzFold(f *testing.F) {
	for _, c := range foldable {
		f.Add(c.names)
	}
	f.Fuzz(func(t *testing.T, text string) {
		names, err := hostlist.ExpandMax(text, 1<<12)
		if err != nil {
			return
		}
		slices.Reverse(names)
		back, err := hostlist.Expand(hostlist.Fold(names))
		if err != nil || !slices.Equal(back, names) {
			t.Fatalf("%q folds to %q, and that gives %q, %v", names, hostlist.Fold(names), back, err)
		}
		checkSorted(t, names)
	})
}

// checkSorted checks that FoldSorted keeps the set, lists each name once and
// does not depend on the order.
func checkSorted(t *testing.T, names []string) {
	t.Helper()
	sorted := hostlist.FoldSorted(names)
	back, err := hostlist.ExpandMax(sorted, len(names))
	if err != nil {
		t.Fatal(err)
	}
	set := slices.Clone(names)
	slices.Sort(set)
	set = slices.Compact(set)
	if again := hostlist.FoldSorted(set); again != sorted {
		t.Fatalf("%q gives %q, in another order %q", names, sorted, again)
	}
	slices.Sort(back)
	if !slices.Equal(back, set) {
		t.Fatalf("%q gives %q, which has the names %q", names, sorted, back)
	}
}
