package hook_test

import (
	"bytes"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/midair-hpc/midair/internal/hook"
	"github.com/midair-hpc/midair/internal/spool"
)

// folder is where programs has built the hooks, or empty.
var folder string

func TestMain(m *testing.M) {
	code := m.Run()
	if folder != "" {
		os.RemoveAll(folder)
	}
	os.Exit(code)
}

// programs builds the hooks at the first call, which a fuzzer's many processes
// never make, and gives their folder.
var programs = sync.OnceValues(func() (dir string, err error) {
	if folder, err = os.MkdirTemp("", "midair-hooks-"); err != nil {
		return "", err
	}
	if err := os.Chmod(folder, 0o755); err != nil { // some tests run them as another user
		return "", err
	}
	for _, p := range []string{"resume", "suspend", "slurmctld-hook"} {
		build := exec.Command("go", "build", "-ldflags", "-X main.version=1.2.3", "-o", filepath.Join(folder, "midair-"+p), "../../"+p)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			return "", fmt.Errorf("build midair-%s: %w\n%s", p, err, out)
		}
	}
	return folder, nil
})

// site is a controller host: a spool, a log and a midair.yaml that names it.
type site struct{ spool, log, yaml string }

func newSite(t *testing.T) site {
	t.Helper()
	dir := t.TempDir()
	s := site{filepath.Join(dir, "spool"), filepath.Join(dir, "log", "hook.log"), filepath.Join(dir, "midair.yaml")}
	require.NoError(t, os.Mkdir(s.spool, 0o755))
	require.NoError(t, os.Mkdir(filepath.Dir(s.log), 0o755))
	require.NoError(t, os.WriteFile(s.yaml, []byte("cluster: c\nhook_log: "+s.log+"\n"), 0o644))
	return s
}

// env is all that slurmctld gives, and where the site is.
func (s site) env(more ...string) []string {
	return append([]string{"SLURM_CONF=/etc/slurm/slurm.conf", spool.EnvDir + "=" + s.spool, "MIDAIR_CONFIG=" + s.yaml}, more...)
}

func (s site) records(t *testing.T) []spool.Record {
	t.Helper()
	records, bad, err := spool.Read(s.spool)
	require.NoError(t, err)
	require.Empty(t, bad)
	return records
}

func (s site) logged(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(s.log)
	if err != nil {
		require.ErrorIs(t, err, os.ErrNotExist)
	}
	return string(text)
}

// run runs a hook as slurmctld does and gives its exit code and what it printed.
func run(t *testing.T, who *syscall.Credential, env []string, program string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	dir, err := programs()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, program), args...)
	var out, errs bytes.Buffer
	cmd.Env, cmd.Stdout, cmd.Stderr, cmd.Dir = env, &out, &errs, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: who}
	if err := cmd.Run(); err != nil {
		require.IsType(t, &exec.ExitError{}, err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

func TestRequestIsOnDiskWhenTheHookHasEnded(t *testing.T) {
	for program, kind := range map[string]spool.Kind{
		"midair-resume": spool.Resume, "midair-suspend": spool.Suspend, "midair-slurmctld-hook": spool.Fail,
	} {
		t.Run(program, func(t *testing.T) {
			s := newSite(t)
			before := time.Now()
			code, stdout, stderr := run(t, nil, s.env(), program, "gpu-[1-4],x")
			require.Zero(t, code, stderr)
			require.Empty(t, stdout+stderr+s.logged(t), "a hook with nothing to say says nothing")
			records := s.records(t)
			require.Len(t, records, 1)
			r := records[0]
			require.WithinRange(t, r.At, before, time.Now())
			require.Equal(t, spool.Record{
				Version: spool.Version, Kind: kind, At: r.At, Nodes: "gpu-[1-4],x", SlurmConf: "/etc/slurm/slurm.conf", Name: r.Name,
			}, r)
		})
	}
}

func TestResumeFileIsKeptByteForByte(t *testing.T) {
	text := "{\"all_nodes_resume\":\"gpu-[1-4]\",\n \"jobs\":[{\"job_id\":7,\"extra\":\"caf\xe9 <&>\"}]}\x00"
	path := filepath.Join(t.TempDir(), "resume.json")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	fd, err := unix.MemfdCreate("resume", unix.MFD_CLOEXEC)
	require.NoError(t, err)
	memory := os.NewFile(uintptr(fd), "resume")
	defer memory.Close()
	_, err = memory.WriteString(text)
	require.NoError(t, err)
	for name, path := range map[string]string{
		"file": path, "slurmctld's memory": fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), fd),
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			code, _, stderr := run(t, nil, s.env("SLURM_RESUME_FILE="+path), "midair-resume", "gpu-[1-4]")
			require.Zero(t, code, stderr)
			require.Len(t, s.records(t), 1)
			require.Equal(t, text, s.records(t)[0].ResumeFile)
			require.Empty(t, s.records(t)[0].ResumeFileError)
		})
	}
}

