package slurm

import (
	"bytes"
	"context"
	"os/exec"
	"time"
)

// Runner runs one command. Commands uses ExecRunner unless it is given
// another, such as one that records what is run.
type Runner interface {
	// Run runs the program at path and waits for it. A nil error means exit
	// status 0; another exit status is an error with an ExitCode() int in its
	// chain, such as an *exec.ExitError. The context's end kills the command.
	Run(ctx context.Context, path string, args, env []string) (stdout, stderr []byte, err error)
}

// ExecRunner runs commands as processes, without a shell.
type ExecRunner struct{}

// killGrace is how long a killed command's pipes are waited for: a child of it
// that keeps them open must not block midair.
const killGrace = 2 * time.Second

// Run implements Runner.
func (ExecRunner) Run(ctx context.Context, path string, args, env []string) (stdout, stderr []byte, err error) {
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = env
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.WaitDelay = killGrace
	err = cmd.Run()
	return out.Bytes(), errs.Bytes(), err
}
