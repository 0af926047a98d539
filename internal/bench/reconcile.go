package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/config"
	"github.com/midair-hpc/midair/internal/controller"
	"github.com/midair-hpc/midair/internal/ledger"
	"github.com/midair-hpc/midair/internal/slurm"
)

// envReconcileChild is envPlanChild for the reconciler.
const envReconcileChild = "MIDAIR_BENCH_RECONCILE"

const (
	reconcileNodes  = 10_000
	reconcilePasses = 6 // the first learns, the later ones also act
)

// reconcileReport is what the child says, per pass.
type reconcileReport struct {
	CPUSeconds  float64 `json:"cpu_s"`
	WallSeconds float64 `json:"wall_s"`
	PeakMiB     float64 `json:"peak_mib"`
	Terminated  int     `json:"terminated"`
	Scontrol    int64   `json:"scontrol"`
}

// reconcile10000 measures whole passes of the controller over 10,000 nodes
// and as many instances: the listing, scontrol's text read, the comparison and
// what follows from it for the few that differ.
func reconcile10000(ctx context.Context, env environment) ([]Line, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	var cpu, peak []float64
	var last reconcileReport
	for range 5 {
		dir, err := os.MkdirTemp(env.scratch, "reconcile-")
		if err != nil {
			return nil, err
		}
		cmd := exec.CommandContext(ctx, self)
		cmd.Env = append(os.Environ(), envReconcileChild+"="+dir)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			return nil, fmt.Errorf("reconcile in a process of its own: %w", err)
		}
		if err := json.Unmarshal(out, &last); err != nil {
			return nil, fmt.Errorf("read the reconciler's report: %w", err)
		}
		cpu, peak = append(cpu, last.CPUSeconds), append(peak, last.PeakMiB)
	}
	c, cspan := summary(cpu)
	p, pspan := summary(peak)
	note := fmt.Sprintf("a pass; %d orphans terminated and %d scontrol in %d passes, %.2f s wall each", last.Terminated, last.Scontrol, reconcilePasses, last.WallSeconds)
	return []Line{
		{Name: "reconcile-10000", Ours: c, OursRange: cspan, Runs: len(cpu), Unit: "s CPU", Note: note},
		{Name: "reconcile-10000-memory", Ours: p, OursRange: pspan, Runs: len(peak), Unit: "MiB peak"},
	}, nil
}

func reconcileChild(ctx context.Context, dir string) error {
	cfg, err := config.Parse("bench.yaml", []byte(`cluster: bench
ledger: sqlite://`+filepath.Join(dir, "ledger.db")+`
providers: {fast: {kind: local, network: 10.0.0.0/16, types: {g1: {cpus: 1, memory: 1G, prices: {spot: 1 USD}}}}}
pools:
  - {name: spot, nodes: "n[00001-10000]", provider: fast, node: {cpus: 1, memory: 500M}, offerings: [{types: [g1], zones: [za], markets: [spot]}]}
tiers: [{name: p2, qos: [p2], partitions: [spot]}]
reconcile: {every: 100ms, grace: 1ms, max_terminations: 1000}
`))
	if err != nil {
		return err
	}
	led, _, err := ledger.Open(ctx, cfg.Ledger, slog.New(slog.DiscardHandler), time.Now)
	if err != nil {
		return err
	}
	defer led.Close()
	here := newStanding()
	if err := led.Update(ctx, func(tx *ledger.Tx) error { return tx.AddInstances(here.recorded) }); err != nil {
		return err
	}
	here.recorded = nil
	client, err := slurm.NewCommands(slurm.Options{Runner: here})
	if err != nil {
		return err
	}
	ids := 0
	c, err := controller.New(ctx, controller.Options{
		Config: cfg, Ledger: led, Slurm: client, Providers: map[string]cloud.Provider{"fast": here}, SpoolDir: dir,
		Log: slog.New(slog.DiscardHandler), Now: time.Now, Rand: func() float64 { return 0 },
		NewID: func() string { ids++; return fmt.Sprintf("l-%06d", ids) },
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx, nil) }()
	select {
	case <-here.done:
	case err := <-ended:
		return errors.Join(errors.New("the controller ended before its passes were over"), err)
	case <-ctx.Done():
		return errors.New("the controller made no passes for two minutes")
	}
	cancel()
	<-ended
	r := here.report()
	r.Scontrol = client.Calls()["scontrol"]
	return json.NewEncoder(os.Stdout).Encode(r)
}

// standing is a cloud and a Slurm in which 10,000 nodes stand. Of each hundred
// instances one is of a node that is powered down and one has been taken back;
// two nodes more have an instance that is not on record or is not named.
type standing struct {
	instant
	recorded  []ledger.Instance
	instances []cloud.Instance
	text      []byte // of scontrol
	done      chan struct{}

	mu          sync.Mutex
	lists       int
	terminated  map[string]bool
	began       time.Time
	before, now syscall.Rusage
	wall        time.Duration
}

