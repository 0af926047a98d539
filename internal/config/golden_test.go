package config_test

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/config"
)

var update = flag.Bool("update", false, "write the .want files anew")

// Each testdata/NAME.yaml has a NAME.want with what `midair config check`
// would say: errors, or warnings, or nothing.
func TestWhatIsWrongIsNamedWithItsPlaceAndWhatToDo(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, f := range files {
		t.Run(filepath.Base(f), func(t *testing.T) {
			data, err := os.ReadFile(f)
			require.NoError(t, err)
			var got string
			c, err := config.Parse(filepath.Base(f), data)
			if err != nil {
				require.Nil(t, c)
				var problems config.Problems
				require.True(t, errors.As(err, &problems), "%T", err)
				got = err.Error() + "\n"
			} else if len(c.Warnings) > 0 {
				got = strings.Join(c.Warnings, "\n") + "\n"
			}
			want := strings.TrimSuffix(f, ".yaml") + ".want"
			if *update {
				require.NoError(t, os.WriteFile(want, []byte(got), 0o644))
			}
			text, err := os.ReadFile(want)
			require.NoError(t, err)
			require.Equal(t, string(text), got)
		})
	}
}
