package slurm

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseVersion(t *testing.T) {
	for text, want := range map[string]Version{
		"slurm-wlm 22.05.8\n":  {22, 5, 8},
		"slurm 26.05.5":        {26, 5, 5},
		"slurm 24.11.0-0rc2":   {24, 11, 0},
		"slurm 23.02":          {23, 2, 0},
		"slurm-wlm 24.11.5-1 ": {24, 11, 5},
	} {
		got, err := ParseVersion(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "slurm", "scontrol: error", "2026-12-01"} {
		_, err := ParseVersion(text)
		require.Error(t, err, text)
	}
}

func TestVersion(t *testing.T) {
	v := Version{22, 5, 8}
	require.Equal(t, "22.05.8", v.String())
	require.True(t, v.AtLeast(22, 5))
	require.True(t, v.AtLeast(21, 8))
	require.False(t, v.AtLeast(22, 11))
	require.False(t, v.AtLeast(23, 2))
}
