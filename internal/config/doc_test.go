package config_test

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/config"
)

func TestExampleInTheDocumentationIsValid(t *testing.T) {
	text, err := os.ReadFile("../../docs/midair.yaml.md")
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(text), "```yaml\n")
	require.True(t, ok)
	example, _, ok := strings.Cut(rest, "```")
	require.True(t, ok)
	cfg, err := config.Parse("docs/midair.yaml.md", []byte(example))
	require.NoError(t, err)
	require.Empty(t, cfg.Warnings)
}
