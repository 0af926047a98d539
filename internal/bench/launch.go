package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/midair-hpc/midair/internal/cloud/ec2sim"
	"github.com/midair-hpc/midair/internal/cloud/open"
	"github.com/midair-hpc/midair/internal/config"
	"github.com/midair-hpc/midair/internal/controller"
	"github.com/midair-hpc/midair/internal/ledger"
	"github.com/midair-hpc/midair/internal/slurm"
)

// envLaunchChild is envPlanChild for launches on EC2: a JSON launchOrder.
const envLaunchChild = "MIDAIR_BENCH_LAUNCH"

type launchOrder struct {
	Dir, URL, Credentials string
	Nodes                 int
}

// launch measures what midair itself does to launch so many one-node jobs
// through EC2's API: from the request in the spool to all addresses in Slurm.
// The stand-in for AWS is a process of its own and starts instances at once;
// scontrol only records.
func launch(nodes int) func(ctx context.Context, env environment) ([]Line, error) {
	return func(ctx context.Context, env environment) ([]Line, error) {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		var cpu, peak, wall []float64
		var last planReport
		var calls map[string]int
		for range 3 {
			if last, calls, err = launchOnce(ctx, env, self, nodes); err != nil {
				return nil, err
			}
			cpu, peak, wall = append(cpu, last.CPUSeconds), append(peak, last.PeakMiB), append(wall, last.WallSeconds)
		}
		c, cspan := summary(cpu)
		p, pspan := summary(peak)
		w, _ := summary(wall)
		name := fmt.Sprintf("launch-%d", nodes)
		note := fmt.Sprintf("%d create calls, %d DescribeInstances, %d other reads, %d CreateTags until then, %d scontrol (%d of them set addresses), %d squeue, %.1f s wall",
			calls["CreateFleet"]+calls["RunInstances"], calls["DescribeInstances"], reads(calls), calls["CreateTags"], last.Scontrol, last.Addressing, last.Squeue, w)
		return []Line{
			{Name: name, Ours: c, OursRange: cspan, Runs: len(cpu), Unit: "s CPU", Note: note},
			{Name: name + "-memory", Ours: p, OursRange: pspan, Runs: len(peak), Unit: "MiB peak"},
		}, nil
	}
}

// reads counts the calls that only ask, without DescribeInstances.
func reads(calls map[string]int) int {
	n := 0
	for action, k := range calls {
		switch action {
		case "CreateFleet", "RunInstances", "CreateTags", "DescribeInstances", "TerminateInstances":
		default:
			n += k
		}
	}
	return n
}

func launchOnce(ctx context.Context, env environment, self string, nodes int) (planReport, map[string]int, error) {
	var r planReport
	dir, err := os.MkdirTemp(env.scratch, "launch-")
	if err != nil {
		return r, nil, err
	}
	client, stop, err := startSim(ctx, env, dir)
	if err != nil {
		return r, nil, err
	}
	defer stop()
	credentials := filepath.Join(dir, "credentials")
	text := fmt.Sprintf("[default]\naws_access_key_id = %s\naws_secret_access_key = %s\n", ec2sim.DefaultCredential.AccessKeyID, ec2sim.DefaultCredential.SecretAccessKey)
	if err := os.WriteFile(credentials, []byte(text), 0o600); err != nil {
		return r, nil, err
	}
	order, err := json.Marshal(launchOrder{Dir: dir, URL: client.URL, Credentials: credentials, Nodes: nodes})
	if err != nil {
		return r, nil, err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), envLaunchChild+"="+string(order), "AWS_EC2_METADATA_DISABLED=true")
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return r, nil, fmt.Errorf("launch in a process of its own: %w", err)
	}
	if err := json.Unmarshal(out, &r); err != nil {
		return r, nil, fmt.Errorf("read the launch's report: %w", err)
	}
	st, err := client.Status(ctx)
	return r, st.Calls, err
}

// startSim starts the stand-in for AWS on a free port of this machine; stop
// ends it.
func startSim(ctx context.Context, env environment, dir string) (ec2sim.Client, func(), error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return ec2sim.Client{}, nil, err
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		return ec2sim.Client{}, nil, err
	}
	log, err := os.Create(filepath.Join(dir, "ec2sim.log"))
	if err != nil {
		return ec2sim.Client{}, nil, err
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, filepath.Join(env.programs, "midair"), "ec2sim", "serve", "--listen", addr, "--pending", "0s")
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return ec2sim.Client{}, nil, err
	}
	stop := func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait() // a signal ends it; how does not matter
	}
	client := ec2sim.Client{URL: "http://" + addr}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if _, err = client.Status(ctx); err == nil {
			return client, stop, nil
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			stop()
			return client, nil, fmt.Errorf("start the stand-in for AWS: %w", err)
		}
	}
}

func launchChild(ctx context.Context, text string) error {
	var o launchOrder
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return err
	}
	cfg, err := config.Parse("bench.yaml", fmt.Appendf(nil, `cluster: bench
ledger: sqlite://%s/ledger.db
providers: {east: {kind: aws, region: us-east-1, endpoint: "%s", credentials_file: %s, launch_template: midair, subnets: {us-east-1a: subnet-0a1b2c3d4e5f6000a, us-east-1b: subnet-0a1b2c3d4e5f6000b, us-east-1c: subnet-0a1b2c3d4e5f6000c}}}
pools:
  - {name: spot, nodes: "n[0001-%04d]", provider: east, node: {cpus: 2, memory: 3G}, offerings: [{types: [c7i.large, m7i.large], zones: [us-east-1a, us-east-1b, us-east-1c], markets: [spot]}]}
tiers: [{name: p2, qos: [p2], partitions: [spot]}]
`, o.Dir, o.URL, o.Credentials, o.Nodes))
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	led, _, err := ledger.Open(ctx, cfg.Ledger, slog.New(slog.DiscardHandler), time.Now)
	if err != nil {
		return err
	}
	defer led.Close()
	providers, err := open.All(cfg, time.Now, log)
	if err != nil {
		return err
	}
	rec := newRecorder(o.Nodes, o.Nodes)
	client, err := slurm.NewCommands(slurm.Options{Runner: rec})
	if err != nil {
		return err
	}
	ids := 0
	c, err := controller.New(ctx, controller.Options{
		Config: cfg, Ledger: led, Slurm: client, Providers: providers, SpoolDir: o.Dir, Log: log, Now: time.Now,
		Rand: func() float64 { return 0 }, Crash: rec.reached,
		NewID: func() string { ids++; return fmt.Sprintf("l-%06d", ids) },
	})
	if err != nil {
		return err
	}
	if err := writeRequest(o.Dir, o.Nodes, o.Nodes); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
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
	after, err := usage()
	if err != nil {
		return err
	}
	wall := time.Since(began)
	cancel()
	<-ended
	calls := client.Calls()
	return json.NewEncoder(os.Stdout).Encode(planReport{
		CPUSeconds: cpuSeconds(after) - cpuSeconds(before), WallSeconds: wall.Seconds(), PeakMiB: float64(after.Maxrss) / 1024,
		Scontrol: calls["scontrol"], Squeue: calls["squeue"], Addressing: rec.updates,
	})
}
