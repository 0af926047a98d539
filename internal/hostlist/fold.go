package hostlist

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// FoldSorted sorts names, drops duplicates and writes the shortest expression
// with one bracket per name.
func FoldSorted(names []string) string {
	s := slices.Clone(names)
	type parts struct {
		prefix, digits, suffix string
		n                      uint64
	}
	split := func(name string) parts {
		e := strings.LastIndexAny(name, "0123456789") + 1
		b := e
		for b > 0 && name[b-1] >= '0' && name[b-1] <= '9' && e-b < 18 {
			b--
		}
		p := parts{prefix: name[:b], digits: name[b:e], suffix: name[e:]}
		fmt.Sscan(strings.TrimLeft(p.digits, "0"), &p.n)
		return p
	}
	slices.SortFunc(s, func(a, b string) int {
		x, y := split(a), split(b)
		return cmp.Or(cmp.Compare(x.prefix, y.prefix), cmp.Compare(x.suffix, y.suffix), cmp.Compare(len(x.digits), len(y.digits)), cmp.Compare(x.n, y.n), cmp.Compare(a, b))
	})
	s = slices.Compact(s)
	var out []string
	for i := 0; i < len(s); {
		p := split(s[i])
		if p.digits == "" {
			out = append(out, s[i])
			i++
			continue
		}
		var ranges []string
		count := 0
		for i < len(s) {
			q := split(s[i])
			if q.prefix != p.prefix || q.suffix != p.suffix || len(q.digits) != len(p.digits) {
				break
			}
			j, last := i, q
			for j+1 < len(s) {
				r := split(s[j+1])
				if r.prefix != p.prefix || r.suffix != p.suffix || len(r.digits) != len(p.digits) || r.n != last.n+1 {
					break
				}
				last = r
				j++
			}
			if j > i {
				ranges = append(ranges, q.digits+"-"+last.digits)
			} else {
				ranges = append(ranges, q.digits)
			}
			count += j - i + 1
			i = j + 1
		}
		if count == 1 {
			out = append(out, p.prefix+ranges[0]+p.suffix)
		} else {
			out = append(out, p.prefix+"["+strings.Join(ranges, ",")+"]"+p.suffix)
		}
	}
	return strings.Join(out, ",")
}
