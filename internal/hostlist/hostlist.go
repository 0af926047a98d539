// Package hostlist reads and writes Slurm's hostlist expressions, such as
// gpu[001-064],rack[1-2]n[01-04],login1.
//
// An expression is a list of terms. Commas, blanks, tabs and line ends part
// them, any number in a row; a term is a name, or a text with brackets that
// hold numbers and ranges: n[1-3,07] is n1, n2, n3 and n07. The width of a
// range's first number is the least width of all of its numbers, so n[08-11]
// is n08 to n11, n[8-11] is n8 to n11, and n[8-011] is the same as n[8-11].
//
// The names come in the order, and as often, as `scontrol show hostnames`
// prints them. Fold gives the text of `scontrol show hostlist`. Both were
// compared with Slurm 22.05.8's programs, and its hostlist.c was compared with
// 26.05's; where midair departs from them, it is on purpose:
//
//   - Line ends, carriage returns, vertical tabs and form feeds part terms, so
//     that a file of names can be read. Slurm parts at commas, blanks and tabs
//     only, and takes these into the name: "a1\na2" is one node. Other control
//     characters, which Slurm takes too, are errors.
//   - Text after a bracket (n[1-2]-ib) is understood. Slurm does since 23.11;
//     22.05 calls it invalid. Fold never writes it, so that every version can
//     read what midair wrote.
//   - What Slurm guesses at is an error here. 22.05 reads "n[1-2" as a node
//     called "n]", "n[1-]" as n1, "n[1, 3]" as n1 and n03, and of three
//     brackets in one term it drops those with a fault, all without a word.
//   - A name whose number does not fit 64 bits keeps its number; Slurm turns
//     it into 18446744073709551615.
//   - Sizes are bounded: see [DefaultMax], [MaxRange] and [MaxName].
package hostlist

const (
	// DefaultMax is how many names Expand gives at most. Slurm has no such
	// bound: n[0-65535]x[0-65535] makes it allocate until it is killed. The
	// number is sixteen of Slurm's largest ranges, more nodes than any cluster
	// has, and at most 256 MiB of text.
	DefaultMax = 16 * MaxRange

	// HighestMax is the largest bound that ExpandMax keeps to, whatever it is
	// given: at most 1 GiB of text, so that no bound leads to an allocation
	// that the Go runtime answers with a panic.
	HighestMax = 4 * DefaultMax

	// MaxRange is how many names one range can have (MAX_RANGE of Slurm's
	// hostlist.c, from 22.05 to 26.05).
	MaxRange = 64 * 1024

	// MaxName is how many bytes one name can have: as many as a name in DNS,
	// above the 64 of a Linux host name. Without a bound, a long text before
	// a bracket would multiply.
	MaxName = 253
)

func separator(c byte) bool {
	switch c {
	case ',', ' ', '\t', '\n', '\r', '\v', '\f':
		return true
	}
	return false
}

func digit(c byte) bool { return '0' <= c && c <= '9' }

// digits gives how many digits n has.
func digits(n uint64) int {
	d := 1
	for ; n >= 10; n /= 10 {
		d++
	}
	return d
}
