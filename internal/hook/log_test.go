package hook

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/config"
)

// The hooks find hook_log by a scan; package config reads the file. They must
// mean the same.
func TestHooksLogWhereMidairYAMLSays(t *testing.T) {
	for name, line := range map[string]string{
		"plain":                  "hook_log: /srv/hook.log",
		"double quotes":          `hook_log: "/srv/hook.log"`,
		"single quotes":          "hook_log: '/srv/hook.log'",
		"comment":                "hook_log: /srv/hook.log # here",
		"comment after quotes":   `hook_log: "/srv/hook.log" # here`,
		"hash that is none":      "hook_log: /srv/hook#1.log",
		"space in it":            "hook_log: /srv/my hook.log",
		"space in it, comment":   "hook_log: /srv/my hook.log # here",
		"spaces around":          "hook_log:   /srv/hook.log  ",
		"carriage return":        "hook_log: /srv/hook.log\r",
		"not given":              "ledger: sqlite:///srv/ledger.db",
		"commented out":          "# hook_log: /srv/hook.log",
		"quoted hash":            `hook_log: "/srv/a #b"`,
		"tab before the comment": "hook_log: /srv/hook.log\t# here",
	} {
		t.Run(name, func(t *testing.T) {
			text := "cluster: c\n" + line + "\n"
			c, err := config.Parse("midair.yaml", []byte(text))
			require.NoError(t, err)
			require.Equal(t, c.HookLog, findLogPath(text))
		})
	}
	require.Equal(t, config.DefaultPath, configPath)
	require.Equal(t, config.EnvPath, configEnv)
}

func TestHooksLogInTheDefaultPlaceWhereTheScanCannotTell(t *testing.T) {
	for _, line := range []string{
		"", "hook_log:", "hook_log: relative", "hook_log: *alias", `hook_log: "/srv/\x41"`, `hook_log: "/srv/a`, "hook_log: |\n  /srv/a",
		"hooks:\n  hook_log: /srv/a", "hook_log: [/srv/a]", `hook_log: "/a" b`,
	} {
		require.Equal(t, defaultLog, findLogPath(line), line)
	}
}

func TestBrokenMidairYAMLStillNamesTheLog(t *testing.T) {
	require.Equal(t, "/srv/hook.log", findLogPath("cluster: [\nhook_log: /srv/hook.log\n\tpools: }"))
}

func FuzzFindLogPath(f *testing.F) {
	f.Add("hook_log: /a # b\n")
	f.Add(`hook_log: "/a"`)
	f.Fuzz(func(t *testing.T, text string) {
		require.True(t, strings.HasPrefix(findLogPath(text), "/"))
	})
}

// What the power hooks log reads as what midair-slurmctld-hook logs.
func FuzzLogLineIsAsSlogWritesIt(f *testing.F) {
	f.Add("the request is lost", "gpu-[1-4]")
	f.Add("", `a"b\c`)
	f.Add("a=b", "tab\tand\nline")
	f.Add("café", "\u2028\u00a0")
	f.Add("\xff", "\ufffd")
	f.Fuzz(func(t *testing.T, message, value string) {
		if strings.Contains(message+value, "\x7f") {
			return // which slog writes as it is
		}
		at := time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.FixedZone("", 3600))
		var want bytes.Buffer
		r := slog.NewRecord(at, slog.LevelError, message, 0)
		r.AddAttrs(slog.String("hook", "resume"), slog.String("nodes", value))
		require.NoError(t, slog.NewTextHandler(&want, nil).Handle(t.Context(), r))
		require.Equal(t, want.String(), string(logLine(at, levelError, message, "hook", "resume", "nodes", value)))
	})
}

func TestSyslogGetsTheLineWithItsPriorityAndProgram(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "log")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	require.NoError(t, err)
	defer l.Close()
	s, err := openSyslog(socket, "midair-resume")
	require.NoError(t, err)
	_, err = s.Write([]byte("level=ERROR msg=x\n"))
	require.NoError(t, err)
	buf := make([]byte, 1024)
	n, err := l.Read(buf)
	require.NoError(t, err)
	require.Equal(t, fmt.Sprintf("<29>midair-resume[%d]: level=ERROR msg=x\n", os.Getpid()), string(buf[:n]))
}

func TestSyslogThatIsMissingOrReadsNoMoreDoesNotHoldAHookUp(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "log")
	_, err := openSyslog(socket, "x")
	require.Error(t, err)
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	require.NoError(t, err)
	defer l.Close()
	s, err := openSyslog(socket, "x")
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() {
		for {
			if _, err := s.Write(bytes.Repeat([]byte("x"), 4096)); err != nil {
				done <- err
				return
			}
		}
	}()
	select {
	case err := <-done:
		require.Error(t, err)
	case <-time.After(30 * time.Second):
		t.Fatal("it blocks")
	}
}
