package config

import (
	"fmt"
	"sort"
	"strconv"
	"strings"
)

// Problem is one thing that is wrong with a configuration file.
type Problem struct {
	Path         string // the file
	Line, Column int    // from 1; 0: not known
	Key          string // such as pools[0].nodes; empty: the file as a whole
	Message      string // what is wrong and what to do
}

// String gives "FILE:LINE:COLUMN: KEY: MESSAGE" on one line.
func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.Path)
	for _, n := range []int{p.Line, p.Column} {
		if n == 0 {
			break
		}
		b.WriteString(":" + strconv.Itoa(n))
	}
	b.WriteString(": ")
	if p.Key != "" {
		b.WriteString(p.Key + ": ")
	}
	b.WriteString(p.Message)
	return b.String()
}

// Problems is the error of Load and Parse: everything that is wrong with the
// file, in the order of the file.
type Problems []Problem

// Error gives one line per problem.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

func (ps Problems) inFileOrder() {
	sort.SliceStable(ps, func(i, j int) bool {
		if ps[i].Line != ps[j].Line {
			return ps[i].Line < ps[j].Line
		}
		return ps[i].Column < ps[j].Column
	})
}

// fault is an error about one value, without its place, which the reader of
// the document knows.
func fault(format string, args ...any) error { return fmt.Errorf(format, args...) }
