// Command midair-suspend is Slurm's SuspendProgram: records the request and returns in milliseconds.
//
//go:debug containermaxprocs=0
package main

import (
	"os"

	"github.com/midair-hpc/midair/internal/hook"
	"github.com/midair-hpc/midair/internal/spool"
)

// version is set when midair is built.
var version = "devel"

func main() {
	os.Exit(hook.Main("midair-suspend", "SuspendProgram", version, spool.Suspend, os.Args[1:]))
}
