package slurm

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// live is a private slurmctld on a loopback port: no munge, slurmd or
// slurmdbd, cloud nodes that never boot.
type live struct {
	*Commands
	t    *testing.T
	conf string
}

const liveConf = `ClusterName=midairtest
SlurmctldHost=%[1]s(127.0.0.1)
SlurmctldPort=%[2]d
SlurmdPort=%[3]d
AuthType=auth/none
CredType=cred/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
SlurmUser=root
SlurmdUser=root
StateSaveLocation=%[4]s/state
SlurmdSpoolDir=%[4]s/spool
SlurmctldPidFile=%[4]s/slurmctld.pid
SlurmctldLogFile=%[4]s/slurmctld.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ResumeProgram=/bin/true
SuspendProgram=/bin/true
ResumeTimeout=600
SuspendTimeout=5
SuspendTime=600
ResumeRate=0
SuspendRate=0
SlurmctldParameters=idle_on_node_suspend,cloud_reg_addrs,power_save_interval=2,power_save_min_interval=0
PrivateData=cloud
NodeName=od-[001-250] CPUs=8 RealMemory=1000 State=CLOUD Feature=a100,big NodeAddr=127.0.0.1
PartitionName=od Nodes=od-[001-250] Default=YES
PartitionName=hidden Nodes=od-[001-010] Hidden=YES
`

func startLive(t *testing.T) *live {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a slurmctld; not with -short")
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root: SlurmUser=root keeps it free of munge and accounts")
	}
	slurmctld, err := exec.LookPath("/usr/sbin/slurmctld")
	if err != nil {
		t.Skip("needs slurmctld in /usr/sbin: ", err)
	}
	host, err := os.Hostname()
	require.NoError(t, err)
	host, _, _ = strings.Cut(host, ".")
	dir := t.TempDir()
	for _, d := range []string{"state", "spool"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, d), 0o700))
	}
	conf := filepath.Join(dir, "slurm.conf")
	require.NoError(t, os.WriteFile(conf, fmt.Appendf(nil, liveConf, host, freePort(t), freePort(t), dir), 0o644))

	cmd := exec.Command(slurmctld, "-D", "-f", conf)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	require.NoError(t, cmd.Start())
	gone := make(chan error, 1)
	go func() { gone <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-gone:
		case <-time.After(15 * time.Second):
		}
		// Its group: slurmctld and its slurmscriptd, in case either hangs.
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		if t.Failed() {
			log, _ := os.ReadFile(filepath.Join(dir, "slurmctld.log"))
			t.Logf("slurmctld.log:\n%s", log[max(0, len(log)-4000):])
		}
	})
	c, err := NewCommands(Options{Conf: conf})
	require.NoError(t, err)
	l := &live{c, t, conf}
	require.Eventually(t, func() bool {
		nodes, err := l.Nodes(t.Context())
		return err == nil && len(nodes) == 250
	}, 60*time.Second, 100*time.Millisecond, "slurmctld does not answer")
	return l
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// raw runs a command of Slurm's as a person would.
func (l *live) raw(program string, args ...string) string {
	l.t.Helper()
	cmd := exec.CommandContext(l.t.Context(), "/usr/bin/"+program, args...)
	cmd.Env = append(os.Environ(), "SLURM_CONF="+l.conf)
	out, err := cmd.CombinedOutput()
	require.NoError(l.t, err, "%s %q: %s", program, args, out)
	return string(out)
}

func (l *live) submit(args ...string) int {
	l.t.Helper()
	text, _, _ := strings.Cut(l.raw("sbatch", append([]string{"--parsable", "-o", "/dev/null"}, args...)...), ";")
	id, err := strconv.Atoi(strings.TrimSpace(text))
	require.NoError(l.t, err)
	return id
}

func (l *live) node(name string) Node {
	l.t.Helper()
	nodes, err := l.Nodes(l.t.Context(), name)
	require.NoError(l.t, err)
	require.Len(l.t, nodes, 1)
	return nodes[0]
}

func (l *live) job(id int) Job {
	l.t.Helper()
	jobs, err := l.Jobs(l.t.Context(), id)
	require.NoError(l.t, err)
	require.Len(l.t, jobs, 1)
	return jobs[0]
}

