package slurmctld_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/hold"
	"github.com/midair-hpc/midair/internal/spool"
)

// soon bounds waits for what should come at once; a busy machine may need it.
const soon = 30 * time.Second

// program is the built midair-slurmctld-hook. It is set once, before any test.
var program string

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "midair-hooks-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "midair-slurmctld-hook")
	build := exec.Command("go", "build", "-o", program, "../../../slurmctld-hook")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build midair-slurmctld-hook: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// site is a controller host whose pool has the nodes gpu-1 to gpu-4.
type site struct{ dir, spool, log, bin, yaml string }

func newSite(t *testing.T, hooks string) site {
	t.Helper()
	dir := t.TempDir()
	s := site{dir, filepath.Join(dir, "spool"), filepath.Join(dir, "hook.log"), filepath.Join(dir, "bin"), filepath.Join(dir, "midair.yaml")}
	require.NoError(t, os.Mkdir(s.spool, 0o755))
	require.NoError(t, os.Mkdir(s.bin, 0o755))
	require.NoError(t, os.WriteFile(s.yaml, []byte(`cluster: c
hook_log: `+s.log+`
slurm: {bin_dir: `+s.bin+`}
hooks: {`+hooks+`}
providers:
  lab: {kind: local, types: {g1: {cpus: 4, memory: 8G, prices: {spot: 0.4 USD}}}}
pools:
  - name: cloud
    nodes: gpu-[1-4]
    provider: lab
    node: {cpus: 4, memory: 7900M}
    offerings: [{types: [g1], zones: [a], markets: [spot]}]
`), 0o644))
	return s
}

// script puts an executable into the site and gives its path.
func (s site) script(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(s.dir, name)
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o755))
	return path
}

func (s site) logged(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(s.log)
	if err != nil {
		require.ErrorIs(t, err, os.ErrNotExist)
	}
	return string(text)
}

func (s site) records(t *testing.T) []spool.Record {
	t.Helper()
	records, bad, err := spool.Read(s.spool)
	require.NoError(t, err)
	require.Empty(t, bad)
	return records
}

// job is the environment of a job's hook.
func (s site) job(context, nodes string) []string {
	return []string{
		"SLURM_CONF=/nowhere/slurm.conf", spool.EnvDir + "=" + s.spool, "MIDAIR_CONFIG=" + s.yaml,
		"SLURM_SCRIPT_CONTEXT=" + context, "SLURM_JOB_ID=7", "SLURM_JOB_NODELIST=" + nodes,
	}
}

func (s site) prolog(nodes string) []string { return s.job("prolog_slurmctld", nodes) }
func (s site) epilog(nodes string) []string { return s.job("epilog_slurmctld", nodes) }

// running is a hook that has been started.
type running struct {
	cmd  *exec.Cmd
	done chan struct{}
	out  bytes.Buffer
}

func start(t *testing.T, env []string, args ...string) *running {
	t.Helper()
	r := &running{cmd: exec.Command(program, args...), done: make(chan struct{})}
	r.cmd.Env, r.cmd.Dir, r.cmd.Stdout, r.cmd.Stderr = env, "/", &r.out, &r.out
	require.NoError(t, r.cmd.Start())
	go func() {
		defer close(r.done)
		_ = r.cmd.Wait() // exit looks at the exit code
	}()
	t.Cleanup(func() {
		_ = r.cmd.Process.Kill() // has ended in most tests
		<-r.done
	})
	return r
}

// exit waits for the hook and gives its exit code.
func (r *running) exit(t *testing.T) int {
	t.Helper()
	select {
	case <-r.done:
		return r.cmd.ProcessState.ExitCode()
	case <-time.After(soon):
		t.Fatal("the hook does not end")
		return -1
	}
}

// controller answers hooks in the site's spool folder.
func (s site) controller(t *testing.T, answer func(context.Context, hold.Question) (hold.Answer, error)) {
	t.Helper()
	server, err := hold.Listen(s.spool)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, answer) }()
	t.Cleanup(func() {
		cancel()
		server.Close()
		require.NoError(t, <-served)
	})
}

