package slurmconf_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/slurmconf"
)

// slurmctld is a real controller on a configuration folder of its own, with
// what midair renders for testdata/site.yaml. It has no nodes that run and no
// accounting, so jobs stay pending.
type slurmctld struct {
	dir  string
	conf string
	log  string
}

func startSlurmctld(t *testing.T) *slurmctld {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a real slurmctld")
	}
	const program = "/usr/sbin/slurmctld"
	if _, err := os.Stat(program); err != nil {
		t.Skip("needs Slurm: apt-get install slurmctld slurm-client")
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root, as the user that slurmctld runs as")
	}
	dir := t.TempDir()
	s := &slurmctld{dir: dir, conf: filepath.Join(dir, "slurm.conf"), log: filepath.Join(dir, "slurmctld.log")}
	host, err := os.Hostname()
	require.NoError(t, err)
	host, _, _ = strings.Cut(host, ".")
	for _, name := range []string{"state", "hooks"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o755))
	}
	hooks := filepath.Join(dir, "hooks")
	for _, name := range []string{"midair-resume", "midair-suspend", "midair-slurmctld-hook"} {
		require.NoError(t, os.WriteFile(filepath.Join(hooks, name), []byte("#!/bin/sh\nexit 0\n"), 0o755))
	}
	script, err := os.ReadFile("../../contrib/job_submit.lua")
	require.NoError(t, err)
	c := site(t)
	s.write(t, "midair.conf", slurmconf.SlurmConf(c, hooks))
	s.write(t, "gres.conf", slurmconf.GresConf(c))
	s.write(t, "midair_tiers.lua", slurmconf.TierTable(c))
	s.write(t, "job_submit.lua", string(script))
	s.write(t, "slurm.conf", fmt.Sprintf(`ClusterName=gpu1
SlurmctldHost=%s(127.0.0.1)
SlurmctldPort=%d
SlurmdPort=%d
SlurmUser=root
AuthType=auth/none
CredType=cred/none
StateSaveLocation=%[4]s/state
SlurmctldPidFile=%[4]s/slurmctld.pid
SlurmctldLogFile=%[4]s/slurmctld.log
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
GresTypes=gpu,nvme
PrivateData=cloud
MailProg=/bin/true
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
JobCompType=jobcomp/none
AccountingStorageType=accounting_storage/none
SlurmctldDebug=verbose
NodeName=onprem-1 NodeAddr=127.0.0.1 CPUs=1 RealMemory=1000
PartitionName=onprem Nodes=onprem-1 Default=YES
Include %[4]s/midair.conf
`, host, freePort(t), freePort(t), dir))

	var output bytes.Buffer
	cmd := exec.Command(program, "-D", "-f", s.conf)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &output, &output
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(10 * time.Second):
			_ = cmd.Process.Kill()
			<-ended
		}
	})
	deadline := time.Now().Add(30 * time.Second)
	for {
		out, err := s.run("scontrol", "ping")
		if err == nil && strings.Contains(out, "UP") {
			return s
		}
		select {
		case err := <-ended:
			ended <- err
			require.FailNow(t, "slurmctld ended", "%v\n%s\n%s", err, output.String(), s.logged(t))
		case <-time.After(50 * time.Millisecond):
		}
		require.True(t, time.Now().Before(deadline), "slurmctld does not answer: %s\n%s", out, s.logged(t))
	}
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func (s *slurmctld) write(t *testing.T, name, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o644))
}

func (s *slurmctld) run(argv ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), "SLURM_CONF="+s.conf)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (s *slurmctld) must(t *testing.T, argv ...string) string {
	t.Helper()
	out, err := s.run(argv...)
	require.NoError(t, err, "%s: %s", strings.Join(argv, " "), out)
	return out
}

