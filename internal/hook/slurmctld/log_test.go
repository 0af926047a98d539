package slurmctld

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestProgramsOutputIsLoggedLineByLine(t *testing.T) {
	long := strings.Repeat("x", maxLogLine)
	for name, c := range map[string]struct{ writes, want []string }{
		"lines":            {[]string{"a\nb\n"}, []string{"a", "b"}},
		"in pieces":        {[]string{"a", "b", "\nc\n"}, []string{"ab", "c"}},
		"no end":           {[]string{"a\nlast words"}, []string{"a", "last words"}},
		"empty lines":      {[]string{"\n\n"}, []string{"", ""}},
		"nothing":          {nil, nil},
		"a line too long":  {[]string{long + "y\n"}, []string{long, "y"}},
		"just long enough": {[]string{long[1:] + "\n"}, []string{long[1:]}},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			l := &lines{log: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: onlyMessage})), program: "p"}
			for _, w := range c.writes {
				n, err := l.Write([]byte(w))
				require.NoError(t, err)
				require.Equal(t, len(w), n)
			}
			l.flush()
			l.flush()
			var want strings.Builder
			for _, line := range c.want {
				if line == "" || strings.Contains(line, " ") {
					line = fmt.Sprintf("%q", line)
				}
				fmt.Fprintf(&want, "msg=%s\n", line)
			}
			require.Equal(t, want.String(), out.String())
		})
	}
}

func onlyMessage(_ []string, a slog.Attr) slog.Attr {
	if a.Key != slog.MessageKey {
		return slog.Attr{}
	}
	return a
}