func TestPrologHoldsTheJobUntilTheControllerAnswers(t *testing.T) {
	t.Parallel()
	for _, outcome := range []hold.Outcome{hold.Ready, hold.Gone} {
		t.Run(string(outcome), func(t *testing.T) {
			s := newSite(t, "wait_limit: 10m")
			asked, release := make(chan hold.Question, 1), make(chan struct{})
			s.controller(t, func(ctx context.Context, q hold.Question) (hold.Answer, error) {
				asked <- q
				select {
				case <-release:
				case <-ctx.Done():
				}
				return hold.Answer{Outcome: outcome}, nil
			})
			h := start(t, s.prolog("gpu-[1-2],onprem-1"))
			select {
			case q := <-asked:
				require.Equal(t, hold.Question{JobID: 7, Nodes: "gpu-[1-2]"}, q)
			case <-time.After(soon):
				t.Fatal("the controller is not asked")
			}
			select {
			case <-h.done:
				t.Fatal("the job is not held")
			default:
			}
			close(release)
			require.Zero(t, h.exit(t))
			require.Empty(t, h.out.String()+s.logged(t))
			require.Empty(t, s.records(t))
		})
	}
}

func TestPrologOfAJobWithoutBoughtNodesReturnsAtOnce(t *testing.T) {
	t.Parallel()
	for _, nodes := range []string{"onprem-[1-4]", "gpu-5", "gpu-01", ""} {
		s := newSite(t, "wait_limit: 10m")
		h := start(t, s.prolog(nodes))
		require.Zero(t, h.exit(t), nodes)
		require.NotContains(t, s.logged(t), "controller", nodes)
	}
}

func TestPrologGoesOnAtASignal(t *testing.T) {
	t.Parallel()
	for _, sig := range []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		s := newSite(t, "wait_limit: 10m")
		asked, gone := make(chan struct{}), make(chan struct{})
		s.controller(t, func(ctx context.Context, q hold.Question) (hold.Answer, error) {
			close(asked)
			<-ctx.Done()
			close(gone)
			return hold.Answer{}, ctx.Err()
		})
		h := start(t, s.prolog("gpu-1"))
		select {
		case <-asked:
		case <-time.After(soon):
			t.Fatal("the controller is not asked")
		}
		require.NoError(t, h.cmd.Process.Signal(sig))
		require.Zero(t, h.exit(t), "%s", sig)
		select {
		case <-gone:
		case <-time.After(soon):
			t.Fatal("the controller does not learn that the hook is gone")
		}
	}
}

// slurmctld's signals reach the site's program by themselves. One to the hook
// alone is not the program's business, whose exit code still counts.
func TestSignalDuringTheSitesPrologWaitsForIt(t *testing.T) {
	t.Parallel()
	s := newSite(t, "wait_limit: 10m")
	up, goOn := filepath.Join(s.dir, "up"), filepath.Join(s.dir, "go")
	for _, pipe := range []string{up, goOn} {
		require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	}
	release, err := os.OpenFile(goOn, os.O_RDWR, 0) // does not wait for a reader
	require.NoError(t, err)
	defer release.Close()
	s.hooks(t, "prolog_slurmctld: "+s.script(t, "prolog", "echo up >"+up+"\nread go <"+goOn+"\nexit 5"))
	h := start(t, s.prolog("gpu-1"))
	running := make(chan error, 1)
	go func() {
		_, err := os.ReadFile(up)
		running <- err
	}()
	select {
	case err := <-running:
		require.NoError(t, err)
	case <-time.After(soon):
		t.Fatal("the site's program does not run")
	}
	require.NoError(t, h.cmd.Process.Signal(syscall.SIGTERM))
	_, err = release.WriteString("go\n")
	require.NoError(t, err)
	require.Equal(t, 5, h.exit(t))
}

// hooks adds a key to the section hooks of midair.yaml.
func (s site) hooks(t *testing.T, setting string) {
	t.Helper()
	text, err := os.ReadFile(s.yaml)
	require.NoError(t, err)
	require.Contains(t, string(text), "\nhooks: {")
	require.NoError(t, os.WriteFile(s.yaml, []byte(strings.Replace(string(text), "\nhooks: {", "\nhooks: {"+setting+", ", 1)), 0o644))
}

func TestPrologGoesOnAtItsLimitWithoutControllerAndSlurm(t *testing.T) {
	t.Parallel()
	s := newSite(t, "wait_limit: 1s")
	began := time.Now()
	h := start(t, s.prolog("gpu-[1-2]"))
	require.Zero(t, h.exit(t))
	require.GreaterOrEqual(t, time.Since(began), time.Second)
	require.Contains(t, s.logged(t), "the controller does not answer")
	require.Contains(t, s.logged(t), "held as long as midair.yaml allows")
	require.Equal(t, 1, strings.Count(s.logged(t), "does not answer"), "told once, not each time")
}

