package hostlist

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// Fold writes names as one expression, as `scontrol show hostlist` does: the
// order stays, duplicates stay, and neighbours with the same text before
// their number share a bracket, so b2,b1,a3,a4,b2 gives b[2,1],a[3-4],b2.
// Expand gives the same names in the same order back. Empty names are left
// out.
//
// Names are taken as they are: one that has brackets, commas or blanks in it
// is not a node name, and the result does not expand to it.
func Fold(names []string) string {
	parts := make([]name, 0, len(names))
	for _, n := range names {
		if n != "" {
			parts = append(parts, split(n))
		}
	}
	return fold(parts)
}

// FoldSorted is Fold of the names in order and each once, so that the same
// set of nodes always gives the same text: for messages and keys. The order
// is the one of `scontrol show hostlistsorted`, which however keeps
// duplicates: by the text before the number with the numbers in it counted
// (rack2n before rack10n), then by how many digits there are, then by number.
// names is not changed.
func FoldSorted(names []string) string {
	parts := make([]name, 0, len(names))
	for _, n := range names {
		if n != "" {
			parts = append(parts, split(n))
		}
	}
	slices.SortFunc(parts, compareNames)
	return fold(slices.Compact(parts))
}

// name is a node name in parts. The number is the digits at its end, whatever
// else there is before; prefix is what comes before them.
type name struct {
	prefix   string
	number   uint64
	width    int  // digits in the name, leading zeros included
	numbered bool // false: prefix is the whole name
}

func split(s string) name {
	at := len(s)
	for at > 0 && digit(s[at-1]) {
		at--
	}
	if at == len(s) {
		return name{prefix: s}
	}
	n, err := strconv.ParseUint(s[at:], 10, 64)
	if err != nil || n == math.MaxUint64 {
		// It does not fit: the name stands for itself.
		return name{prefix: s}
	}
	return name{prefix: s[:at], number: n, width: len(s) - at, numbered: true}
}

// follows says whether n can be the next name of a range that begins at first
// and ends at last: whether writing it with the range's width gives n again.
func (n name) follows(first name, last uint64) bool {
	return n.numbered && first.numbered &&
		n.number == last+1 && n.number-first.number < MaxRange &&
		n.width == max(first.width, digits(n.number)) &&
		n.prefix == first.prefix
}

// sharesBracket says whether the two names go into one bracket.
func (n name) sharesBracket(m name) bool {
	return n.numbered && m.numbered && n.prefix == m.prefix
}

func fold(parts []name) string {
	var out []byte
	for i := 0; i < len(parts); {
		if len(out) > 0 {
			out = append(out, ',')
		}
		first := parts[i]
		out = append(out, first.prefix...)
		if !first.numbered {
			i++
			continue
		}
		bracket := i+1 < len(parts) && parts[i+1].sharesBracket(first)
		if bracket {
			out = append(out, '[')
		}
		for begin := i; i < len(parts) && parts[i].sharesBracket(first); {
			if i > begin {
				out = append(out, ',')
			}
			low := parts[i]
			high := low.number
			for i++; i < len(parts) && parts[i].follows(low, high); i++ {
				high++
			}
			out = appendNumber(out, low.number, low.width)
			if high > low.number {
				out = append(out, '-')
				out = appendNumber(out, high, low.width)
			}
		}
		if bracket {
			out = append(out, ']')
		}
	}
	return string(out)
}

func appendNumber(out []byte, n uint64, width int) []byte {
	for pad := width - digits(n); pad > 0; pad-- {
		out = append(out, '0')
	}
	return strconv.AppendUint(out, n, 10)
}

// compareNames orders names as FoldSorted says; equal names only are equal.
func compareNames(a, b name) int {
	if a.prefix != b.prefix {
		return compareNatural(a.prefix, b.prefix)
	}
	switch {
	case !a.numbered && !b.numbered:
		return 0
	case !a.numbered:
		return -1
	case !b.numbered:
		return 1
	case a.width != b.width:
		return a.width - b.width
	case a.number < b.number:
		return -1
	case a.number > b.number:
		return 1
	}
	return 0
}

// compareNatural compares texts byte by byte, but runs of digits in them as
// numbers. Where one of the runs begins with 0 both are compared as decimals
// are behind the point, so 01 comes before 1 and 002 before 01, as Slurm's
// strnatcmp has it. Different texts are never equal.
func compareNatural(a, b string) int {
	for a != "" && b != "" {
		if !digit(a[0]) || !digit(b[0]) {
			if a[0] != b[0] {
				return int(a[0]) - int(b[0])
			}
			a, b = a[1:], b[1:]
			continue
		}
		x, y := digitRun(a), digitRun(b)
		if len(x) != len(y) && x[0] != '0' && y[0] != '0' {
			return len(x) - len(y)
		}
		if c := strings.Compare(x, y); c != 0 {
			return c
		}
		a, b = a[len(x):], b[len(y):]
	}
	return len(a) - len(b)
}

// digitRun gives the digits that s begins with.
func digitRun(s string) string {
	n := 0
	for n < len(s) && digit(s[n]) {
		n++
	}
	return s[:n]
}