func TestLiveSlurmctld(t *testing.T) {
	l := startLive(t)
	v, err := l.Version(t.Context())
	require.NoError(t, err)
	require.True(t, v.AtLeast(20, 11), v)
	// In this order: jobs take the first nodes.
	for _, test := range []struct {
		name string
		run  func(*testing.T, *live)
	}{
		{"nodes", liveNodes}, {"addresses", liveAddresses}, {"states", liveStates},
		{"changes", liveChanges}, {"jobs", liveJobs}, {"arrays", liveArrays},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, &live{l.Commands, t, l.conf}) })
	}
}

// Each command has another way to say that nobody is there.
func TestLiveSlurmctldIsGone(t *testing.T) {
	l := startLive(t)
	text, err := os.ReadFile(l.conf)
	require.NoError(t, err)
	conf := filepath.Join(t.TempDir(), "slurm.conf")
	text = regexp.MustCompile(`(?m)^SlurmctldPort=.*$`).ReplaceAll(text, fmt.Appendf(nil, "SlurmctldPort=%d", freePort(t)))
	require.NoError(t, os.WriteFile(conf, text, 0o644))
	c, err := NewCommands(Options{Conf: conf, Timeout: time.Minute})
	require.NoError(t, err)
	comment := "x"
	calls := map[string]func(context.Context) error{
		"nodes":   func(ctx context.Context) error { _, err := c.Nodes(ctx, "od-001"); return err },
		"jobs":    func(ctx context.Context) error { _, err := c.Jobs(ctx, 1, 2); return err },
		"job":     func(ctx context.Context) error { _, err := c.Jobs(ctx, 1); return err },
		"active":  func(ctx context.Context) error { _, err := c.ActiveJobs(ctx); return err },
		"address": func(ctx context.Context) error { return c.SetAddresses(ctx, []NodeAddress{{"od-001", "10.0.0.1", ""}}) },
		"update":  func(ctx context.Context) error { return c.UpdateJob(ctx, 1, JobUpdate{Comment: &comment}) },
		"hold":    func(ctx context.Context) error { return c.HoldJob(ctx, 1) },
		"requeue": func(ctx context.Context) error { return c.RequeueJob(ctx, 1) },
	}
	type said struct {
		name string
		err  error
	}
	// At once: each takes Slurm's commands about 10 s.
	answers := make(chan said, len(calls))
	for name, call := range calls {
		go func() { answers <- said{name, call(t.Context())} }()
	}
	for range calls {
		a := <-answers
		require.True(t, Unreachable(a.err), "%s: %v", a.name, a.err)
		require.NotContains(t, a.err.Error(), "no answer within", a.name+" says so itself")
	}
}

func liveNodes(t *testing.T, l *live) {
	n := l.node("od-001")
	require.Equal(t, "IDLE+CLOUD+POWERED_DOWN", n.State.String(), "powered-down cloud nodes are seen")
	require.Equal(t, []string{"od", "hidden"}, n.Partitions)
	require.Equal(t, []string{"a100", "big"}, n.Features)
	require.Equal(t, 8, n.CPUs)
	require.Equal(t, 1000, n.MemoryMiB)

	l.raw("scontrol", "update", "nodename=od-002", "state=drain", "reason=State=IDLE NodeName=x Comment=a [root@1] Extra=2\nline two",
		"comment=one Reason=two\nNodeName=od-003 CoresPerSocket=1 State=DOWN ThreadsPerCore=1\nthree")
	n = l.node("od-002")
	require.Equal(t, "IDLE+CLOUD+DRAIN+POWERED_DOWN", n.State.String())
	require.Equal(t, "State=IDLE NodeName=x Comment=a [root@1] Extra=2 line two", n.Reason)
	require.Equal(t, "one Reason=two\nNodeName=od-003 CoresPerSocket=1 State=DOWN ThreadsPerCore=1\nthree", n.Comment)
	require.Equal(t, "IDLE+CLOUD+POWERED_DOWN", l.node("od-003").State.String())

	nodes, err := l.Nodes(t.Context(), "nope", "od-004", "od-250", "zzz-1")
	require.NoError(t, err)
	require.Len(t, nodes, 2)
	nodes, err = l.Nodes(t.Context(), "nope")
	require.NoError(t, err)
	require.Empty(t, nodes)
}