func TestPrologGoesOnWithoutSlurmsCommands(t *testing.T) {
	t.Parallel()
	s := newSite(t, "wait_limit: 10m")
	h := start(t, s.prolog("gpu-[1-2]"))
	require.Zero(t, h.exit(t))
	require.Contains(t, s.logged(t), "the job is not held for its nodes")
	require.Contains(t, s.logged(t), "slurm.bin_dir")
}

func TestPrologAsksSlurmItselfWithoutAController(t *testing.T) {
	t.Parallel()
	s := newSite(t, "wait_limit: 10m")
	s.script(t, "bin/squeue", "echo squeue >>"+s.dir+"/asked\necho 'slurm_load_jobs error: Invalid job id specified' >&2\nexit 1")
	s.script(t, "bin/scontrol", "echo scontrol >>"+s.dir+"/asked\necho 'NodeName=gpu-1 State=IDLE+CLOUD+POWERED_DOWN'")
	h := start(t, s.prolog("gpu-1"))
	require.Zero(t, h.exit(t))
	asked, err := os.ReadFile(filepath.Join(s.dir, "asked"))
	require.NoError(t, err)
	require.Equal(t, "squeue\n", string(asked), "the nodes of a job that is gone do not matter")
}

func TestSlurmThatHangsDoesNotHoldTheJobBeyondTheLimit(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("takes 6 s")
	}
	s := newSite(t, "wait_limit: 6s")
	s.script(t, "bin/squeue", "exec sleep 300")
	s.script(t, "bin/scontrol", "exec sleep 300")
	h := start(t, s.prolog("gpu-1"))
	require.Zero(t, h.exit(t))
	require.Contains(t, s.logged(t), "ask Slurm for the job")
}

func TestControllerThatComesBackIsAskedAgain(t *testing.T) {
	t.Parallel()
	s := newSite(t, "wait_limit: 10m")
	h := start(t, s.prolog("gpu-1"))
	for end := time.Now().Add(soon); !strings.Contains(s.logged(t), "does not answer"); {
		require.True(t, time.Now().Before(end))
		time.Sleep(10 * time.Millisecond)
	}
	s.controller(t, func(context.Context, hold.Question) (hold.Answer, error) {
		return hold.Answer{Outcome: hold.Ready}, nil
	})
	require.Zero(t, h.exit(t))
	require.NotContains(t, s.logged(t), "slurm.bin_dir", "Slurm need not be asked")
}

func TestSitesPrologRunsFirstAndItsExitCodeIsKept(t *testing.T) {
	t.Parallel()
	s := newSite(t, "wait_limit: 10m")
	s.hooks(t, "prolog_slurmctld: "+s.script(t, "prolog", `echo "job $SLURM_JOB_ID on $SLURM_JOB_NODELIST"; echo trouble >&2; printf 'no end'; exit 3`))
	s.controller(t, func(context.Context, hold.Question) (hold.Answer, error) {
		t.Error("the job is held although the site's prolog failed")
		return hold.Answer{Outcome: hold.Ready}, nil
	})
	h := start(t, s.prolog("gpu-[1-2]"))
	require.Equal(t, 3, h.exit(t))
	for _, line := range []string{`msg="job 7 on gpu-[1-2]"`, "msg=trouble", `msg="no end"`} {
		require.Contains(t, s.logged(t), line)
	}
}

func TestSitesProgramThatCannotBeStartedOrIsKilledCountsAsFailed(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{"missing": "", "killed": "kill -9 $$"} {
		for _, which := range []string{"prolog", "epilog"} {
			t.Run(name+" "+which, func(t *testing.T) {
				s := newSite(t, "wait_limit: 10m")
				path := filepath.Join(s.dir, "missing")
				if text != "" {
					path = s.script(t, "site", text)
				}
				s.hooks(t, which+"_slurmctld: "+path)
				h := start(t, s.job(which+"_slurmctld", "onprem-1"))
				require.Equal(t, 1, h.exit(t))
				require.Contains(t, s.logged(t), path)
			})
		}
	}
}

func TestSitesProgramMayLeaveAProcessThatKeepsItsOutputOpen(t *testing.T) {
	t.Parallel()
	s := newSite(t, "wait_limit: 10m")
	s.hooks(t, "prolog_slurmctld: "+s.script(t, "prolog", "sleep 300 &\necho $! >"+s.dir+"/pid"))
	h := start(t, s.prolog("onprem-1"))
	defer func() {
		text, err := os.ReadFile(filepath.Join(s.dir, "pid"))
		require.NoError(t, err)
		pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
		require.NoError(t, err)
		require.NoError(t, syscall.Kill(pid, syscall.SIGKILL), "it must still run")
	}()
	require.Zero(t, h.exit(t))
}

