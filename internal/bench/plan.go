package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/config"
	"github.com/midair-hpc/midair/internal/controller"
	"github.com/midair-hpc/midair/internal/ledger"
	"github.com/midair-hpc/midair/internal/slurm"
	"github.com/midair-hpc/midair/internal/spool"
)

// envPlanChild makes this program do the planning and report on itself, so
// that its CPU time and peak memory are its own.
const envPlanChild = "MIDAIR_BENCH_PLAN"

// planReport is what the child says.
type planReport struct {
	CPUSeconds  float64 `json:"cpu_s"`
	WallSeconds float64 `json:"wall_s"`
	PeakMiB     float64 `json:"peak_mib"`
	Scontrol    int64   `json:"scontrol"`
	Squeue      int64   `json:"squeue"`
	Creates     int     `json:"creates"`
	Addressing  int     `json:"addressing"` // scontrol calls that set addresses
}

// plan5000 measures the controller's own work for one request of 500 jobs with
// ten nodes each: reading the request, planning, the ledger, the create calls
// and the addresses, with a provider that answers at once and a scontrol that
// only records.
func plan5000(ctx context.Context, env environment) ([]Line, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var cpu, peak []float64
	var last planReport
	for range 5 {
		dir, err := os.MkdirTemp(env.scratch, "plan-")
		if err != nil {
			return nil, err
		}
		cmd := exec.CommandContext(ctx, self)
		cmd.Env = append(os.Environ(), envPlanChild+"="+dir)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("plan in a process of its own: %w", err)
		}
		if err := json.Unmarshal(out, &last); err != nil {
			return nil, fmt.Errorf("read the plan's report: %w", err)
		}
		cpu, peak = append(cpu, last.CPUSeconds), append(peak, last.PeakMiB)
	}
	c, cspan := summary(cpu)
	p, pspan := summary(peak)
	note := fmt.Sprintf("%d create calls, %d scontrol (%d of them set addresses), %d squeue, %.1f s wall", last.Creates, last.Scontrol, last.Addressing, last.Squeue, last.WallSeconds)
	return []Line{
		{Name: "plan-5000", Ours: c, OursRange: cspan, Runs: len(cpu), Unit: "s CPU", Note: note},
		{Name: "plan-5000-memory", Ours: p, OursRange: pspan, Runs: len(peak), Unit: "MiB peak"},
	}, nil
}

const planNodes, planJobs = 5000, 500

func planChild(ctx context.Context, dir string) error {
	cfg, err := config.Parse("bench.yaml", []byte(`cluster: bench
ledger: sqlite://`+filepath.Join(dir, "ledger.db")+`
providers: {fast: {kind: local, network: 10.0.0.0/16, types: {g1: {cpus: 1, memory: 1G, prices: {spot: 1 USD}}}}}
pools:
  - {name: spot, nodes: "n[0001-5000]", provider: fast, node: {cpus: 1, memory: 500M}, offerings: [{types: [g1], zones: [za], markets: [spot]}]}
tiers: [{name: p2, qos: [p2], partitions: [spot]}]
`))
	if err != nil {
		return err
	}
	led, _, err := ledger.Open(ctx, cfg.Ledger, slog.New(slog.DiscardHandler), time.Now)
	if err != nil {
		return err
	}
	defer led.Close()
	rec := newRecorder(planNodes, planJobs)
	client, err := slurm.NewCommands(slurm.Options{Runner: rec})
	if err != nil {
		return err
	}
	provider := &instant{}
	ids := 0
	c, err := controller.New(ctx, controller.Options{
		Config: cfg, Ledger: led, Slurm: client, Providers: map[string]cloud.Provider{"fast": provider}, SpoolDir: dir,
		Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})), Now: time.Now, Rand: func() float64 { return 0 },
		Crash: rec.reached,
		NewID: func() string { ids++; return fmt.Sprintf("l-%06d", ids) },
	})
	if err != nil {
		return err
	}
	if err := writeRequest(dir, planNodes, planJobs); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	began := time.Now()
	before, err := usage()
	if err != nil {
		return err
	}
	wake := make(chan struct{}, 1)
	wake <- struct{}{}
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx, wake) }()
	select {
	case <-rec.done:
	case err := <-ended:
		return errors.Join(errors.New("the controller ended before all nodes had addresses"), err)
	}
	cancel()
	<-ended
	after, err := usage()
	if err != nil {
		return err
	}
	calls := client.Calls()
	return json.NewEncoder(os.Stdout).Encode(planReport{
		CPUSeconds: cpuSeconds(after) - cpuSeconds(before), WallSeconds: time.Since(began).Seconds(), PeakMiB: float64(after.Maxrss) / 1024,
		Scontrol: calls["scontrol"], Squeue: calls["squeue"], Creates: provider.calls, Addressing: rec.updates,
	})
}

// writeRequest spools a power-up of nodes for as many jobs, each with its share.
func writeRequest(dir string, nodes, jobs int) error {
	type job struct {
		ID    int    `json:"job_id"`
		Nodes string `json:"nodes_resume"`
		Alloc string `json:"nodes_alloc"`
	}
	file := struct {
		All  string `json:"all_nodes_resume"`
		Jobs []job  `json:"jobs"`
	}{All: fmt.Sprintf("n[0001-%04d]", nodes)}
	per := nodes / jobs
	for i := range jobs {
		n := fmt.Sprintf("n[%04d-%04d]", i*per+1, (i+1)*per)
		file.Jobs = append(file.Jobs, job{i + 1, n, n})
	}
	text, err := json.Marshal(file)
	if err != nil {
		return err
	}
	_, err = spool.Write(dir, spool.Record{Kind: spool.Resume, At: time.Now(), Nodes: file.All, ResumeFile: string(text)})
	return err
}

