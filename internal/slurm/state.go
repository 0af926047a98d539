package slurm

import (
	"slices"
	"strings"
)

// StateSet is a set of node states and flags, matched by subset because
// Slurm's versions add and drop flags. The nil set is a node of which nothing
// is known; every question about it is answered no.
type StateSet map[string]bool

// marks are the one-letter suffixes of sinfo (node_state_string in Slurm's
// source). Older scontrols put them behind the base state: IDLE*+CLOUD.
var marks = map[byte]string{
	'*': "NOT_RESPONDING",
	'~': "POWERED_DOWN",
	'#': "POWERING_UP",
	'!': "POWER_DOWN",
	'%': "POWERING_DOWN",
	'$': "MAINTENANCE",
	'@': "REBOOT_REQUESTED",
	'^': "REBOOT_ISSUED",
	'-': "PLANNED",
	'+': "COMPLETING",
}

// bases are Slurm's base states, of which a node has one.
var bases = []string{"ALLOCATED", "MIXED", "IDLE", "DOWN", "ERROR", "FUTURE", "UNKNOWN"}

// ParseStates reads a state as scontrol and sinfo write it:
// IDLE+CLOUD+POWERED_DOWN, IDLE*, down~.
func ParseStates(text string) StateSet {
	s := StateSet{}
	for word := range strings.SplitSeq(text, "+") {
		word = strings.TrimSpace(word)
		for word != "" {
			flag, ok := marks[word[len(word)-1]]
			if !ok {
				break
			}
			s[flag] = true
			word = word[:len(word)-1]
		}
		if word != "" {
			s[strings.ToUpper(word)] = true
		}
	}
	// sinfo writes a node that completes on an allocated one as "ALLOCATED+",
	// which the split has taken the plus from.
	if strings.HasSuffix(strings.TrimSpace(text), "+") {
		s["COMPLETING"] = true
	}
	return s
}

// Has reports whether all the flags are in s.
func (s StateSet) Has(flags ...string) bool {
	for _, f := range flags {
		if !s[f] {
			return false
		}
	}
	return true
}

func (s StateSet) any(flags ...string) bool {
	return slices.ContainsFunc(flags, func(f string) bool { return s[f] })
}

// PoweringUp reports whether Slurm has asked, or is about to ask, for the node
// to be powered up and it has not registered yet.
func (s StateSet) PoweringUp() bool { return s.any("POWERING_UP", "POWER_UP") }

// PoweredDown reports whether Slurm takes the node for powered down.
func (s StateSet) PoweredDown() bool { return s.any("POWERED_DOWN") }

// PoweringDown reports whether the node is being powered down, or will be as
// soon as it is idle.
func (s StateSet) PoweringDown() bool { return s.any("POWERING_DOWN", "POWER_DOWN") }

// Registered reports whether the node's slurmd has registered since the node
// was last powered up and answers: the node can run a job now, unless somebody
// has drained it.
func (s StateSet) Registered() bool {
	return len(s) > 0 && !s.PoweringUp() && !s.PoweredDown() && !s.PoweringDown() &&
		!s.any("NOT_RESPONDING", "NO_RESPOND", "UNKNOWN", "DOWN", "FUTURE")
}

// Down reports whether the node is down, for whatever reason.
func (s StateSet) Down() bool { return s.any("DOWN") }

// Drained reports whether somebody keeps new jobs off the node, whether or not
// jobs still run on it.
func (s StateSet) Drained() bool { return s.any("DRAIN", "DRAINED", "DRAINING") }

// Maintained reports whether the node is in a maintenance reservation that has
// begun.
func (s StateSet) Maintained() bool { return s.any("MAINTENANCE", "MAINT") }

// Reserved reports whether the node is in another reservation that has begun.
func (s StateSet) Reserved() bool { return s.any("RESERVED", "RES") }

// Allocated reports whether the node has jobs: running, configuring or
// completing.
func (s StateSet) Allocated() bool { return s.any("ALLOCATED", "MIXED", "COMPLETING") }

// String gives the states as scontrol writes them: the base state, then the
// flags in alphabetical order.
func (s StateSet) String() string {
	var words, flags []string
	for _, b := range bases {
		if s[b] {
			words = append(words, b)
		}
	}
	for f, in := range s {
		if in && !slices.Contains(bases, f) {
			flags = append(flags, f)
		}
	}
	slices.Sort(flags)
	return strings.Join(append(words, flags...), "+")
}
