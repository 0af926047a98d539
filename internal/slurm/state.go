package slurm

// StateSet is a set of node states and flags, matched by subset because
// Slurm's versions add and drop flags.
type StateSet map[string]bool