func newStanding() *standing {
	s := &standing{done: make(chan struct{}), terminated: map[string]bool{}}
	created := time.Now().Add(-time.Hour)
	var text strings.Builder
	for k := 1; k <= reconcileNodes; k++ {
		node, addr := fmt.Sprintf("n%05d", k), fmt.Sprintf("10.0.%d.%d", k/250, k%250+1)
		i := cloud.Instance{ID: fmt.Sprintf("i-%017x", k), Node: node, Generation: 1, Launch: fmt.Sprintf("l-%06d", k/10), Token: fmt.Sprintf("t-%06d", k/10), Pool: "spot",
			Offering: cloud.Offering{Type: "g1", Zone: "za", Market: cloud.Spot}, Addr: addr, State: cloud.Running, CreatedAt: created,
			Tags: map[string]string{cloud.TagTier: "p2", cloud.TagUser: "alice", cloud.TagAccount: "research"}}
		state := "ALLOCATED+CLOUD"
		onRecord := true
		switch k % 100 {
		case 1:
			state = "IDLE+CLOUD+POWERED_DOWN"
		case 2:
			i.State, i.Reclaimed, i.EndedAt = cloud.Terminated, true, created.Add(time.Minute)
		case 3:
			onRecord = false
		case 4:
			i.Node, i.Launch = "", ""
		}
		if onRecord {
			s.recorded = append(s.recorded, ledger.Instance{Provider: "fast", ID: i.ID, Node: node, Generation: 1, Launch: i.Launch, Token: i.Token, Pool: i.Pool,
				Offering: i.Offering, Addr: i.Addr, State: ledger.Live, CreatedAt: created, ReadyAt: created.Add(time.Minute)})
		}
		s.instances = append(s.instances, i)
		fmt.Fprintf(&text, "NodeName=%[1]s Arch=x86_64 CoresPerSocket=48  CPUAlloc=96 CPUEfctv=96 CPUTot=96 CPULoad=95.12 AvailableFeatures=a100 ActiveFeatures=a100 Gres=gpu:a100:8 NodeAddr=%[2]s NodeHostName=%[1]s Version=22.05.8 OS=Linux 6.1.0-18-amd64 #1 SMP PREEMPT_DYNAMIC Debian 6.1.76-1 (2024-02-01)  RealMemory=1126400 AllocMem=1024000 FreeMem=102400 Sockets=2 Boards=1 State=%[3]s ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A Partitions=a100-spot  BootTime=2026-03-04T12:00:00 SlurmdStartTime=2026-03-04T12:01:00 LastBusyTime=2026-03-04T12:02:00 CfgTRES=cpu=96,mem=1100G,billing=96,gres/gpu=8 AllocTRES=cpu=96,mem=1000G,gres/gpu=8 CapWatts=n/a CurrentWatts=0 AveWatts=0 ExtSensorsJoules=n/s ExtSensorsWatts=0 ExtSensorsTemp=n/s \n", node, addr, state)
	}
	s.text = []byte(text.String())
	return s
}

// List counts the passes: one ends before the next one lists.
func (s *standing) List(context.Context, string) ([]cloud.Instance, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lists++
	switch s.lists {
	case 1:
		s.began = time.Now()
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &s.before); err != nil {
			return nil, err
		}
	case reconcilePasses + 1:
		s.wall = time.Since(s.began)
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &s.now); err != nil {
			return nil, err
		}
		close(s.done)
	}
	list := make([]cloud.Instance, 0, len(s.instances))
	for _, i := range s.instances {
		if !s.terminated[i.ID] {
			list = append(list, i)
		}
	}
	return list, nil
}

func (s *standing) Terminate(_ context.Context, ids []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		s.terminated[id] = true
	}
	return nil
}

// Run is scontrol and squeue.
func (s *standing) Run(_ context.Context, path string, args, _ []string) (stdout, stderr []byte, err error) {
	if strings.HasSuffix(path, "scontrol") && len(args) > 2 && args[2] == "show" {
		return s.text, nil, nil
	}
	return nil, nil, nil
}

func (s *standing) report() reconcileReport {
	s.mu.Lock()
	defer s.mu.Unlock()
	return reconcileReport{
		CPUSeconds: (cpuSeconds(s.now) - cpuSeconds(s.before)) / reconcilePasses, WallSeconds: s.wall.Seconds() / reconcilePasses,
		PeakMiB: float64(s.now.Maxrss) / 1024, Terminated: len(s.terminated),
	}
}

var _ cloud.Provider = (*standing)(nil)