func liveAddresses(t *testing.T, l *live) {
	var addrs []NodeAddress
	for i := 1; i <= 200; i++ {
		addrs = append(addrs, NodeAddress{fmt.Sprintf("od-%03d", i), fmt.Sprintf("10.213.0.%d", i), fmt.Sprintf("ip-%d", i)})
	}
	before := l.Calls()["scontrol"]
	require.NoError(t, l.SetAddresses(t.Context(), addrs))
	require.Equal(t, before+1, l.Calls()["scontrol"])
	nodes, err := l.Nodes(t.Context())
	require.NoError(t, err)
	for _, n := range nodes[:200] {
		i, err := strconv.Atoi(strings.TrimPrefix(n.Name, "od-"))
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("10.213.0.%d", i), n.Addr)
		require.Equal(t, fmt.Sprintf("ip-%d", i), n.HostName)
	}

	err = l.SetAddresses(t.Context(), []NodeAddress{
		{"od-201", "10.213.1.1", ""}, {"od-201x", "10.213.1.2", ""}, {"od-202", "10.213.1.3", ""}, {"od-999", "10.213.1.4", ""},
	})
	var partial *NotAppliedError
	require.ErrorAs(t, err, &partial)
	require.ElementsMatch(t, []string{"od-201x", "od-999"}, partial.Nodes)
	require.Equal(t, "10.213.1.1", l.node("od-201").Addr)
	require.Equal(t, "10.213.1.3", l.node("od-202").Addr, "the node behind an unknown one as well")
}

func liveStates(t *testing.T, l *live) {
	names := []string{"od-020", "od-021", "od-022"}
	require.NoError(t, l.UpdateNodes(t.Context(), names, NodeUpdate{State: "down", Reason: "midair: out-of-stock: \"no\" a=b\nx"}))
	n := l.node("od-021")
	require.True(t, n.State.Down())
	require.Equal(t, `midair: out-of-stock: "no" a=b x`, n.Reason)
	require.NoError(t, l.UpdateNodes(t.Context(), names, NodeUpdate{State: "resume"}))
	require.False(t, l.node("od-021").State.Down())

	err := l.UpdateNodes(t.Context(), []string{"od-023", "aaa", "zzz"}, NodeUpdate{State: "drain", Reason: "test"})
	var partial *NotAppliedError
	require.ErrorAs(t, err, &partial)
	require.Equal(t, []string{"aaa", "zzz"}, partial.Nodes)
	require.True(t, l.node("od-023").State.Drained())

	err = l.UpdateNodes(t.Context(), []string{"od-024"}, NodeUpdate{State: "resume"})
	require.True(t, InvalidState(err), err)
	require.False(t, NotFound(err) || Unreachable(err))
	require.Error(t, l.UpdateNodes(t.Context(), []string{"od-024"}, NodeUpdate{State: "down"}), "Slurm wants a reason")

	require.NoError(t, l.UpdateNodes(t.Context(), []string{"od-030"}, NodeUpdate{State: "power_up"}))
	require.Eventually(t, func() bool { return l.node("od-030").State.PoweringUp() && !l.node("od-030").State.PoweredDown() }, 20*time.Second, 100*time.Millisecond)
	require.False(t, l.node("od-030").State.Registered())
	require.NoError(t, l.UpdateNodes(t.Context(), []string{"od-030"}, NodeUpdate{State: "power_down_force", Reason: "midair: quota: full"}))
	require.True(t, l.node("od-030").State.PoweringDown())
	require.Equal(t, "midair: quota: full", l.node("od-030").Reason)
}