func TestRequestIsRecordedWithoutAResumeFileThatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	large := filepath.Join(dir, "large")
	require.NoError(t, os.WriteFile(large, nil, 0o600))
	require.NoError(t, os.Truncate(large, 33<<20))
	empty := filepath.Join(dir, "empty")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	pipe := filepath.Join(dir, "pipe")
	require.NoError(t, unix.Mkfifo(pipe, 0o600))
	for path, says := range map[string]string{
		filepath.Join(dir, "missing"): "no such file", dir: "is a directory", large: "larger than 32 MiB", empty: "is empty", pipe: "is not a regular file",
	} {
		t.Run(says, func(t *testing.T) {
			s := newSite(t)
			code, _, stderr := run(t, nil, s.env("SLURM_RESUME_FILE="+path), "midair-resume", "gpu-[1-4]")
			require.Zero(t, code)
			require.Len(t, s.records(t), 1)
			r := s.records(t)[0]
			require.Equal(t, "gpu-[1-4]", r.Nodes)
			require.Empty(t, r.ResumeFile)
			require.Contains(t, r.ResumeFileError, says)
			for _, out := range []string{stderr, s.logged(t)} {
				require.Contains(t, out, "without its resume file")
				require.Contains(t, out, says)
			}
		})
	}
}

func TestWrongCallIsAUsageErrorAndRecordsNothing(t *testing.T) {
	for _, program := range []string{"midair-resume", "midair-suspend", "midair-slurmctld-hook"} {
		for _, args := range [][]string{nil, {""}, {" "}, {"a", "b"}} {
			t.Run(fmt.Sprint(program, args), func(t *testing.T) {
				s := newSite(t)
				code, _, stderr := run(t, nil, s.env(), program, args...)
				require.Equal(t, hook.ExitUsage, code)
				require.Contains(t, stderr, "want one argument")
				require.Contains(t, s.logged(t), "want one argument")
				require.Empty(t, s.records(t))
			})
		}
	}
}

func TestPeopleGetHelpAndVersion(t *testing.T) {
	for _, program := range []string{"midair-resume", "midair-suspend", "midair-slurmctld-hook"} {
		t.Run(program, func(t *testing.T) {
			s := newSite(t)
			for _, flag := range []string{"--help", "-h"} {
				code, stdout, _ := run(t, nil, s.env(), program, flag)
				require.Zero(t, code)
				require.Contains(t, stdout, "HOSTLIST")
			}
			for _, flag := range []string{"--version", "-v"} {
				code, stdout, _ := run(t, nil, s.env(), program, flag)
				require.Zero(t, code)
				require.Contains(t, stdout, "1.2.3")
			}
			code, stdout, stderr := run(t, nil, s.env(), program, "--verison")
			require.Equal(t, hook.ExitUsage, code)
			require.Contains(t, stdout+stderr, "verison")
			require.Empty(t, s.records(t))
		})
	}
}

func TestNodeMayBeCalledHelp(t *testing.T) {
	for _, program := range []string{"midair-resume", "midair-suspend", "midair-slurmctld-hook"} {
		s := newSite(t)
		code, _, stderr := run(t, nil, s.env(), program, "help")
		require.Zero(t, code, stderr)
		require.Len(t, s.records(t), 1, program)
	}
}

