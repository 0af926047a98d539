package config

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/cloud"
)

func TestDurationIsReadInGoAndSlurmNotation(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0":           0,
		"90s":         90 * time.Second,
		"500ms":       500 * time.Millisecond,
		"10m":         10 * time.Minute,
		"1h30m":       90 * time.Minute,
		"1.5h":        90 * time.Minute,
		"2d":          48 * time.Hour,
		"1d12h":       36 * time.Hour,
		"02:30":       150 * time.Second,
		"90:00":       90 * time.Minute,
		"01:30:00":    90 * time.Minute,
		"48:00:00":    48 * time.Hour,
		"1-00:00:00":  24 * time.Hour,
		"2-03:04:05":  51*time.Hour + 4*time.Minute + 5*time.Second,
		"3650d":       3650 * 24 * time.Hour,
		"0-00:00:00":  0,
		"100000:59":   100000*time.Minute + 59*time.Second,
		"0d":          0,
		"1µs":         time.Microsecond,
		"00000000010": -1, // no unit, however it is padded
		"600":         -1,
		"":            -1,
		"d":           -1,
		"-1":          -1,
		"-10m":        -1,
		"+10m":        -1,
		"1d-2h":       -1,
		"1d+2h":       -1,
		"10 m":        -1,
		"10min":       -1,
		"1-00":        -1, // Slurm: a day; midair wants it in full
		"1-24:00:00":  -1,
		"1:60":        -1,
		"1:60:00":     -1,
		"1:2:3:4":     -1,
		":30":         -1,
		"1:":          -1,
		"1-:1:1":      -1,
		"3651d":       -1,
		"99999999h":   -1,
		"3650d1s":     -1,
		"INFINITE":    -1,
	} {
		got, err := parseDuration(text)
		if want < 0 {
			require.Error(t, err, text)
			continue
		}
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
}

func TestPriceIsExactInMillionthsOfADollar(t *testing.T) {
	for text, want := range map[string]cloud.MicroUSD{
		"0 USD":                    0,
		"0.4 USD":                  400_000,
		"1.20 USD":                 1_200_000,
		"0.000001 USD":             1,
		"32.7726  USD":             32_772_600,
		"100000 USD":               100_000_000_000,
		"100000.1 USD":             -1,
		"0.0000001 USD":            -1,
		"1. USD":                   -1,
		".5 USD":                   -1,
		"1,20 USD":                 -1,
		"1.2.3 USD":                -1,
		"1.20":                     -1,
		"1.20 ":                    -1,
		"1.20USD":                  -1,
		"USD 1.20":                 -1,
		"1.20 EUR":                 -1,
		"-1 USD":                   -1,
		"+1 USD":                   -1,
		"1e3 USD":                  -1,
		"NaN USD":                  -1,
		"":                         -1,
		"99999999999999999999 USD": -1,
	} {
		got, err := parsePrice(text)
		if want < 0 {
			require.Error(t, err, text)
			continue
		}
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
}

func TestMemoryIsReadInUnitsOf1024(t *testing.T) {
	for text, want := range map[string]int{
		"1M": 1, "7900M": 7900, "1100G": 1126400, "8g": 8192, "2T": 2097152, "1024T": 1 << 30,
		"0G": 0, "1025T": 0, "1100": 0, "G": 0, "": 0, "1.5T": 0, "8GB": 0, "8GiB": 0, "8K": 0, "-1G": 0, "99999999999999999999G": 0,
	} {
		got, err := parseMemory(text)
		if want == 0 {
			require.Error(t, err, text)
			continue
		}
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
}

func TestGresIsReadAsSlurmWritesIt(t *testing.T) {
	got, err := parseGres("gpu:a100:8,gpu:2,nvme:1")
	require.NoError(t, err)
	require.Equal(t, []Gres{{"gpu", "a100", 8}, {"gpu", "", 2}, {"nvme", "", 1}}, got)
	require.Equal(t, 10, NodeSpec{Gres: got}.GPUs())
	got, err = parseGres("")
	require.NoError(t, err)
	require.Empty(t, got)
	for _, text := range []string{"gpu", "gpu:", "gpu:a100", "gpu:0", "gpu:-1", "gpu:a100:8:1", ":8", "gpu::8", "gpu:2,", "gpu:2,gpu:3", "gpu:a b:2", "gpu:9999999"} {
		_, err := parseGres(text)
		require.Error(t, err, text)
	}
}

func TestTheNearestSpellingIsOffered(t *testing.T) {
	allowed := []string{"suspend_time", "suspend_timeout", "name", "nodes", "spot", "on-demand"}
	for text, want := range map[string]string{
		"suspendtime": "suspend_time", "suspend_timeuot": "suspend_timeout", "nodez": "nodes", "node": "nodes",
		"spto": "spot", "Spot": "spot", "ondemand": "on-demand", "xyzzy": "", "": "", strings.Repeat("n", 1000): "",
	} {
		got := didYouMean(text, allowed)
		if want == "" {
			require.Empty(t, got, text)
			continue
		}
		require.Equal(t, ` did you mean "`+want+`"?`, got, text)
	}
}