func liveJobs(t *testing.T, l *live) {
	forged := row(map[string]string{"JobID": "1", "QOS": "p0", "NodeList": "x"})
	id := l.submit("-H", "-p", "od", "-N2", "-t", "1-02:03:00", "-J", "na|me\nJobId=99 x=y\ttab ümläut", "--comment="+forged[:900], "-C", "a100&big", "--wrap", "true")
	j := l.job(id)
	require.Equal(t, "na|me\nJobId=99 x=y\ttab ümläut", j.Name)
	require.Equal(t, strings.TrimRight(forged[:900], " "), j.Comment)
	require.Equal(t, "PENDING", j.State)
	require.Equal(t, "JobHeldUser", j.Reason)
	require.Equal(t, "root", j.User)
	require.Equal(t, "od", j.Partition)
	require.Equal(t, "a100&big", j.Features)
	require.Equal(t, 26*time.Hour+3*time.Minute, j.TimeLimit)
	require.Equal(t, 2, j.NumNodes)
	require.True(t, j.Batch)
	require.Empty(t, j.Nodes+j.QOS+j.Account+j.AdminComment)
	require.WithinDuration(t, time.Now(), j.SubmitTime, time.Minute)

	running := l.submit("-p", "od", "-N2", "-w", "od-[100-101]", "--wrap", "true")
	require.Eventually(t, func() bool { return l.job(running).State == "CONFIGURING" }, 20*time.Second, 100*time.Millisecond)
	require.Equal(t, "od-[100-101]", l.job(running).Nodes)

	het := l.submit("-H", "-N1", "-J", "het", "--wrap", "true", ":", "-N2")
	require.Equal(t, 1, l.job(het).NumNodes)
	require.Equal(t, 2, l.job(het+1).NumNodes, "the second component by its own raw id")

	hidden := l.submit("-H", "-p", "hidden", "--wrap", "true")
	jobs, err := l.Jobs(t.Context(), id, 99999, hidden, het)
	require.NoError(t, err)
	require.Equal(t, []int{id, het, hidden}, []int{jobs[0].ID, jobs[1].ID, jobs[2].ID})
	require.Len(t, jobs, 3)
	for _, unknown := range [][]int{{99999}, {99998, 99999}} {
		jobs, err = l.Jobs(t.Context(), unknown...)
		require.NoError(t, err)
		require.Empty(t, jobs)
	}

	l.raw("scancel", strconv.Itoa(hidden))
	require.Equal(t, "CANCELLED", l.job(hidden).State, "an ended job is known for a while")
	active, err := l.ActiveJobs(t.Context())
	require.NoError(t, err)
	ids := map[int]bool{}
	for _, j := range active {
		ids[j.ID] = true
	}
	require.True(t, ids[id] && ids[running] && ids[het] && ids[het+1])
	require.False(t, ids[hidden])
}

// A requeued task has a raw id of its own and waits beside the array's tasks
// that have never been started.
func liveArrays(t *testing.T, l *live) {
	array := l.submit("-p", "od", "-N1", "--exclusive", "--array=1-4%1", "--wrap", "true")
	var task int
	require.Eventually(t, func() bool {
		jobs, err := l.ActiveJobs(t.Context())
		require.NoError(t, err)
		for _, j := range jobs {
			if j.ID > array && j.State == "CONFIGURING" {
				task = j.ID
			}
		}
		return task > 0
	}, 20*time.Second, 100*time.Millisecond)
	require.NoError(t, l.RequeueJob(t.Context(), task))
	require.NoError(t, l.HoldJob(t.Context(), array))
	j := l.job(task)
	require.Equal(t, "PENDING", j.State)
	require.Equal(t, 1, j.Restarts)
	jobs, err := l.Jobs(t.Context(), array, task)
	require.NoError(t, err)
	require.Len(t, jobs, 2, "the task is not merged into its array")
	jobs, err = l.ActiveJobs(t.Context())
	require.NoError(t, err)
	found := 0
	for _, j := range jobs {
		if j.ID == task || j.ID == array {
			found++
		}
	}
	require.Equal(t, 2, found)
}

func liveChanges(t *testing.T, l *live) {
	id := l.submit("--begin=now+3600", "--wrap", "true")
	at := time.Now().Add(1234*time.Second + 500*time.Millisecond)
	comment, admin, empty := `midair: "quoted" a=b|c`, "image=x, data=y", ""
	require.NoError(t, l.UpdateJob(t.Context(), id, JobUpdate{StartTime: &at, Comment: &comment, AdminComment: &admin}))
	j := l.job(id)
	require.Equal(t, at.Unix()+1, j.EligibleTime.Unix())
	require.Equal(t, comment, j.Comment)
	require.Equal(t, admin, j.AdminComment)
	past := time.Now().Add(-time.Hour)
	require.NoError(t, l.HoldJob(t.Context(), id))
	require.NoError(t, l.UpdateJob(t.Context(), id, JobUpdate{StartTime: &past, Comment: &empty}))
	j = l.job(id)
	require.Empty(t, j.Comment)
	require.Equal(t, "JobHeldUser", j.Reason)

	require.ErrorContains(t, l.RequeueJob(t.Context(), id), "pending execution")
	for _, err := range []error{
		l.HoldJob(t.Context(), 99999), l.RequeueJob(t.Context(), 99999), l.UpdateJob(t.Context(), 99999, JobUpdate{Comment: &comment}),
	} {
		require.True(t, InvalidJob(err), err)
	}
}
