package hostlist

import (
	"strconv"
	"strings"
)

// Expand gives the names of an expression in Slurm's order; a name that is
// listed twice comes twice. An expression without a term gives none.
//
// The error is an [*Error]. It is one also where there are more names than
// [DefaultMax].
func Expand(expr string) ([]string, error) { return ExpandMax(expr, DefaultMax) }

// ExpandMax is Expand with another bound on the number of names; one above
// [HighestMax] counts as HighestMax, one below 0 as 0. It counts the names
// before it makes the first.
func ExpandMax(expr string, max int) ([]string, error) {
	terms, err := parse(expr, min(max, HighestMax))
	if err != nil {
		return nil, err
	}
	total := 0
	for _, t := range terms {
		total += t.names
	}
	names := make([]string, 0, total)
	for _, t := range terms {
		names = t.expand(names)
	}
	return names, nil
}

// expand appends the term's names. They share one piece of memory, which is
// much quicker than one each.
func (t *term) expand(names []string) []string {
	if len(t.brackets) == 0 {
		return append(names, t.texts[0])
	}
	e := expansion{term: t, now: make([]numeral, len(t.brackets)), ends: make([]int, 0, t.names)}
	e.text.Grow(t.bytes)
	e.loop(len(t.brackets) - 2)
	all, from := e.text.String(), 0
	for _, end := range e.ends {
		names = append(names, all[from:end])
		from = end
	}
	return names
}

// expansion is a term whose names are being written.
type expansion struct {
	*term
	now  []numeral // the number that each bracket has at the moment
	text strings.Builder
	ends []int // where in text each name ends
}

type numeral struct {
	n     uint64
	width int
}

// loop counts through brackets i, i-1, … 0 and innermost through the last
// one. That is Slurm's order: the last bracket changes fastest, then the
// first, and the last but one slowest: a[1-2]b[3-4]c[5-6] is a1b3c5, a1b3c6,
// a2b3c5, a2b3c6, a1b4c5 and so on.
func (e *expansion) loop(i int) {
	b := i
	if i < 0 {
		b = len(e.brackets) - 1
	}
	for _, s := range e.brackets[b].ranges {
		for n := s.lo; n <= s.hi; n++ {
			e.now[b] = numeral{n, s.width}
			if i < 0 {
				e.write()
			} else {
				e.loop(i - 1)
			}
		}
	}
}

func (e *expansion) write() {
	const zeros = "00000000000000000000000000000000"
	var number [20]byte
	for i, now := range e.now {
		e.text.WriteString(e.texts[i])
		d := strconv.AppendUint(number[:0], now.n, 10)
		for pad := now.width - len(d); pad > 0; pad -= len(zeros) {
			e.text.WriteString(zeros[:min(pad, len(zeros))])
		}
		e.text.Write(d)
	}
	e.text.WriteString(e.texts[len(e.now)])
	e.ends = append(e.ends, e.text.Len())
}
