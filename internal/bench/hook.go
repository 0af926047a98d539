package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// hookResume measures one midair-resume call as slurmctld makes it: an empty
// environment but for the two variables that Slurm sets, 1000 nodes, a resume
// file of 100 jobs, the record on disk when it returns. The peer is the start
// that the Python hooks of other systems pay on every call before they do
// anything: importing boto3 and making an EC2 client.
func hookResume(ctx context.Context, env environment) ([]Line, error) {
	if _, err := os.Stat("/usr/bin/python3"); err != nil {
		return nil, fmt.Errorf("the peer needs Debian's python3-boto3: %w", err)
	}
	type job struct {
		ID    int    `json:"job_id"`
		Nodes string `json:"nodes_resume"`
		Alloc string `json:"nodes_alloc"`
	}
	file := struct {
		All  string `json:"all_nodes_resume"`
		Jobs []job  `json:"jobs"`
	}{All: "a100-spot-[0001-1000]"}
	for i := range 100 {
		n := fmt.Sprintf("a100-spot-[%04d-%04d]", i*10+1, i*10+10)
		file.Jobs = append(file.Jobs, job{1000 + i, n, n})
	}
	text, err := json.Marshal(file)
	if err != nil {
		return nil, err
	}
	resumeFile := filepath.Join(env.scratch, "resume.json")
	if err := os.WriteFile(resumeFile, text, 0o600); err != nil {
		return nil, err
	}
	disk := filepath.Join(env.scratch, "spool")
	if err := os.MkdirAll(disk, 0o750); err != nil {
		return nil, err
	}
	memory, err := os.MkdirTemp("/dev/shm", "midair-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(memory)

	hook := filepath.Join(env.programs, "midair-resume")
	command := func(spool string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, hook, file.All)
		cmd.Env = []string{"SLURM_CONF=/etc/slurm/slurm.conf", "SLURM_RESUME_FILE=" + resumeFile, "MIDAIR_SPOOL=" + spool}
		return cmd
	}
	peer := func() (time.Duration, error) {
		cmd := exec.CommandContext(ctx, "/usr/bin/python3", "-c", "import boto3; boto3.client('ec2')")
		cmd.Env = []string{"AWS_DEFAULT_REGION=us-east-1"}
		return timed(cmd)
	}
	var ours, inMemory, theirs []float64
	var rss int64
	const rounds, perRound = 9, 7
	for i := range rounds + 1 {
		for range perRound {
			d, err := timed(command(disk))
			if err != nil {
				return nil, err
			}
			m, err := timed(command(memory))
			if err != nil {
				return nil, err
			}
			if i > 0 { // the first round warms the caches
				ours, inMemory = append(ours, ms(d)), append(inMemory, ms(m))
			}
		}
		kib, err := peakKiB(command(disk))
		if err != nil {
			return nil, err
		}
		rss = max(rss, kib)
		d, err := peer()
		if err != nil {
			return nil, err
		}
		if i > 0 {
			theirs = append(theirs, ms(d))
		}
	}
	size, err := os.Stat(hook)
	if err != nil {
		return nil, err
	}
	med, span := summary(ours)
	mem, _ := summary(inMemory)
	pmed, pspan := summary(theirs)
	return []Line{
		{Name: "hook-resume-1000", Ours: med, OursRange: span, Peers: pmed, PeersRange: pspan, Runs: len(ours), Unit: "ms wall",
			Peer: "python3 -c \"import boto3; boto3.client('ec2')\"",
			Note: fmt.Sprintf("%.1f ms with the spool in memory, so %.0f%% is writing through to disk", mem, 100*(1-mem/med))},
		{Name: "hook-resume-1000-rss", Ours: float64(rss) / 1024, OursRange: [2]float64{0, float64(rss) / 1024}, Runs: len(ours), Unit: "MiB",
			Note: fmt.Sprintf("peak resident memory; the program is %.1f MiB", float64(size.Size())/(1<<20))},
	}, nil
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// timed runs a command and gives its wall time.
func timed(cmd *exec.Cmd) (time.Duration, error) {
	began := time.Now()
	out, err := cmd.CombinedOutput()
	d := time.Since(began)
	if err != nil {
		return d, fmt.Errorf("run %s: %w: %s", cmd.Path, err, out)
	}
	return d, nil
}

// peakKiB runs a command and gives its peak resident memory. wait4's maximum is
// no use for that: it counts the memory of the process that forked, which is
// larger than what a small program needs. So the program is traced and looked at
// when it is about to end.
func peakKiB(cmd *exec.Cmd) (int64, error) {
	runtime.LockOSThread() // a tracer is a thread
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("trace %s: %w", cmd.Path, err)
	}
	pid := cmd.Process.Pid
	var kib int64
	var ws syscall.WaitStatus
	if _, err := syscall.Wait4(pid, &ws, 0, nil); err != nil { // it stops before its first instruction
		return 0, fmt.Errorf("trace %s: %w", cmd.Path, err)
	}
	if err := syscall.PtraceSetOptions(pid, unix.PTRACE_O_TRACEEXIT); err != nil {
		return 0, fmt.Errorf("trace %s: %w", cmd.Path, err)
	}
	for signal := 0; ; {
		if err := syscall.PtraceCont(pid, signal); err != nil {
			return 0, fmt.Errorf("trace %s: %w", cmd.Path, err)
		}
		if _, err := syscall.Wait4(pid, &ws, syscall.WALL, nil); err != nil {
			return 0, fmt.Errorf("trace %s: %w", cmd.Path, err)
		}
		signal = 0
		switch {
		case ws.Exited() && ws.ExitStatus() == 0:
			return kib, nil
		case ws.Exited() || ws.Signaled():
			return 0, fmt.Errorf("trace %s: it ended with %d", cmd.Path, ws.ExitStatus())
		case ws.TrapCause() == unix.PTRACE_EVENT_EXIT:
			var err error
			if kib, err = highWater(pid); err != nil {
				return 0, err
			}
		case ws.Stopped() && ws.StopSignal() != syscall.SIGTRAP:
			signal = int(ws.StopSignal()) // its own, such as Go's to preempt
		}
	}
}

func highWater(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			return strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
		}
	}
	return 0, fmt.Errorf("/proc/%d/status has no VmHWM", pid)
}
