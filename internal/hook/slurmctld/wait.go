package slurmctld

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/midair-hpc/midair/internal/config"
	"github.com/midair-hpc/midair/internal/hold"
	"github.com/midair-hpc/midair/internal/hostlist"
	"github.com/midair-hpc/midair/internal/slurm"
	"github.com/midair-hpc/midair/internal/spool"
)

// Without the controller the hook asks Slurm itself, this often: seldom, since
// hundreds of hooks may wait at the same time.
const (
	askAgain  = time.Second
	pollEvery = 3 * time.Second
)

// wait returns when the job's nodes have registered, the job no longer waits
// for them, or ctx is done. It asks the controller, which watches for all
// hooks together; while the controller is away it asks Slurm.
func wait(ctx context.Context, cfg *config.Config, log *slog.Logger, jobID int, nodes []string) {
	q := hold.Question{JobID: jobID, Nodes: hostlist.FoldSorted(nodes)}
	var client slurm.Client
	told := false
	next := time.Now().Add(jitter(pollEvery))
	for ctx.Err() == nil {
		_, err := hold.Ask(ctx, spool.Dir(), q)
		if err == nil || ctx.Err() != nil {
			break
		}
		if !told {
			told = true
			log.Warn("the controller does not answer; the hook watches its nodes itself", "job", jobID, "err", err)
		}
		if !time.Now().Before(next) {
			next = time.Now().Add(jitter(pollEvery))
			if client == nil {
				c, err := slurm.NewCommands(slurm.Options{BinDir: cfg.Slurm.BinDir, Conf: cfg.Slurm.Conf, Log: log})
				if err != nil {
					log.Error("the job is not held for its nodes", "job", jobID, "err", err)
					return
				}
				client = c
			}
			if over(ctx, client, log, jobID, nodes) {
				return
			}
		}
		select {
		case <-time.After(jitter(askAgain)):
		case <-ctx.Done():
		}
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		log.Warn("the job was held as long as midair.yaml allows", "job", jobID, "limit", cfg.Hooks.WaitLimit)
	}
}

// jitter spreads hooks that were started together.
func jitter(d time.Duration) time.Duration {
	return d + time.Duration(rand.Float64()*float64(d)/2)
}

// over asks Slurm whether the wait is over. When it does not answer, it is not.
func over(ctx context.Context, client slurm.Client, log *slog.Logger, jobID int, nodes []string) bool {
	jobs, err := client.Jobs(ctx, jobID)
	if err != nil {
		log.Warn("ask Slurm for the job", "job", jobID, "err", err)
		return false
	}
	list, err := client.Nodes(ctx, nodes...)
	if err != nil {
		log.Warn("ask Slurm for the job's nodes", "job", jobID, "err", err)
		return false
	}
	return waitIsOver(jobs, list, nodes)
}

// waitIsOver decides: every node has registered, or the job is gone, no longer
// waits, or waits for other nodes.
func waitIsOver(jobs []slurm.Job, list []slurm.Node, nodes []string) bool {
	if len(jobs) == 0 || (jobs[0].State != "CONFIGURING" && jobs[0].State != "RUNNING") {
		return true
	}
	if names, err := hostlist.Expand(jobs[0].Nodes); err == nil {
		now := make(map[string]bool, len(names))
		for _, n := range names {
			now[n] = true
		}
		for _, n := range nodes {
			if !now[n] {
				return true
			}
		}
	}
	registered := map[string]bool{}
	for _, n := range list {
		registered[n.Name] = n.State.Registered()
	}
	for _, n := range nodes {
		if !registered[n] {
			return false
		}
	}
	return true
}
