package slurm

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// exit is an exit status, as *exec.ExitError is.
type exit int

func (e exit) Error() string { return fmt.Sprintf("exit status %d", int(e)) }
func (e exit) ExitCode() int { return int(e) }

// answer is what a fake command does.
type answer struct {
	stdout, stderr string
	err            error
}

// fake is a Runner that records and answers by a function.
type fake struct {
	ran    [][]string
	env    []string
	answer func(args []string) answer
}

func (f *fake) Run(_ context.Context, path string, args, env []string) ([]byte, []byte, error) {
	f.ran = append(f.ran, append([]string{filepath.Base(path)}, args...))
	f.env = env
	a := answer{}
	if f.answer != nil {
		a = f.answer(args)
	}
	return []byte(a.stdout), []byte(a.stderr), a.err
}

func newFake(t *testing.T, do func(args []string) answer) (*Commands, *fake) {
	t.Helper()
	f := &fake{answer: do}
	c, err := NewCommands(Options{BinDir: t.TempDir(), Conf: "/c/slurm.conf", Runner: f, Now: func() time.Time { return time.Unix(1796100000, 0) }})
	require.NoError(t, err)
	return c, f
}

func record(name, state string) string {
	return "NodeName=" + name + " CoresPerSocket=1  CPUAlloc=0 CPUTot=8 NodeAddr=a NodeHostName=h RealMemory=10 State=" + state + " ThreadsPerCore=1 \n"
}

func TestAMissingCommandIsNamedWithWhatToSet(t *testing.T) {
	dir := t.TempDir()
	_, err := NewCommands(Options{BinDir: dir})
	require.ErrorContains(t, err, "scontrol")
	require.ErrorContains(t, err, dir)
	require.ErrorContains(t, err, "slurm.bin_dir in midair.yaml")

	require.NoError(t, os.WriteFile(filepath.Join(dir, "scontrol"), nil, 0o644))
	_, err = NewCommands(Options{BinDir: dir})
	require.ErrorContains(t, err, "scontrol", "a file that cannot be executed does not count")

	require.NoError(t, os.Chmod(filepath.Join(dir, "scontrol"), 0o755))
	_, err = NewCommands(Options{BinDir: dir})
	require.ErrorContains(t, err, "squeue")
}

func TestTheCommandsGetAMinimalEnvironment(t *testing.T) {
	t.Setenv("SQUEUE_FORMAT", "%i")
	t.Setenv("TZ", "Europe/Berlin")
	c, f := newFake(t, func([]string) answer { return answer{stdout: "slurm 24.11.5\n"} })
	v, err := c.Version(t.Context())
	require.NoError(t, err)
	require.Equal(t, Version{24, 11, 5}, v)
	require.ElementsMatch(t, []string{"LC_ALL=C", "SLURM_TIME_FORMAT=%s", "SLURM_CONF=/c/slurm.conf", "TZ=Europe/Berlin"}, f.env)
	require.Equal(t, map[string]int64{"scontrol": 1, "squeue": 0}, c.Calls())
}

func TestNodesLeavesOutWhatSlurmDoesNotKnow(t *testing.T) {
	c, f := newFake(t, func([]string) answer {
		return answer{record("n1", "IDLE") + "Node n2 not found\n" + record("n3", "DOWN"), "scontrol: error: a warning of slurm.conf", exit(1)}
	})
	nodes, err := c.Nodes(t.Context(), "n3", "n1", "n2")
	require.NoError(t, err)
	require.Len(t, nodes, 2)
	require.Equal(t, []string{"scontrol", "-a", "-o", "show", "node", "n[1-3]"}, f.ran[0])

	f.answer = func([]string) answer {
		return answer{"", "slurm_load_node error: Unable to contact slurm controller (connect failure)", exit(1)}
	}
	_, err = c.Nodes(t.Context(), "n1")
	require.True(t, Unreachable(err))
	require.False(t, NotFound(err) || InvalidJob(err))
}

