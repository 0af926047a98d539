package config

import "strings"

const secretRefused = "credentials do not belong in midair.yaml, which every user of the cluster may read; " +
	"remove it, and name a file that only the controller's user can read with credentials_file, " +
	"or a profile of the AWS command line with profile, or give the controller host an instance role"

// secretKeys are the names by which AWS's own files and tools know credentials,
// without aws_ and without regard to case and underscores.
var secretKeys = []string{"accesskey", "accesskeyid", "secretkey", "secretaccesskey", "secret", "sessiontoken", "securitytoken", "token", "password", "credentials"}

// isSecret reports whether a key would hold credentials. Its value is never
// shown.
func isSecret(key string) bool {
	key = strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(key))
	key = strings.TrimPrefix(key, "aws")
	for _, s := range secretKeys {
		if key == s {
			return true
		}
	}
	return false
}

// hidden is an error about a value that must not be shown, since it is a
// secret in the wrong place.
type hidden string

func (h hidden) Error() string { return string(h) }
