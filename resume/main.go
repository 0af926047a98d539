// Command midair-resume is Slurm's ResumeProgram: records the request and returns in milliseconds.
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
	os.Exit(hook.Main("midair-resume", "ResumeProgram", version, spool.Resume, os.Args[1:]))
}