func usage() (syscall.Rusage, error) {
	var ru syscall.Rusage
	err := syscall.Getrusage(syscall.RUSAGE_SELF, &ru)
	return ru, err
}

func cpuSeconds(ru syscall.Rusage) float64 {
	return time.Duration(ru.Utime.Nano() + ru.Stime.Nano()).Seconds()
}

// recorder is a Slurm that only records: every node is powering up, every job
// waits for its nodes, updates are counted.
type recorder struct {
	want, count int // nodes and jobs
	done        chan struct{}

	mu        sync.Mutex
	addressed int
	updates   int // calls that set addresses
}

func newRecorder(nodes, jobs int) *recorder {
	return &recorder{want: nodes, count: jobs, done: make(chan struct{})}
}

// reached is called where the controller could be killed: all is done when the
// last addresses are on record.
func (r *recorder) reached(point string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if point == "addresses-recorded" && r.addressed == r.want {
		close(r.done)
	}
}

func (r *recorder) Run(_ context.Context, path string, args, _ []string) (stdout, stderr []byte, err error) {
	switch {
	case strings.HasSuffix(path, "squeue"):
		return r.jobs(args), nil, nil
	case slices.Contains(args, "show"):
		return r.nodes(), nil, nil
	case slices.Contains(args, "update"):
		for _, a := range args {
			if list, ok := strings.CutPrefix(strings.ToLower(a), "nodeaddr="); ok {
				r.mu.Lock()
				r.updates++
				r.addressed += strings.Count(list, ",") + 1
				r.mu.Unlock()
			}
		}
	}
	return nil, nil, nil
}

func (r *recorder) nodes() []byte {
	var b strings.Builder
	for i := 1; i <= r.want; i++ {
		fmt.Fprintf(&b, "NodeName=n%04[1]d CoresPerSocket=1  CPUAlloc=1 CPUEfctv=1 CPUTot=1 CPULoad=N/A AvailableFeatures=(null) ActiveFeatures=(null) Gres=(null) NodeAddr=n%04[1]d NodeHostName=n%04[1]d  RealMemory=500 AllocMem=0 FreeMem=N/A Sockets=1 Boards=1 State=ALLOCATED+CLOUD+NOT_RESPONDING+POWERING_UP ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A Partitions=spot  BootTime=None SlurmdStartTime=None LastBusyTime=Unknown CfgTRES=cpu=1,mem=500M,billing=1 AllocTRES= CapWatts=n/a CurrentWatts=0 AveWatts=0 ExtSensorsJoules=n/s ExtSensorsWatts=0 ExtSensorsTemp=n/s\n", i)
	}
	return []byte(b.String())
}

// jobs prints the columns that were asked for with -O field:width,….
func (r *recorder) jobs(args []string) []byte {
	var format string
	for i, a := range args {
		if a == "-O" && i+1 < len(args) {
			format = args[i+1]
		}
	}
	var b strings.Builder
	per := r.want / r.count
	for id := 1; id <= r.count; id++ {
		for _, f := range strings.Split(format, ",") {
			name, w, _ := strings.Cut(f, ":")
			width, _ := strconv.Atoi(w) // 0: no width
			value := map[string]string{
				"JobID": strconv.Itoa(id), "State": "CONFIGURING", "RestartCnt": "0", "BatchFlag": "1", "NumNodes": strconv.Itoa(per),
				"TimeLimit": "1:00:00", "SubmitTime": "1700000000", "EligibleTime": "1700000000", "StartTime": "1700000000", "ArrayTaskID": "N/A", "Deadline": "N/A",
				"UserName": "alice", "Account": "research", "QOS": "p2", "Partition": "spot",
			}[name]
			fmt.Fprintf(&b, "%-*s", width, value)
		}
		b.WriteByte('\n')
	}
	return []byte(b.String())
}

// instant is a cloud that answers at once and never says no.
type instant struct {
	mu    sync.Mutex
	calls int
	next  netip.Addr
}

func (p *instant) Launch(_ context.Context, r cloud.LaunchRequest) (cloud.LaunchResult, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls++
	if !p.next.IsValid() {
		p.next = netip.MustParseAddr("10.0.0.2")
	}
	var res cloud.LaunchResult
	for _, n := range r.Nodes {
		res.Instances = append(res.Instances, cloud.Instance{ID: "i-" + n.Name, Node: n.Name, Generation: n.Generation, Launch: n.Launch, Token: r.Token,
			Pool: r.Pool, Offering: r.Offerings[0], Addr: p.next.String(), State: cloud.Pending, CreatedAt: time.Now(), Tags: n.Tags})
		p.next = p.next.Next()
	}
	return res, nil
}

func (p *instant) List(context.Context, string) ([]cloud.Instance, error) { return nil, nil }

func (p *instant) Terminate(context.Context, []string) error { return nil }

func (p *instant) Quotes(_ context.Context, offerings []cloud.Offering) ([]cloud.Quote, error) {
	quotes := make([]cloud.Quote, len(offerings))
	for i, o := range offerings {
		quotes[i] = cloud.Quote{Offering: o}
	}
	return quotes, nil
}

func (p *instant) Name(context.Context, []cloud.Instance) error { return nil }

func (p *instant) Console(context.Context, string) (string, error) { return "", nil }

var _ cloud.Provider = (*instant)(nil)
