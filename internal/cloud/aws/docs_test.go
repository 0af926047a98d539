package aws

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/cloud"
)

var update = flag.Bool("update", false, "write docs/aws-codes.md anew")

// codesDoc is the page of all codes, for admins who look one up.
func codesDoc() string {
	var b strings.Builder
	b.WriteString(`# What AWS's codes mean to midair

Every code that EC2, Service Quotas, the price list and STS answer with, by the
class of failure that midair makes of it (failures.md says what each class does
to a job). A code that is not here has the class of its longest known beginning
or of its family, or is "unknown": then the controller's log has a line that
asks to report it. WHAT stands for the offering or the call.

| class | code | what users read | what an admin does |
|---|---|---|---|
`)
	for _, class := range cloud.Classes {
		for _, code := range slices.Sorted(maps.Keys(codes)) {
			m := codes[code]
			if m.class != class {
				continue
			}
			says := strings.NewReplacer("{what}", "WHAT", "{where}", "the region", "{action}", "(named here)").Replace(m.says)
			do := m.do
			if do == "" {
				do = "–"
			}
			fmt.Fprintf(&b, "| `%s` | `%s` | %s | %s |\n", class, code, says, do)
		}
	}
	return b.String()
}

func TestCodesAreDocumented(t *testing.T) {
	const path = "../../../docs/aws-codes.md"
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(codesDoc()), 0o644))
	}
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, codesDoc(), string(text), "go test ./internal/cloud/aws -run Documented -update writes the page anew")
}
