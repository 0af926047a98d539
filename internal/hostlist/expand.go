// Package hostlist reads and writes Slurm's hostlist expressions, such as
// gpu[001-064]-ib,login1.
package hostlist

import (
	"fmt"
	"strconv"
	"strings"
)

// DefaultMax bounds how many names Expand gives: far above any cluster, far
// below what would eat the memory.
const DefaultMax = 1 << 20

// Expand gives the names of an expression, in Slurm's order, duplicates kept.
func Expand(expr string) ([]string, error) { return ExpandMax(expr, DefaultMax) }

// ExpandMax is Expand with a bound on the number of names.
func ExpandMax(expr string, max int) ([]string, error) {
	var out []string
	depth, from := 0, 0
	for i := 0; i <= len(expr); i++ {
		c := byte(',')
		if i < len(expr) {
			c = expr[i]
		}
		switch {
		case c == '[':
			depth++
			if depth > 1 {
				return nil, fmt.Errorf("hostlist %q: nested [ at position %d", expr, i+1)
			}
		case c == ']':
			depth--
			if depth < 0 {
				return nil, fmt.Errorf("hostlist %q: ] without [ at position %d", expr, i+1)
			}
		case (c == ',' || c == ' ' || c == '\n' || c == '\t') && (depth == 0 || i == len(expr)):
			if depth != 0 {
				return nil, fmt.Errorf("hostlist %q: [ without ]", expr)
			}
			if i > from {
				names, err := expandOne(expr, expr[from:i], max-len(out))
				if err != nil {
					return nil, err
				}
				out = append(out, names...)
			}
			from = i + 1
		}
	}
	return out, nil
}

func expandOne(expr, term string, max int) ([]string, error) {
	open := strings.IndexByte(term, '[')
	if open < 0 {
		if max < 1 {
			return nil, fmt.Errorf("hostlist %q: too many names", expr)
		}
		return []string{term}, nil
	}
	end := open + strings.IndexByte(term[open:], ']')
	prefix := term[:open]
	rest, err := expandOne(expr, term[end+1:], max)
	if end+1 == len(term) {
		rest, err = []string{""}, nil
	}
	if err != nil {
		return nil, err
	}
	var out []string
	for _, r := range strings.Split(term[open+1:end], ",") {
		lo, hi, isRange := strings.Cut(r, "-")
		if !isRange {
			hi = lo
		}
		a, err1 := strconv.ParseUint(lo, 10, 63)
		b, err2 := strconv.ParseUint(hi, 10, 63)
		if err1 != nil || err2 != nil || b < a {
			return nil, fmt.Errorf("hostlist %q: bad range %q", expr, r)
		}
		if (b-a+1) > uint64(max) || (int(b-a)+1)*len(rest)+len(out) > max {
			return nil, fmt.Errorf("hostlist %q: more than %d names", expr, max)
		}
		for n := a; n <= b; n++ {
			for _, s := range rest {
				out = append(out, fmt.Sprintf("%s%0*d%s", prefix, len(lo), n, s))
			}
		}
	}
	return out, nil
}
