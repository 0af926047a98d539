package slurm

import (
	"slices"

	"github.com/midair-hpc/midair/internal/hostlist"
)

// chunk cuts words into runs that, joined with commas, have at most max bytes
// each. A longer word is a run of its own.
func chunk(words []string, max int) [][]string {
	var runs [][]string
	from, size := 0, 0
	for i, w := range words {
		if i > from && size+1+len(w) > max {
			runs = append(runs, words[from:i:i])
			from, size = i, 0
		}
		if i > from {
			size++
		}
		size += len(w)
	}
	if from < len(words) {
		runs = append(runs, words[from:])
	}
	return runs
}

// foldChunks sorts names and cuts them into runs whose hostlists have at most
// max bytes each.
func foldChunks(names []string, max int) ([][]string, error) {
	sorted, err := slurmOrder(names)
	if err != nil {
		return nil, err
	}
	if len(sorted) > 1 && len(hostlist.FoldSorted(sorted)) > max {
		half := len(sorted) / 2
		left, err := foldChunks(sorted[:half], max)
		if err != nil {
			return nil, err
		}
		right, err := foldChunks(sorted[half:], max)
		if err != nil {
			return nil, err
		}
		return append(left, right...), nil
	}
	if len(sorted) == 0 {
		return nil, nil
	}
	return [][]string{sorted}, nil
}

// slurmOrder sorts names as Slurm does (n9 before n10) and drops duplicates.
func slurmOrder(names []string) ([]string, error) {
	return hostlist.Expand(hostlist.FoldSorted(slices.Clone(names)))
}