func TestNodeNamesThatMeanMoreAreRefused(t *testing.T) {
	c, f := newFake(t, nil)
	for _, bad := range []string{"", "ALL", "all", "n[1-2]", "a,b", "-F", "a b", "a\nb", "x=y", "{set}"} {
		_, err := c.Nodes(t.Context(), "ok", bad)
		require.Error(t, err, bad)
		require.Error(t, c.UpdateNodes(t.Context(), []string{bad}, NodeUpdate{State: "down"}), bad)
		require.Error(t, c.SetAddresses(t.Context(), []NodeAddress{{bad, "1.2.3.4", "h"}}), bad)
	}
	require.Error(t, c.SetAddresses(t.Context(), []NodeAddress{{"n1", "", "h"}}))
	require.Error(t, c.SetAddresses(t.Context(), []NodeAddress{{"n1", "1.2.3.4,5", "h"}}))
	require.Error(t, c.SetAddresses(t.Context(), []NodeAddress{{"n1", "1.2.3.4", "h"}, {"n1", "1.2.3.5", "h"}}))
	require.Empty(t, f.ran)
}

func TestSetAddressesPairsInSlurmsOrder(t *testing.T) {
	c, f := newFake(t, nil)
	require.NoError(t, c.SetAddresses(t.Context(), []NodeAddress{{"n10", "10.0.0.10", "h10"}, {"n9", "10.0.0.9", ""}, {"n9", "10.0.0.9", "n9"}}))
	require.Equal(t, [][]string{{"scontrol", "update", "nodename=n9,n10", "nodeaddr=10.0.0.9,10.0.0.10", "nodehostname=n9,h10"}}, f.ran)
	require.NoError(t, c.SetAddresses(t.Context(), nil))
	require.Len(t, f.ran, 1)
}

func TestUpdatesAreCutByTheSizeOfAnArgument(t *testing.T) {
	c, f := newFake(t, nil)
	var nodes []NodeAddress
	var names []string
	for i := range 20000 {
		n := fmt.Sprintf("gpu-spot-%05d", i*2)
		names = append(names, n)
		nodes = append(nodes, NodeAddress{n, fmt.Sprintf("10.0.%d.%d", i/256, i%256), "host." + n + ".cluster.example"})
	}
	require.NoError(t, c.SetAddresses(t.Context(), nodes))
	seen := 0
	for _, cmd := range f.ran {
		n := 0
		for _, arg := range cmd[2:] {
			require.LessOrEqual(t, len(arg), maxArg+20)
			if n != 0 {
				require.Equal(t, n, strings.Count(arg, ",")+1, "lists of one length")
			}
			n = strings.Count(arg, ",") + 1
		}
		seen += n
	}
	require.Equal(t, 20000, seen)
	require.Less(t, len(f.ran), 16)

	f.ran = nil
	require.NoError(t, c.UpdateNodes(t.Context(), names, NodeUpdate{State: "power_down"}))
	require.Greater(t, len(f.ran), 1)
	for _, cmd := range f.ran {
		require.LessOrEqual(t, len(cmd[2]), maxArg+20)
	}
}

// slurmctld stops at the first name that it does not know.
func TestAnUnknownNodeKeepsNoOtherFromItsUpdate(t *testing.T) {
	applied := map[string]bool{}
	c, f := newFake(t, nil)
	f.answer = func(args []string) answer {
		if args[0] != "update" {
			return answer{record("n1", "IDLE") + record("n3", "IDLE") + "Node n2 not found\nNode n4 not found\n", "", exit(1)}
		}
		for n := range strings.SplitSeq(strings.TrimPrefix(args[1], "nodename="), ",") {
			if n == "n2" || n == "n4" {
				return answer{"", "slurm_update error: Invalid node name specified\n", exit(1)}
			}
			applied[n] = true
		}
		return answer{}
	}
	err := c.SetAddresses(t.Context(), []NodeAddress{{"n1", "a1", ""}, {"n2", "a2", ""}, {"n3", "a3", ""}, {"n4", "a4", ""}})
	var partial *NotAppliedError
	require.ErrorAs(t, err, &partial)
	require.Equal(t, []string{"n2", "n4"}, partial.Nodes)
	require.ErrorContains(t, err, "n[2,4]")
	require.True(t, NotFound(err))
	require.Equal(t, map[string]bool{"n1": true, "n3": true}, applied)
	require.Equal(t, []string{"scontrol", "update", "nodename=n1,n3", "nodeaddr=a1,a3", "nodehostname=n1,n3"}, f.ran[2])
	require.Len(t, f.ran, 3)
}

