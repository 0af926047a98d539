package hook

import (
	"strconv"
	"time"
	"unicode/utf8"
)

// The levels of log lines, as log/slog spells them.
const (
	levelWarn  = "WARN"
	levelError = "ERROR"
)

// logLine gives a line as log/slog's TextHandler writes it, which reads alike
// for all hooks. The power hooks do without log/slog itself: they seldom have
// anything to say, and it would take part in every start. Attributes are key
// and value in turn; keys need no quotes.
func logLine(at time.Time, level, message string, attributes ...string) []byte {
	line := at.AppendFormat([]byte("time="), "2006-01-02T15:04:05.000Z07:00")
	line = append(append(line, " level="...), level...)
	line = appendValue(append(line, " msg="...), message)
	for i := 0; i+1 < len(attributes); i += 2 {
		line = append(append(line, ' '), attributes[i]...)
		line = appendValue(append(line, '='), attributes[i+1])
	}
	return append(line, '\n')
}

func appendValue(line []byte, value string) []byte {
	if needsQuotes(value) {
		return strconv.AppendQuote(line, value)
	}
	return append(line, value...)
}

func needsQuotes(value string) bool {
	for _, r := range value {
		if r == ' ' || r == '"' || r == '=' || r == utf8.RuneError || !strconv.IsPrint(r) {
			return true
		}
	}
	return value == ""
}
