// Package slurmctld is the hooks that slurmctld runs for a job: PrologSlurmctld
// and EpilogSlurmctld. Only the prolog waits, and it never makes a job fail.
package slurmctld

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/midair-hpc/midair/internal/config"
	"github.com/midair-hpc/midair/internal/hold"
	"github.com/midair-hpc/midair/internal/hook"
	"github.com/midair-hpc/midair/internal/hostlist"
	"github.com/midair-hpc/midair/internal/spool"
)

// Run is midair-slurmctld-hook: which hook it is called as, it reads from
// SLURM_SCRIPT_CONTEXT; absent, it is ResumeFailProgram. It gives the exit
// code.
func Run(args []string) int {
	switch context := os.Getenv("SLURM_SCRIPT_CONTEXT"); context {
	case "prolog_slurmctld":
		return prolog()
	case "epilog_slurmctld":
		return epilog()
	case "":
		return hook.Record(spool.Fail, args)
	default:
		// Another code would drain the node where Prolog in slurm.conf names
		// this program by mistake.
		newLog().Error("this program is PrologSlurmctld, EpilogSlurmctld and ResumeFailProgram; it does nothing here", "SLURM_SCRIPT_CONTEXT", context)
		return hook.ExitOK
	}
}

// untilSignal gives a context that a signal ends. The signal does not end the
// hook, whose death slurmctld would take for a failed prolog.
func untilSignal() (context.Context, context.CancelFunc) {
	return signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
}

// prolog runs the site's own program, whose exit code keeps its meaning, then
// holds the job until its bought nodes have registered. Whatever goes wrong
// with the waiting, the answer is 0: the job then starts at slurmctld's own
// pace.
func prolog() int {
	ctx, stop := untilSignal()
	defer stop()
	log := newLog()
	cfg, err := config.Load(config.Path())
	if err != nil {
		log.Error("the job is not held for its nodes", "job", os.Getenv("SLURM_JOB_ID"), "err", err)
		return hook.ExitOK
	}
	if code := runSite(log, cfg.Hooks.PrologSlurmctld); code != 0 {
		return code
	}
	job, err := jobOf(cfg)
	if err != nil {
		log.Error("the job is not held for its nodes", "job", os.Getenv("SLURM_JOB_ID"), "err", err)
		return hook.ExitOK
	}
	if len(job.bought) == 0 || cfg.Hooks.WaitLimit <= 0 {
		return hook.ExitOK
	}
	ctx, cancel := context.WithTimeout(ctx, cfg.Hooks.WaitLimit)
	defer cancel()
	w := &waiter{
		job: job, log: log, slurm: commands(cfg, log),
		ask: func(ctx context.Context, q hold.Question) (hold.Answer, error) { return hold.Ask(ctx, spool.Dir(), q) },
	}
	w.wait(ctx)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		log.Warn("the job was held as long as midair.yaml allows", "job", job.id, "limit", cfg.Hooks.WaitLimit)
	}
	return hook.ExitOK
}

// epilog records that a job with bought nodes has ended, then runs the site's
// own program.
func epilog() int {
	_, stop := untilSignal()
	defer stop()
	log := newLog()
	cfg, err := config.Load(config.Path())
	if err != nil {
		log.Error("the job's end is not recorded", "job", os.Getenv("SLURM_JOB_ID"), "err", err)
		return hook.ExitOK
	}
	job, err := jobOf(cfg)
	if err == nil && len(job.bought) > 0 {
		_, err = spool.Write(spool.Dir(), spool.Record{
			Kind: spool.Epilog, At: time.Now().UTC(), Nodes: hostlist.FoldSorted(job.bought), JobID: job.id,
		})
	}
	if err != nil {
		log.Error("the job's end is not recorded", "job", os.Getenv("SLURM_JOB_ID"), "err", err)
	}
	return runSite(log, cfg.Hooks.EpilogSlurmctld)
}

// jobOf reads from the environment which job the hook is called for.
func jobOf(cfg *config.Config) (held, error) {
	all, err := hostlist.Expand(os.Getenv("SLURM_JOB_NODELIST"))
	if err != nil {
		return held{}, fmt.Errorf("read SLURM_JOB_NODELIST: %w", err)
	}
	job := held{all: all}
	for _, n := range all {
		if _, ok := cfg.PoolOf(n); ok {
			job.bought = append(job.bought, n)
		}
	}
	if len(job.bought) == 0 {
		return job, nil
	}
	if job.id, err = strconv.Atoi(os.Getenv("SLURM_JOB_ID")); err != nil {
		return held{}, fmt.Errorf("read SLURM_JOB_ID: %w", err)
	}
	return job, nil
}