func TestUpdateNodesWritesOneLineReasons(t *testing.T) {
	c, f := newFake(t, nil)
	require.NoError(t, c.UpdateNodes(t.Context(), []string{"n2", "n1", "n2"}, NodeUpdate{State: "power_down_force", Reason: "midair: a \"b\" c=d\n" + strings.Repeat("é", 300), Comment: "x\ty"}))
	require.Len(t, f.ran, 1)
	cmd := f.ran[0]
	require.Equal(t, []string{"scontrol", "update", "nodename=n[1-2]", "state=power_down_force"}, cmd[:4])
	require.True(t, strings.HasPrefix(cmd[4], "reason=midair: a \"b\" c=d é"))
	require.LessOrEqual(t, len(cmd[4]), len("reason=")+maxReason)
	require.Equal(t, "comment=x y", cmd[5])

	require.NoError(t, c.UpdateNodes(t.Context(), nil, NodeUpdate{State: "down"}))
	require.NoError(t, c.UpdateNodes(t.Context(), []string{"n1"}, NodeUpdate{}))
	require.Error(t, c.UpdateNodes(t.Context(), []string{"n1"}, NodeUpdate{State: "down reason=x"}))
	require.Len(t, f.ran, 1)
}

func TestUpdateJob(t *testing.T) {
	c, f := newFake(t, nil)
	now := time.Unix(1796100000, 0)
	later, past, empty, text := now.Add(1500*time.Millisecond), now, "", "a\nb"
	require.NoError(t, c.UpdateJob(t.Context(), 7, JobUpdate{StartTime: &later, Comment: &empty, AdminComment: &text}))
	require.NoError(t, c.UpdateJob(t.Context(), 7, JobUpdate{StartTime: &past}))
	require.NoError(t, c.UpdateJob(t.Context(), 7, JobUpdate{}))
	require.NoError(t, c.HoldJob(t.Context(), 7))
	require.NoError(t, c.RequeueJob(t.Context(), 7))
	require.Equal(t, [][]string{
		{"scontrol", "update", "jobid=7", "StartTime=uts1796100002", "Comment=", "AdminComment=a b"},
		{"scontrol", "update", "jobid=7", "StartTime=now"},
		{"scontrol", "uhold", "7"},
		{"scontrol", "requeue", "7"},
	}, f.ran)
	require.Error(t, c.HoldJob(t.Context(), 0))

	f.answer = func([]string) answer {
		return answer{"", "Invalid job id specified for job 7\nslurm_suspend error: Invalid job id specified\n", exit(1)}
	}
	err := c.HoldJob(t.Context(), 7)
	require.True(t, InvalidJob(err))
	require.EqualError(t, err, "hold job 7: run scontrol uhold 7: Invalid job id specified for job 7")
}

func TestJobsGivesWhatWasAskedFor(t *testing.T) {
	c, f := newFake(t, func([]string) answer {
		// An array's id brings its tasks along, a component its whole job.
		return answer{stdout: row(map[string]string{"JobID": "9", "ArrayTaskID": "2"}) + row(map[string]string{"JobID": "7", "ArrayTaskID": "1"}) + row(map[string]string{"JobID": "8"})}
	})
	jobs, err := c.Jobs(t.Context(), 7, 9, 7)
	require.NoError(t, err)
	require.Equal(t, []int{7, 9}, []int{jobs[0].ID, jobs[1].ID})
	require.Len(t, jobs, 2)
	require.Equal(t, []string{"squeue", "-h", "-a", "--local", "-t", "all", "-O", tableFormat(), "--array", "-j", "7,9"}, f.ran[0])

	jobs, err = c.Jobs(t.Context())
	require.NoError(t, err)
	require.Empty(t, jobs)
	require.Len(t, f.ran, 1, "no ids, no call")

	f.answer = func([]string) answer { return answer{"", "slurm_load_jobs error: Invalid job id specified\n", exit(1)} }
	jobs, err = c.Jobs(t.Context(), 4242)
	require.NoError(t, err)
	require.Empty(t, jobs)
}