func (s *slurmctld) logged(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(s.log)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// errors gives the lines of slurmctld's log that say error or fatal, without
// those that a first start and a machine without PMIx always have.
func (s *slurmctld) errors(t *testing.T) []string {
	t.Helper()
	var found []string
	for _, line := range strings.Split(s.logged(t), "\n") {
		usual := strings.Contains(line, "pmix") || strings.Contains(line, "Trying backup state save file") || strings.Contains(line, "Could not open")
		if !usual && (strings.Contains(line, "error:") || strings.Contains(line, "fatal:")) {
			found = append(found, line)
		}
	}
	return found
}

func TestSlurmctldTakesWhatIsRendered(t *testing.T) {
	s := startSlurmctld(t)
	// slurmctld looks at the power-saving programs after it answers.
	require.Eventually(t, func() bool { return strings.Contains(s.logged(t), "Running as primary controller") }, 10*time.Second, 50*time.Millisecond)
	require.Empty(t, s.errors(t))
	conf := s.must(t, "scontrol", "show", "config")
	for _, want := range []string{"ResumeRate              = 0 nodes/min", "SuspendRate             = 0 nodes/min", "ResumeTimeout           = 1200 sec",
		"SuspendTimeout          = 180 sec", "SuspendTime             = INFINITE", "TreeWidth               = 65533", "ReturnToService         = 2",
		"JobSubmitPlugins        = lua", "ResumeFailProgram       = " + s.dir + "/hooks/midair-slurmctld-hook"} {
		require.Contains(t, conf, want)
	}
	node := s.must(t, "scontrol", "show", "node", "a100-spot-064")
	for _, want := range []string{"CPUTot=4", "RealMemory=7900", "Gres=gpu:a100:1,gpu:t4:1,nvme:2", "AvailableFeatures=a100,spot", "Weight=50", "State=IDLE+CLOUD+POWERED_DOWN"} {
		require.Contains(t, node, want)
	}
	require.Contains(t, s.must(t, "scontrol", "show", "node", "a100-od-x"), "Gres=gpu:2")
	part := s.must(t, "scontrol", "show", "partition", "a100-spot")
	for _, want := range []string{"Nodes=a100-spot-[001-064]", "ResumeTimeout=1200", "SuspendTimeout=120", "SuspendTime=300"} {
		require.Contains(t, part, want)
	}
}

func TestSlurmctldObeysTheTiers(t *testing.T) {
	s := startSlurmctld(t)
	submit := func(args ...string) string {
		return strings.TrimSpace(s.must(t, append(append([]string{"sbatch", "--parsable", "-H"}, args...), "--wrap", "true")...))
	}
	job := func(id string) string { return s.must(t, "scontrol", "show", "job", id) }

	p2 := submit("--qos=p2")
	require.Contains(t, job(p2), "Partition=onprem,a100-spot,a100-od ")
	require.Contains(t, job(p2), "Requeue=1")
	require.Contains(t, job(p2), "AdminComment=midair: tier=p2")

	p0 := submit("--qos=p0")
	require.Contains(t, job(p0), "Partition=onprem ")
	require.Contains(t, job(p0), "AdminComment=midair: tier=p0")

	out, err := s.run("sbatch", "--qos=p0", "--partition=a100-spot", "--wrap", "true")
	require.Error(t, err)
	require.Contains(t, out, "error: midair: jobs of QOS p0 (tier p0) stay on the premises, and a100-spot is a cloud partition."+
		" Leave out --partition, or use --partition=onprem, or, if you may, --qos=p2.")
	require.Contains(t, out, "Access/permission denied")

	// Without accounting a job's record has no QOS, so the change names it.
	out, err = s.run("scontrol", "update", "jobid="+p0, "qos=p0", "partition=a100-spot")
	require.Error(t, err)
	require.Contains(t, out, "Access/permission denied")
	require.Contains(t, job(p0), "Partition=onprem ")
	s.must(t, "scontrol", "update", "jobid="+p0, "starttime=now+1hour")
	s.must(t, "scontrol", "release", p0)

	other := submit("--qos=normal", "--partition=a100-od")
	require.Contains(t, job(other), "Partition=a100-od ")
	require.NotContains(t, job(other), "AdminComment")

	out = s.must(t, "sbatch", "-H", "--no-requeue", "--qos=p1", "--wrap", "true")
	require.Contains(t, out, "midair: you asked for --no-requeue")

	// A table that changes is read when the script's time stamp changes, and
	// one that is broken leaves the old one in force.
	s.write(t, "midair_tiers.lua", "return nonsense.")
	later := time.Now().Add(2 * time.Second)
	require.NoError(t, os.Chtimes(filepath.Join(s.dir, "job_submit.lua"), later, later))
	require.Contains(t, job(submit("--qos=p2")), "Partition=onprem,a100-spot,a100-od ")
	require.Contains(t, s.logged(t), "using previous script")
	s.write(t, "midair_tiers.lua", `return { version = 1, cloud = {}, qos = { p2 = { tier = "new", partitions = "onprem", cloud = {} } } }`)
	later = later.Add(2 * time.Second)
	require.NoError(t, os.Chtimes(filepath.Join(s.dir, "job_submit.lua"), later, later))
	require.Contains(t, job(submit("--qos=p2")), "AdminComment=midair: tier=new")
}
