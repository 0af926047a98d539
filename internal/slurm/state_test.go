package slurm

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseStatesReadsMarksAndWords(t *testing.T) {
	for text, want := range map[string]string{
		"IDLE+CLOUD+POWERED_DOWN": "IDLE+CLOUD+POWERED_DOWN",
		"IDLE*":                   "IDLE+NOT_RESPONDING",
		"IDLE*+CLOUD":             "IDLE+CLOUD+NOT_RESPONDING",
		"down~":                   "DOWN+POWERED_DOWN",
		"idle#":                   "IDLE+POWERING_UP",
		"IDLE!":                   "IDLE+POWER_DOWN",
		"mixed%":                  "MIXED+POWERING_DOWN",
		"DRAINING@":               "DRAINING+REBOOT_REQUESTED",
		"ALLOCATED+":              "ALLOCATED+COMPLETING",
		"MIXED-":                  "MIXED+PLANNED",
		"":                        "",
		"NEW_FLAG+DOWN":           "DOWN+NEW_FLAG",
	} {
		require.Equal(t, want, ParseStates(text).String(), text)
	}
}

// The combinations are those of a cloud node's life in 22.05 to 26.05, with
// the flags that versions add and drop (NOT_RESPONDING above all).
func TestMeaningOfStates(t *testing.T) {
	type meaning struct{ up, off, offing, registered, down, drained, allocated bool }
	for text, want := range map[string]meaning{
		"IDLE+CLOUD+POWERED_DOWN":                       {off: true},
		"IDLE+CLOUD+POWERED_DOWN+NOT_RESPONDING":        {off: true},
		"IDLE+CLOUD+POWERED_DOWN+POWER_UP":              {up: true, off: true},
		"ALLOCATED+CLOUD+POWERED_DOWN+POWER_UP":         {up: true, off: true, allocated: true},
		"ALLOCATED+CLOUD+NOT_RESPONDING+POWERING_UP":    {up: true, allocated: true},
		"MIXED+CLOUD+POWERING_UP":                       {up: true, allocated: true},
		"IDLE+CLOUD+POWERING_UP":                        {up: true},
		"IDLE+CLOUD+NOT_RESPONDING+POWERING_UP+PLANNED": {up: true},
		"ALLOCATED+CLOUD":                               {registered: true, allocated: true},
		"MIXED+CLOUD+BLOCKED":                           {registered: true, allocated: true},
		"IDLE+CLOUD":                                    {registered: true},
		"IDLE+CLOUD+COMPLETING":                         {registered: true, allocated: true},
		"IDLE+CLOUD+DYNAMIC_NORM+RESERVED":              {registered: true},
		"ALLOCATED+CLOUD+NOT_RESPONDING":                {allocated: true},
		"IDLE+CLOUD+NO_RESPOND":                         {},
		"MIXED+CLOUD+DRAIN":                             {registered: true, drained: true, allocated: true},
		"IDLE+CLOUD+DRAIN+POWERED_DOWN":                 {off: true, drained: true},
		"IDLE+CLOUD+POWER_DOWN":                         {offing: true},
		"ALLOCATED+CLOUD+POWER_DOWN":                    {offing: true, allocated: true},
		"IDLE+CLOUD+POWERING_DOWN":                      {offing: true},
		"IDLE+CLOUD+NOT_RESPONDING+POWERING_DOWN":       {offing: true},
		"IDLE+CLOUD+DRAIN+POWER_DOWN+POWERING_DOWN":     {offing: true, drained: true},
		"DOWN+CLOUD+POWERED_DOWN+NOT_RESPONDING":        {off: true, down: true}, // ResumeTimeout, 22.05
		"DOWN+CLOUD+POWERED_DOWN":                       {off: true, down: true}, // ResumeTimeout, 23.02.5 on
		"DOWN+CLOUD+POWERING_DOWN":                      {offing: true, down: true},
		"DOWN+CLOUD+POWERING_UP":                        {up: true, down: true},
		"DOWN+CLOUD+REBOOT_ISSUED":                      {down: true},
		"DOWN*":                                         {down: true},
		"UNKNOWN+NOT_RESPONDING":                        {},
		"UNKNOWN":                                       {},
		"FUTURE+CLOUD":                                  {},
		"IDLE+EXTERNAL":                                 {registered: true},
		"":                                              {},
	} {
		s := ParseStates(text)
		require.Equal(t, want, meaning{s.PoweringUp(), s.PoweredDown(), s.PoweringDown(), s.Registered(), s.Down(), s.Drained(), s.Allocated()}, text)
	}
}

func TestNothingIsKnownOfTheNilState(t *testing.T) {
	var s StateSet
	require.False(t, s.Registered())
	require.False(t, s.Down() || s.PoweredDown() || s.PoweringDown() || s.PoweringUp() || s.Drained() || s.Allocated())
	require.Empty(t, s.String())
	require.True(t, s.Has())
	require.False(t, s.Has("IDLE"))
	require.True(t, ParseStates("IDLE+CLOUD").Has("CLOUD", "IDLE"))
	require.False(t, ParseStates("IDLE+CLOUD").Has("CLOUD", "DOWN"))
}

func TestNodesInReservations(t *testing.T) {
	for text, want := range map[string][2]bool{ // maintained, reserved
		"IDLE+CLOUD+MAINTENANCE": {true, false}, "idle$": {true, false}, "MAINT": {true, false}, "DOWN$+DRAIN": {true, false},
		"IDLE+CLOUD+RESERVED": {false, true}, "IDLE+RES": {false, true}, "RESERVED+MAINTENANCE": {true, true}, "IDLE+CLOUD": {},
	} {
		s := ParseStates(text)
		require.Equal(t, want, [2]bool{s.Maintained(), s.Reserved()}, text)
	}
}