// squeue merges a requeued array task into the record of the array's pending
// tasks.
func TestActiveJobsFindsRequeuedArrayTasks(t *testing.T) {
	table := row(map[string]string{"JobID": "8", "ArrayTaskID": "1-3"}) + row(map[string]string{"JobID": "5", "State": "COMPLETED"})
	c, f := newFake(t, nil)
	f.answer = func(args []string) answer {
		switch {
		case strings.Contains(strings.Join(args, " "), "-j 9"):
			return answer{stdout: row(map[string]string{"JobID": "9", "ArrayTaskID": "1"})}
		case args[len(args)-1] == "JobID:12":
			return answer{stdout: "8           \n9           \n8           \n5           \n"}
		}
		return answer{stdout: table}
	}
	jobs, err := c.ActiveJobs(t.Context())
	require.NoError(t, err)
	require.Len(t, jobs, 2, "and no ended job")
	require.Equal(t, []int{8, 9}, []int{jobs[0].ID, jobs[1].ID})

	f.ran, table = nil, row(map[string]string{"JobID": "5"})
	_, err = c.ActiveJobs(t.Context())
	require.NoError(t, err)
	require.Len(t, f.ran, 1, "without pending arrays one call is enough")
}

// hang is a Runner that waits for its context.
type hang struct{}

func (hang) Run(ctx context.Context, _ string, _, _ []string) ([]byte, []byte, error) {
	<-ctx.Done()
	return nil, []byte("scontrol: error: s_p_parse_file: cannot stat file /x, retrying\n"), ctx.Err()
}

func TestACommandThatHangsIsUnreachable(t *testing.T) {
	c, err := NewCommands(Options{Runner: hang{}, Timeout: time.Millisecond})
	require.NoError(t, err)
	_, err = c.Nodes(t.Context())
	require.True(t, Unreachable(err))
	require.ErrorContains(t, err, "no answer within 1ms")
	require.ErrorContains(t, err, "cannot stat file /x")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = c.Nodes(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.False(t, Unreachable(err), "the caller has given up, Slurm may be well")
}

func TestExecRunnerTellsOutputFromErrors(t *testing.T) {
	out, errs, err := ExecRunner{}.Run(t.Context(), "/bin/sh", []string{"-c", `echo "$A"; echo oops >&2; exit 3`}, []string{"A=b"})
	require.Equal(t, "b\n", string(out))
	require.Equal(t, "oops\n", string(errs))
	var code interface{ ExitCode() int }
	require.ErrorAs(t, err, &code)
	require.Equal(t, 3, code.ExitCode())
}

func TestLongArgumentsAreShortenedInErrors(t *testing.T) {
	e := &CommandError{Program: "scontrol", Args: []string{"update", "nodename=" + strings.Repeat("n,", 50000)}, ExitCode: 1, Stderr: "bad\nworse", Err: exit(1)}
	require.Less(t, len(e.Error()), 200)
	require.True(t, strings.HasSuffix(e.Error(), ": bad"))
}

func TestChunk(t *testing.T) {
	require.Equal(t, [][]string{{"aa", "bb"}, {"cc"}, {"dddddddd"}, {"e"}}, chunk([]string{"aa", "bb", "cc", "dddddddd", "e"}, 5))
	require.Empty(t, chunk(nil, 5))
}

func FuzzChunk(f *testing.F) {
	f.Add("a b cc ddd", 4)
	f.Fuzz(func(t *testing.T, text string, max int) {
		words := strings.Fields(text)
		var all []string
		for _, run := range chunk(words, max) {
			require.NotEmpty(t, run)
			require.True(t, len(run) == 1 || len(strings.Join(run, ",")) <= max)
			all = append(all, run...)
		}
		require.Equal(t, words, append([]string{}, all...))
	})
}
