package config

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/midair-hpc/midair/internal/cloud"
)

const (
	day         = 24 * time.Hour
	maxDuration = 3650 * day
	// maxPrice of an instance-hour is far above what any cloud asks, and keeps
	// sums over years and thousands of nodes within 63 bits.
	maxPrice     = 100_000 * 1_000_000
	maxMemoryMiB = 1 << 30 // 1 PiB
	maxGresCount = 1 << 20
)

var errDuration = errors.New("want a duration such as 90s, 10m, 1h30m or 2d, or D-HH:MM:SS, HH:MM:SS or MM:SS as in Slurm")

// parseDuration reads Go's notation with d for days, and the forms of Slurm
// that have a colon. A bare number is refused because Slurm reads it as seconds
// in some places and as minutes in others.
func parseDuration(text string) (time.Duration, error) {
	if text == "0" {
		return 0, nil
	}
	if text == "" || text[0] == '+' || text[0] == '-' {
		return 0, errDuration
	}
	if digits(text) {
		return 0, fault("%s has no unit; write %ss or %sm", text, text, text)
	}
	var d time.Duration
	var err error
	if strings.Contains(text, ":") {
		d, err = parseSlurmTime(text)
	} else {
		d, err = parseUnits(text)
	}
	if err != nil {
		return 0, err
	}
	if d > maxDuration {
		return 0, fault("%s is longer than the 3650 days that midair allows", text)
	}
	return d, nil
}

func parseUnits(text string) (time.Duration, error) {
	days, rest, found := strings.Cut(text, "d")
	if !found {
		days, rest = "0", text
	}
	n, ok := smallNumber(days, 3650)
	if !ok {
		return 0, errDuration
	}
	d := time.Duration(n) * day
	if rest == "" {
		return d, nil
	}
	more, err := time.ParseDuration(rest)
	if err != nil || more < 0 || more > maxDuration || rest[0] == '+' {
		return 0, errDuration
	}
	return d + more, nil
}

func parseSlurmTime(text string) (time.Duration, error) {
	days, clock, hasDays := strings.Cut(text, "-")
	if !hasDays {
		days, clock = "0", text
	}
	parts := strings.Split(clock, ":")
	if len(parts) > 3 || len(parts) < 2 || hasDays && len(parts) != 3 {
		return 0, errDuration
	}
	// The first part may be any number, such as 90:00 for 90 minutes.
	limits := []int{100_000, 59, 59}
	if hasDays {
		limits[0] = 23
	}
	n, ok := smallNumber(days, 3650)
	if !ok {
		return 0, errDuration
	}
	d := time.Duration(n) * day
	unit := time.Hour
	if len(parts) == 2 {
		unit = time.Minute
	}
	for i, p := range parts {
		n, ok := smallNumber(p, limits[i])
		if !ok {
			return 0, errDuration
		}
		d += time.Duration(n) * unit
		unit /= 60
	}
	return d, nil
}

// parsePrice reads a price such as "1.20 USD".
func parsePrice(text string) (cloud.MicroUSD, error) {
	amount, currency, found := strings.Cut(text, " ")
	currency = strings.TrimSpace(currency)
	switch {
	case strings.HasPrefix(amount, "-"):
		return 0, fault("a price cannot be negative")
	case !found || currency == "":
		return 0, fault("want an amount with its currency, such as %q", "1.20 USD")
	case currency != "USD":
		return 0, fault("prices are in USD only, not in %s; convert it", currency)
	}
	whole, fraction, hasPoint := strings.Cut(amount, ".")
	if !digits(whole) || hasPoint && (!digits(fraction) || len(fraction) > 6) {
		return 0, fault("want an amount with at most 6 decimals, such as %q", "1.20 USD")
	}
	n, err := strconv.ParseInt(whole+(fraction + "000000")[:6], 10, 64)
	if err != nil || n > maxPrice {
		return 0, fault("more than 100000 USD an hour; check the amount")
	}
	return cloud.MicroUSD(n), nil
}

// parseMemory reads a size as Slurm does, in units of 1024, and gives MiB.
func parseMemory(text string) (int, error) {
	if digits(text) {
		return 0, fault("%s has no unit; write %sM or %sG", text, text, text)
	}
	if text == "" {
		return 0, fault("want a size such as 512M, 1100G or 2T")
	}
	factor := 0
	switch text[len(text)-1] {
	case 'M', 'm':
		factor = 1
	case 'G', 'g':
		factor = 1 << 10
	case 'T', 't':
		factor = 1 << 20
	}
	n, ok := smallNumber(text[:len(text)-1], math.MaxInt32)
	if factor == 0 || !ok {
		return 0, fault("want a whole number with M, G or T, as in Slurm, such as 512M, 1100G or 2T")
	}
	if n == 0 || n > maxMemoryMiB/factor {
		return 0, fault("want a size between 1M and 1024T")
	}
	return n * factor, nil
}

// parseGres reads a node's Gres as Slurm writes it, such as "gpu:a100:8" or
// "gpu:2,nvme:1".
func parseGres(text string) ([]Gres, error) {
	if text == "" {
		return nil, nil
	}
	var list []Gres
	seen := map[[2]string]bool{}
	for _, entry := range strings.Split(text, ",") {
		parts := strings.Split(entry, ":")
		g := Gres{Name: parts[0]}
		switch len(parts) {
		case 2:
		case 3:
			g.Type = parts[1]
			if !word(g.Type) {
				return nil, fault("%q: the type %q may have letters, digits, _ . and - only", entry, g.Type)
			}
		default:
			return nil, fault("%q: want name:count or name:type:count, such as gpu:2 or gpu:a100:8", entry)
		}
		if !word(g.Name) {
			return nil, fault("%q: the name %q may have letters, digits, _ . and - only", entry, g.Name)
		}
		n, ok := smallNumber(parts[len(parts)-1], maxGresCount)
		if !ok || n == 0 {
			return nil, fault("%q: want a count of at least 1 at the end, such as gpu:2 or gpu:a100:8", entry)
		}
		g.Count = n
		id := [2]string{g.Name, g.Type}
		if seen[id] {
			return nil, fault("%q: the same Gres is listed twice; write one entry with the sum", entry)
		}
		seen[id] = true
		list = append(list, g)
	}
	return list, nil
}

// parseLedger reads the ledger's address and gives the file's path.
func parseLedger(text string) (string, error) {
	path, isSQLite := strings.CutPrefix(text, "sqlite://")
	if !isSQLite {
		return "", fault("want sqlite:///PATH, such as %s; this version of midair keeps its ledger in SQLite only", defaultLedger)
	}
	if err := absolute(path); err != nil || strings.ContainsAny(path, "?#") {
		return "", fault("want an absolute path after sqlite://, so three slashes, such as %s", defaultLedger)
	}
	return path, nil
}

func digits(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// smallNumber reads a number of digits only, up to limit.
func smallNumber(s string, limit int) (int, bool) {
	if !digits(s) {
		return 0, false
	}
	n, err := strconv.Atoi(s)
	return n, err == nil && n <= limit
}

// word reports whether s can stand in slurm.conf as a name: letters, digits,
// _ . and -, not starting with a dash.
func word(s string) bool {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '.':
		case c == '-' && i > 0:
		default:
			return false
		}
	}
	return s != "" && len(s) <= 63
}