func TestRequestThatCannotBeRecordedFailsAndSaysWhereAndWhy(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(t *testing.T, s site)
		says  string
	}{
		"missing":      {func(t *testing.T, s site) { require.NoError(t, os.Remove(s.spool)) }, "no such file"},
		"not writable": {func(t *testing.T, s site) { require.NoError(t, os.Chmod(s.spool, 0o555)) }, "permission denied"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			c.spoil(t, s)
			var nobody *syscall.Credential
			if os.Geteuid() == 0 { // whom permissions do not bind
				nobody = &syscall.Credential{Uid: 65534, Gid: 65534}
				require.NoError(t, os.Chmod(filepath.Dir(filepath.Dir(s.spool)), 0o755))
				require.NoError(t, os.Chmod(filepath.Dir(s.spool), 0o755))
				require.NoError(t, os.Chown(filepath.Dir(s.log), 65534, 65534))
			}
			code, _, stderr := run(t, nobody, s.env(), "midair-resume", "gpu-[1-4]")
			require.Equal(t, hook.ExitFail, code)
			for _, out := range []string{stderr, s.logged(t)} {
				require.Contains(t, out, "the request is lost")
				require.Contains(t, out, "gpu-[1-4]")
				require.Contains(t, out, s.spool)
				require.Contains(t, out, c.says)
			}
		})
	}
}

func TestBrokenOrMissingMidairYAMLDoesNotTouchARequest(t *testing.T) {
	for name, text := range map[string]string{"broken": "cluster: [\n", "missing": ""} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			require.NoError(t, os.WriteFile(s.yaml, []byte(text+"hook_log: "+s.log+"\n"), 0o644))
			if text == "" {
				require.NoError(t, os.Remove(s.yaml))
			}
			code, _, stderr := run(t, nil, s.env(), "midair-resume", "gpu-[1-4]")
			require.Zero(t, code, stderr)
			require.Len(t, s.records(t), 1)
		})
	}
}

func TestLogThatCannotBeWrittenDoesNotLoseTheRequest(t *testing.T) {
	s := newSite(t)
	require.NoError(t, os.Mkdir(s.log, 0o755))
	code, _, stderr := run(t, nil, s.env("SLURM_RESUME_FILE=/missing"), "midair-resume", "gpu-[1-4]")
	require.Zero(t, code)
	require.Contains(t, stderr, "open the hooks' log")
	require.Len(t, s.records(t), 1)
}

func TestLogsFolderIsMade(t *testing.T) {
	s := newSite(t)
	require.NoError(t, os.Remove(filepath.Dir(s.log)))
	code, _, _ := run(t, nil, s.env(), "midair-resume")
	require.Equal(t, hook.ExitUsage, code)
	require.Contains(t, s.logged(t), "want one argument")
}

func TestBrokenPipeOnStandardErrorDoesNotEndAHook(t *testing.T) {
	s := newSite(t)
	dir, err := programs()
	require.NoError(t, err)
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer w.Close()
	require.NoError(t, r.Close())
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "midair-resume"))
	cmd.Env, cmd.Stderr = s.env(), w
	require.Error(t, cmd.Run())
	require.Equal(t, hook.ExitUsage, cmd.ProcessState.ExitCode())
	require.Contains(t, s.logged(t), "want one argument", "the other logs are written to")
}

// The power hooks are called thousands of times: what is slow to start, or
// makes the program larger and so slower to start, must not be linked into
// them. Package spool's reading half may import it.
func TestPowerHooksLinkNothingThatIsSlowToStart(t *testing.T) {
	dir, err := programs()
	require.NoError(t, err)
	for _, program := range []string{"midair-resume", "midair-suspend"} {
		file, err := elf.Open(filepath.Join(dir, program))
		require.NoError(t, err)
		defer file.Close()
		symbols, err := file.Symbols()
		require.NoError(t, err)
		linked := map[string]bool{}
		for _, s := range symbols {
			linked[s.Name] = true
		}
		require.True(t, linked["github.com/midair-hpc/midair/internal/spool.Write"])
		for _, slow := range []string{
			"fmt.Errorf", "fmt.Sprintf", "fmt.Fprintf", "encoding/json.Marshal", "encoding/json.Unmarshal", "log/slog.init", "log/slog..inittask",
			"os/signal..inittask", "net..inittask", "regexp..inittask", "flag..inittask", "context..inittask",
		} {
			require.False(t, linked[slow], "%s links %s", program, slow)
		}
	}
}
