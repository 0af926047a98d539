package slurm

import (
	"fmt"
	"regexp"
	"strconv"
)

// versionText finds the version in what `scontrol -V` prints: "slurm 26.05.5",
// "slurm-wlm 22.05.8" (Debian), "slurm 24.11.0-0rc2".
var versionText = regexp.MustCompile(`(?:^|[\s-])(\d{2})\.(\d{2})(?:\.(\d{1,3}))?`)

// ParseVersion reads what `scontrol -V` prints.
func ParseVersion(text string) (Version, error) {
	m := versionText.FindStringSubmatch(text)
	if m == nil {
		return Version{}, fmt.Errorf("read Slurm's version: %q has none such as 22.05.8", shorten(text, 80))
	}
	var v Version
	for i, p := range []*int{&v.Major, &v.Minor, &v.Micro} {
		// Only digits, at most three, or nothing: cannot fail but for the
		// missing micro, which is 0.
		*p, _ = strconv.Atoi(m[i+1])
	}
	return v, nil
}

// String gives the version as Slurm writes it, such as 22.05.8.
func (v Version) String() string { return fmt.Sprintf("%d.%02d.%d", v.Major, v.Minor, v.Micro) }

// AtLeast reports whether v is release major.minor or a later one. Slurm's
// releases are year and month: AtLeast(23, 2).
func (v Version) AtLeast(major, minor int) bool {
	return v.Major > major || v.Major == major && v.Minor >= minor
}
