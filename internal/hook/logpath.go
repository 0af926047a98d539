package hook

import (
	"io"
	"os"
	"strings"
)

// Where midair.yaml is (config.DefaultPath and config.EnvPath), and where hooks
// log when it does not say or cannot be read.
const (
	configPath = "/etc/midair/midair.yaml"
	configEnv  = "MIDAIR_CONFIG"
	defaultLog = "/var/log/midair/hook.log"
)

// maxConfig bounds what is read of midair.yaml, in bytes.
const maxConfig = 1 << 20

// logPath is the hooks' log file: hook_log of midair.yaml, or the default.
func logPath() string {
	path := os.Getenv(configEnv)
	if path == "" {
		path = configPath
	}
	f, err := os.Open(path)
	if err != nil {
		return defaultLog
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxConfig))
	if err != nil {
		return defaultLog
	}
	return findLogPath(string(text))
}

// findLogPath finds hook_log in midair.yaml's text without reading the rest.
// Package config would need YAML and regular expressions, whose set-up costs
// the hooks more than their work does; and a line for the log is most needed
// when midair.yaml is broken elsewhere. It knows the block style's plain and
// quoted values, which is how package config's own examples are written; what
// is not an absolute path then, such as an alias, gives the default.
func findLogPath(text string) string {
	for line := range strings.Lines(text) {
		value, ok := strings.CutPrefix(line, "hook_log:")
		if !ok {
			continue
		}
		value = strings.TrimSpace(value)
		if value != "" && (value[0] == '"' || value[0] == '\'') {
			inner, rest, closed := strings.Cut(value[1:], value[:1])
			rest = strings.TrimSpace(rest)
			if !closed || rest != "" && rest[0] != '#' || value[0] == '"' && strings.Contains(inner, `\`) {
				return defaultLog
			}
			value = inner
		} else if i := strings.IndexFunc(value, func(r rune) bool { return r == ' ' || r == '\t' }); i >= 0 {
			rest := strings.TrimSpace(value[i:])
			if rest[0] != '#' {
				// A path with a space in it; a comment may follow that.
				head, _, _ := strings.Cut(value, " #")
				value = strings.TrimSpace(head)
			} else {
				value = value[:i]
			}
		}
		if !strings.HasPrefix(value, "/") {
			return defaultLog
		}
		return value
	}
	return defaultLog
}
