package hostlist_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

var prefixes = []string{"n", "gpu-", "rack1n", "rack10n", "rack2n", "a01b", "a1b", "a002b", "p2-spot-", "N", "x.y_z", ""}

// randomNumber is small, so that numbers meet, and crosses powers of ten.
func randomNumber(r *rand.Rand) string {
	return fmt.Sprintf("%0*d", r.IntN(5), []int{r.IntN(12), r.IntN(12), 95 + r.IntN(10), 995 + r.IntN(10)}[r.IntN(4)])
}

func randomNames(r *rand.Rand, n int) []string {
	var names []string
	for len(names) < n {
		prefix := prefixes[r.IntN(len(prefixes))]
		switch r.IntN(6) {
		case 0:
			names = append(names, prefix+randomNumber(r)+"-ib")
		case 1:
			names = append(names, prefix+randomNumber(r))
		case 2:
			names = append(names, prefix+"x")
		default:
			width, from := r.IntN(5), r.IntN(105)
			for i := range 1 + r.IntN(8) {
				names = append(names, fmt.Sprintf("%s%0*d", prefix, width, from+i))
			}
		}
	}
	return names
}

// randomExpr gives a valid expression of up to most brackets a term; with
// suffix, some have text after a bracket, which Slurm reads since 23.11.
func randomExpr(r *rand.Rand, most int, suffix bool) string {
	var b strings.Builder
	for i := range 1 + r.IntN(4) {
		if i > 0 {
			b.WriteString([]string{",", ",", ",", ",,", " ", ", "}[r.IntN(6)])
		}
		before := b.Len()
		b.WriteString(prefixes[r.IntN(len(prefixes))])
		brackets := min(most, []int{0, 1, 1, 1, 2, 3}[r.IntN(6)])
		for j := range brackets {
			if j > 0 {
				b.WriteString([]string{"", "n", "-"}[r.IntN(3)])
			}
			b.WriteByte('[')
			for k := range 1 + r.IntN(3) {
				if k > 0 {
					b.WriteByte(',')
				}
				width, lo := r.IntN(4), []int{r.IntN(12), 96 + r.IntN(6)}[r.IntN(2)]
				fmt.Fprintf(&b, "%0*d", width, lo)
				if r.IntN(3) > 0 {
					fmt.Fprintf(&b, "-%0*d", r.IntN(4), lo+r.IntN(7))
				}
			}
			b.WriteByte(']')
		}
		if brackets > 0 && suffix && r.IntN(3) == 0 {
			b.WriteString("-ib")
		}
		if brackets == 0 && r.IntN(3) > 0 || b.Len() == before {
			b.WriteString(randomNumber(r))
		}
	}
	return b.String()
}

// damage removes, adds or exchanges a byte or two.
func damage(r *rand.Rand, expr string) string {
	const letters = "[],- 09ax+."
	b := []byte(expr)
	for range 1 + r.IntN(2) {
		if len(b) == 0 {
			break
		}
		at := r.IntN(len(b))
		switch c := letters[r.IntN(len(letters))]; r.IntN(3) {
		case 0:
			b = slices.Delete(b, at, at+1)
		case 1:
			b = slices.Insert(b, at, c)
		default:
			b[at] = c
		}
	}
	return string(b)
}

// balanced says whether every bracket is closed before the next one opens.
func balanced(expr string) bool {
	open := false
	for _, c := range expr {
		if c == '[' && open || c == ']' && !open {
			return false
		}
		open = open && c != ']' || c == '['
	}
	return !open
}

// textAfterBracket says whether a term of a valid expression goes on behind
// its last bracket.
func textAfterBracket(expr string) bool {
	for rest := expr; ; {
		_, after, found := strings.Cut(rest, "]")
		if !found {
			return false
		}
		rest = after
		end := strings.IndexAny(after, "[, ")
		if end < 0 {
			return after != ""
		}
		if end > 0 && after[end] != '[' {
			return true
		}
	}
}
