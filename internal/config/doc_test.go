package config_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/config"
)

func documentation(t *testing.T) string {
	text, err := os.ReadFile("../../docs/midair.yaml.md")
	require.NoError(t, err)
	return string(text)
}

func example(t *testing.T) string {
	_, rest, ok := strings.Cut(documentation(t), "```yaml\n")
	require.True(t, ok)
	text, _, ok := strings.Cut(rest, "```")
	require.True(t, ok)
	return text
}

func TestExampleInTheDocumentationIsValid(t *testing.T) {
	cfg, err := config.Parse("docs/midair.yaml.md", []byte(example(t)))
	require.NoError(t, err)
	require.Empty(t, cfg.Warnings)
}

// The keys are asked of Parse itself, which lists them for a wrong one.
func TestEveryKeyIsInTheDocumentationAndItsExample(t *testing.T) {
	const wrong = `xyzzy: 1
slurm: {xyzzy: 1}
hooks: {xyzzy: 1}
retry: {xyzzy: 1}
capacity_memory: {xyzzy: 1}
reconcile: {xyzzy: 1}
providers: {here: {kind: local, xyzzy: 1, types: {t: {xyzzy: 1}}}, east: {kind: aws, region: us-east-1, launch_template: t, xyzzy: 1, reservations: [{xyzzy: 1}]}}
pools: [{xyzzy: 1, node: {xyzzy: 1}, offerings: [{xyzzy: 1}]}, {provider: east, aws: {xyzzy: 1}}]
tiers: [{xyzzy: 1}]
`
	_, err := config.Parse("wrong.yaml", []byte(wrong))
	require.Error(t, err)
	lists := regexp.MustCompile(`(?m)xyzzy: unknown key; allowed: (.*)$`).FindAllStringSubmatch(err.Error(), -1)
	require.Len(t, lists, strings.Count(wrong, "xyzzy"))
	_, reference, ok := strings.Cut(documentation(t), "## Keys")
	require.True(t, ok)
	for _, l := range lists {
		for _, key := range strings.Split(l[1], ", ") {
			name := `\b` + regexp.QuoteMeta(key) + `\b`
			require.Regexp(t, name, reference, "the reference does not have %s", key)
			require.Regexp(t, name+":", example(t), "the example does not have %s", key)
		}
	}
}
