package contrib_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/config"
	"github.com/midair-hpc/midair/internal/slurmconf"
)

// interpreters gives every Lua there is; Debian's slurmctld has 5.1 inside,
// other distributions 5.3 or 5.4.
func interpreters(t *testing.T) []string {
	t.Helper()
	var found []string
	for _, name := range []string{"lua5.1", "lua5.2", "lua5.3", "lua5.4", "lua"} {
		if path, err := exec.LookPath(name); err == nil {
			found = append(found, path)
		}
	}
	if len(found) == 0 {
		t.Skip("needs a Lua interpreter: apt-get install lua5.1")
	}
	return found
}

// install lays out a slurm.conf folder with the script and the table that
// midair writes for testdata/tiers.yaml.
func install(t *testing.T) string {
	t.Helper()
	c, err := config.Load("testdata/tiers.yaml")
	require.NoError(t, err)
	dir := t.TempDir()
	script, err := os.ReadFile("job_submit.lua")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "job_submit.lua"), script, 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "midair_tiers.lua"), []byte(slurmconf.TierTable(c)), 0o644))
	return dir
}

func TestJobSubmitScript(t *testing.T) {
	here, err := filepath.Abs("testdata")
	require.NoError(t, err)
	script := filepath.Join(install(t), "job_submit.lua")
	for _, lua := range interpreters(t) {
		t.Run(filepath.Base(lua), func(t *testing.T) {
			cmd := exec.Command(lua, filepath.Join(here, "job_submit_cases.lua"), here, script)
			cmd.Dir = "/"
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, string(out))
			require.Greater(t, strings.Count(string(out), "ok\t"), 15, string(out))
			t.Log("\n" + string(out))
		})
	}
}

// A p0 job must not slip into the cloud because a file is missing.
func TestJobSubmitScriptDoesNotLoadWithoutItsTable(t *testing.T) {
	for name, c := range map[string]struct{ table, want string }{
		"missing":       {"", "midair_tiers.lua"},
		"broken":        {"return {", "midair_tiers.lua"},
		"no table":      {"return 1", "is no tier table; write it anew with `midair slurmconf --tiers`"},
		"other version": {"return {version = 2, qos = {}, cloud = {}}", "is of version 2 and this script reads version 1"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := install(t)
			file := filepath.Join(dir, "midair_tiers.lua")
			if c.table == "" {
				require.NoError(t, os.Remove(file))
			} else {
				require.NoError(t, os.WriteFile(file, []byte(c.table), 0o644))
			}
			for _, lua := range interpreters(t) {
				out, err := exec.Command(lua, filepath.Join(dir, "job_submit.lua")).CombinedOutput()
				require.Error(t, err, string(out))
				require.Contains(t, string(out), c.want)
			}
		})
	}
}