func TestPrologNeverFailsAJobForMidairsOwnTrouble(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		env  func(s site) []string
		yaml string
		says string
	}{
		"broken midair.yaml":   {func(s site) []string { return s.prolog("gpu-1") }, "cluster: c\nclustre: d\n", "clustre"},
		"no YAML":              {func(s site) []string { return s.prolog("gpu-1") }, "cluster: [\n", "not valid YAML"},
		"unreadable node list": {func(s site) []string { return s.prolog("gpu-[1-") }, "", "SLURM_JOB_NODELIST"},
		"no job id": {func(s site) []string {
			return append(s.prolog("gpu-1"), "SLURM_JOB_ID=")
		}, "", "SLURM_JOB_ID"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, "wait_limit: 10m")
			if c.yaml != "" {
				require.NoError(t, os.WriteFile(s.yaml, []byte(c.yaml+"hook_log: "+s.log+"\n"), 0o644))
			}
			h := start(t, c.env(s))
			require.Zero(t, h.exit(t))
			for _, out := range []string{s.logged(t), h.out.String()} {
				require.Contains(t, out, "the job is not held for its nodes")
				require.Contains(t, out, c.says)
			}
		})
	}
}

func TestEpilogRecordsTheBoughtNodesAndKeepsTheSitesExitCode(t *testing.T) {
	t.Parallel()
	s := newSite(t, "wait_limit: 10m")
	s.hooks(t, "epilog_slurmctld: "+s.script(t, "epilog", "exit 4"))
	h := start(t, s.epilog("gpu-[1,3],onprem-[1-2]"))
	require.Equal(t, 4, h.exit(t))
	require.Len(t, s.records(t), 1)
	r := s.records(t)[0]
	require.Equal(t, spool.Record{Version: spool.Version, Kind: spool.Epilog, At: r.At, Nodes: "gpu-[1,3]", JobID: 7, Name: r.Name}, r)

	h = start(t, s.epilog("onprem-[1-2]"))
	require.Equal(t, 4, h.exit(t))
	require.Len(t, s.records(t), 1, "a job without bought nodes is not recorded")
}

func TestEpilogRunsTheSitesProgramAlsoWhenTheSpoolIsMissing(t *testing.T) {
	t.Parallel()
	s := newSite(t, "wait_limit: 10m")
	s.hooks(t, "epilog_slurmctld: "+s.script(t, "epilog", "echo done >"+s.dir+"/ran"))
	require.NoError(t, os.Remove(s.spool))
	require.Zero(t, start(t, s.epilog("gpu-1")).exit(t))
	require.FileExists(t, filepath.Join(s.dir, "ran"))
	require.Contains(t, s.logged(t), "the job's end is not recorded")
}

func TestEpilogWithABrokenMidairYAMLSaysSoAndGoesOn(t *testing.T) {
	t.Parallel()
	s := newSite(t, "wait_limit: 10m")
	require.NoError(t, os.WriteFile(s.yaml, []byte("cluster: [\nhook_log: "+s.log+"\n"), 0o644))
	require.Zero(t, start(t, s.epilog("gpu-1")).exit(t))
	require.Contains(t, s.logged(t), "the job's end is not recorded")
}

func TestWithoutAContextItIsResumeFailProgram(t *testing.T) {
	t.Parallel()
	s := newSite(t, "wait_limit: 10m")
	require.Zero(t, start(t, []string{"SLURM_CONF=/c", spool.EnvDir + "=" + s.spool, "MIDAIR_CONFIG=" + s.yaml}, "gpu-[1-2]").exit(t))
	require.Len(t, s.records(t), 1)
	require.Equal(t, spool.Fail, s.records(t)[0].Kind)
	require.Equal(t, "gpu-[1-2]", s.records(t)[0].Nodes)
}

// Another exit code would drain the node whose Prolog names this program.
func TestOtherContextsAreToldAndDoNoHarm(t *testing.T) {
	t.Parallel()
	s := newSite(t, "wait_limit: 10m")
	require.Zero(t, start(t, s.job("prolog_slurmd", "gpu-1")).exit(t))
	require.Contains(t, s.logged(t), "prolog_slurmd")
	require.Empty(t, s.records(t))
}
