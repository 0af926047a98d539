package hostlist

import (
	"fmt"
	"math"
	"math/bits"
	"strconv"
	"strings"
)

// term is one part of an expression: texts[0], a number of brackets[0],
// texts[1] and so on. Without brackets it is the name texts[0].
type term struct {
	pos      int // where it begins in the expression
	texts    []string
	brackets []bracket
	names    int // how many names it stands for
	bytes    int // how long these are together
}

// bracket holds the ranges between [ and ].
type bracket struct {
	ranges []span
	names  uint64
	bytes  uint64 // of all its numbers together
	widest int    // bytes of the longest number
}

// span is the numbers from lo to hi, written with at least width digits.
type span struct {
	lo, hi uint64
	width  int
}

// parse gives the terms of expr. It counts and allocates nothing for the
// names, so an expression that stands for too many costs no more than its own
// length.
func parse(expr string, limit int) ([]term, error) {
	p := parser{expr: expr}
	var terms []term
	names := 0
	for p.skipSeparators(); p.at < len(expr); p.skipSeparators() {
		t, err := p.term()
		if err != nil {
			return nil, err
		}
		if err := p.count(&t, names, limit); err != nil {
			return nil, err
		}
		names += t.names
		terms = append(terms, t)
	}
	return terms, nil
}

type parser struct {
	expr string
	at   int // the next byte to read
}

func (p *parser) fault(at int, advice, problem string, args ...any) *Error {
	return &Error{Expr: p.expr, Pos: at + 1, Problem: fmt.Sprintf(problem, args...), Advice: advice}
}

func (p *parser) skipSeparators() {
	for p.at < len(p.expr) && separator(p.expr[p.at]) {
		p.at++
	}
}

// term reads up to the next separator outside brackets.
func (p *parser) term() (term, error) {
	t := term{pos: p.at}
	from := p.at
	for p.at < len(p.expr) && !separator(p.expr[p.at]) {
		switch c := p.expr[p.at]; {
		case c == '[':
			t.texts = append(t.texts, p.expr[from:p.at])
			b, err := p.bracket()
			if err != nil {
				return t, err
			}
			t.brackets = append(t.brackets, b)
			from = p.at
		case c == ']':
			return t, p.fault(p.at, "add the [ or remove the ]", "] without [")
		case c < ' ' || c == 0x7f:
			return t, p.fault(p.at, "remove it", "control character %q in a name", c)
		default:
			p.at++
		}
	}
	t.texts = append(t.texts, p.expr[from:p.at])
	return t, nil
}

// bracket reads from [ to behind the next ].
func (p *parser) bracket() (bracket, error) {
	open := p.at
	p.at++
	end := strings.IndexAny(p.expr[p.at:], "[]")
	switch {
	case end < 0:
		return bracket{}, p.fault(open, "add the ]", "[ without ]")
	case p.expr[p.at+end] == '[':
		return bracket{}, p.fault(p.at+end, "close the first [ before it; brackets cannot be nested", "[ inside [ ]")
	}
	end += p.at
	var b bracket
	for {
		upto := end
		if comma := strings.IndexByte(p.expr[p.at:end], ','); comma >= 0 {
			upto = p.at + comma
		}
		s, err := p.span(p.expr[p.at:upto])
		if err != nil {
			return bracket{}, err
		}
		b.add(s)
		p.at = upto + 1
		if upto == end {
			return b, nil
		}
	}
}

// span reads a number or a range, which begins where the parser is.
func (p *parser) span(text string) (span, error) {
	const want = "write numbers and ranges such as [1-3,07]"
	low, high, ranged := strings.Cut(text, "-")
	lo, err := p.number(low, p.at)
	if err != nil {
		return span{}, err
	}
	s := span{lo: lo, hi: lo, width: len(low)}
	if !ranged {
		return s, nil
	}
	if high == "" {
		return span{}, p.fault(p.at, want, "the range %q has no end", excerpt(text))
	}
	if s.hi, err = p.number(high, p.at+len(low)+1); err != nil {
		return span{}, err
	}
	if s.hi < s.lo {
		return span{}, p.fault(p.at, "write the smaller number first", "the range %q runs backwards", text)
	}
	if s.hi-s.lo >= MaxRange {
		return span{}, p.fault(p.at, "check its ends, or split it", "the range %q has %d names, and Slurm takes at most %d in one range", text, s.hi-s.lo+1, MaxRange)
	}
	return s, nil
}

// number reads decimal digits only: Slurm's strtoul would take signs and
// blanks too, and count them as width.
func (p *parser) number(text string, at int) (uint64, error) {
	const want = "write numbers and ranges such as [1-3,07]"
	if text == "" {
		return 0, p.fault(at, want, "a number is missing")
	}
	for i := range len(text) {
		switch {
		case separator(text[i]):
			return 0, p.fault(at+i, "remove it, because Slurm would count it as a leading zero", "blank inside [ ]")
		case !digit(text[i]):
			return 0, p.fault(at+i, want, "%q is not a number", excerpt(text))
		}
	}
	if len(text) > MaxName {
		return 0, p.fault(at, "check it", "a number of %d digits", len(text))
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n == math.MaxUint64 {
		return 0, p.fault(at, "check it", "the number %q is larger than Slurm can count", excerpt(text))
	}
	return n, nil
}

// excerpt cuts a text that is too long for a message.
func excerpt(text string) string {
	if len(text) <= 40 {
		return text
	}
	return text[:40] + "..."
}

func (b *bracket) add(s span) {
	b.ranges = append(b.ranges, s)
	b.names += s.hi - s.lo + 1
	for n := s.lo; ; {
		// All numbers up to last have as many digits as n.
		d := digits(n)
		last := s.hi
		if next := pow10(d); next != 0 && next-1 < last {
			last = next - 1
		}
		width := max(d, s.width)
		b.widest = max(b.widest, width)
		b.bytes += (last - n + 1) * uint64(width)
		if last == s.hi {
			return
		}
		n = last + 1
	}
}

// pow10 gives 10 to the power of d, 0 where that is more than 64 bits hold.
func pow10(d int) uint64 {
	if d > 19 {
		return 0
	}
	n := uint64(1)
	for range d {
		n *= 10
	}
	return n
}

// count fills in the size of t and checks it: before is how many names the
// terms before it stand for.
func (p *parser) count(t *term, before, limit int) error {
	longest, fixed := 0, 0
	for _, text := range t.texts {
		fixed += len(text)
	}
	longest = fixed
	names := uint64(1)
	for _, b := range t.brackets {
		longest += b.widest
		hi, lo := bits.Mul64(names, b.names)
		if hi != 0 {
			lo = math.MaxUint64
		}
		names = lo
	}
	if longest > MaxName {
		return p.fault(t.pos, "shorten it", "a name of %d bytes, more than %d", longest, MaxName)
	}
	if left := max(0, limit-before); names > uint64(left) {
		sum := names + uint64(before)
		if sum < names {
			sum = math.MaxUint64
		}
		many := fmt.Sprint(sum)
		if sum == math.MaxUint64 {
			many = "more than 10^19"
		}
		e := p.fault(t.pos, "check its ranges, or expand it in parts", "up to here it stands for %s names, and the bound is %d", many, limit)
		e.TooMany = true
		return e
	}
	t.names = int(names)
	t.bytes = fixed * t.names
	for _, b := range t.brackets {
		t.bytes += int(names / b.names * b.bytes)
	}
	return nil
}
