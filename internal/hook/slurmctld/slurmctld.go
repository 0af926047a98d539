// Package slurmctld is the hooks that slurmctld runs for a job: PrologSlurmctld
// and EpilogSlurmctld. Only the prolog waits, and it never makes a job fail.
package slurmctld

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/midair-hpc/midair/internal/config"
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
		hook.NewLog().Error("called in a context this hook is not for", "SLURM_SCRIPT_CONTEXT", context)
		return hook.ExitUsage
	}
}

// prolog runs the site's own program, whose exit code keeps its meaning, then
// holds the job until its bought nodes have registered. Whatever goes wrong
// with the waiting, the answer is 0: the job then starts at slurmctld's own
// pace.
func prolog() int {
	// From here on a signal ends the wait and not the program, whose death
	// slurmctld would take for a failed prolog. It waits for the site's own
	// program, which decides for itself what a signal means.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer stop()
	log := hook.NewLog()
	job := os.Getenv("SLURM_JOB_ID")
	cfg, err := config.Load(config.Path())
	if err != nil {
		log.Error("the job is not held for its nodes", "job", job, "err", err)
		return hook.ExitOK
	}
	if code := runSite(log, cfg.Hooks.PrologSlurmctld); code != 0 {
		return code
	}
	id, bought, err := boughtNodes(cfg)
	if err != nil {
		log.Error("the job is not held for its nodes", "job", job, "err", err)
		return hook.ExitOK
	}
	if len(bought) == 0 {
		return hook.ExitOK
	}
	ctx, cancel := context.WithTimeout(ctx, cfg.Hooks.WaitLimit)
	defer cancel()
	wait(ctx, cfg, log, id, bought)
	return hook.ExitOK
}

// epilog records that a job with bought nodes has ended, then runs the site's
// own program.
func epilog() int {
	log := hook.NewLog()
	cfg, err := config.Load(config.Path())
	if err != nil {
		log.Error("the job's end is not recorded", "job", os.Getenv("SLURM_JOB_ID"), "err", err)
		return hook.ExitOK
	}
	id, bought, err := boughtNodes(cfg)
	if err != nil {
		log.Error("the job's end is not recorded", "job", os.Getenv("SLURM_JOB_ID"), "err", err)
	}
	if len(bought) > 0 {
		r := spool.Record{Kind: spool.Epilog, At: time.Now(), Nodes: hostlist.FoldSorted(bought), JobID: id}
		if _, err := spool.Write(spool.Dir(), r); err != nil {
			log.Error("the job's end is not recorded", "job", id, "err", err)
		}
	}
	return runSite(log, cfg.Hooks.EpilogSlurmctld)
}

// boughtNodes gives the job's nodes that are in one of midair's pools.
func boughtNodes(cfg *config.Config) (jobID int, bought []string, err error) {
	id, err := strconv.Atoi(os.Getenv("SLURM_JOB_ID"))
	if err != nil {
		return 0, nil, fmt.Errorf("read SLURM_JOB_ID: %w", err)
	}
	names, err := hostlist.Expand(os.Getenv("SLURM_JOB_NODELIST"))
	if err != nil {
		return id, nil, fmt.Errorf("read SLURM_JOB_NODELIST: %w", err)
	}
	for _, n := range names {
		if _, ok := cfg.PoolOf(n); ok {
			bought = append(bought, n)
		}
	}
	return id, bought, nil
}

// pipeGrace is how long the output of a site's program is waited for after it
// has ended: a child that it left in the background may keep it open for ever.
const pipeGrace = 2 * time.Second

// runSite runs the site's own program with the same environment and gives its
// exit code. A program that cannot be started counts as failed, as it would if
// slurm.conf named it.
func runSite(log *slog.Logger, path string) int {
	if path == "" {
		return 0
	}
	cmd := exec.Command(path)
	out := &hook.Lines{Log: log, Program: path}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.WaitDelay = pipeGrace
	err := cmd.Run()
	out.Flush()
	var exit *exec.ExitError
	switch {
	case err == nil || errors.Is(err, exec.ErrWaitDelay): // the latter only if it exited 0
		return 0
	case errors.As(err, &exit) && exit.ExitCode() > 0:
		return exit.ExitCode()
	}
	log.Error("run the site's program", "program", path, "err", err)
	return 1
}
