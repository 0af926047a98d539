// Package spool is the request spool: what the hooks write and the controller
// reads. A record is a file; it is whole or it is not there.
//
// A writer makes a temporary file in the folder itself, syncs it, renames it
// and syncs the folder, so that a record survives a power cut as soon as Write
// has returned, and so that Read never sees half of one. The temporary's name
// starts with a dot; what a killed hook leaves behind is ignored and swept up
// later.
package spool

import (
	"os"
	"time"
)

// DefaultDir is the spool; EnvDir overrides it.
const (
	DefaultDir = "/var/spool/midair"
	EnvDir     = "MIDAIR_SPOOL"
)

// Dir is the spool's folder: the environment's, or the default.
func Dir() string {
	if d := os.Getenv(EnvDir); d != "" {
		return d
	}
	return DefaultDir
}

// Kind is which hook wrote a record.
type Kind string

// The kinds of records.
const (
	Resume  Kind = "resume"  // ResumeProgram
	Suspend Kind = "suspend" // SuspendProgram
	Fail    Kind = "fail"    // ResumeFailProgram
	Epilog  Kind = "epilog"  // EpilogSlurmctld: a job with bought nodes has ended
)

// Version is the records' format.
const Version = 1

// MaxSize bounds a record's file, in bytes: 64 MiB is far above what a call for
// every node and job of the largest cluster needs (100 bytes or so for each
// job).
const MaxSize = 64 << 20

// Record is one request.
type Record struct {
	Version int       `json:"version"`
	Kind    Kind      `json:"kind"`
	At      time.Time `json:"at"`
	Nodes   string    `json:"nodes"` // hostlist, as Slurm gave it
	JobID   int       `json:"job_id,omitempty"`
	// ResumeFile is SLURM_RESUME_FILE's content, byte for byte, as a JSON
	// string; it is not parsed here, so that a strange one is not lost.
	ResumeFile string `json:"resume_file,omitempty"`
	// ResumeFileError says why there is no ResumeFile although Slurm named one.
	ResumeFileError string `json:"resume_file_error,omitempty"`
	SlurmConf       string `json:"slurm_conf,omitempty"`

	// Name is the record's file name; set by Read, ignored by Write. Names sort
	// by At.
	Name string `json:"-"`
}

const (
	// tempPrefix marks files that are not records yet.
	tempPrefix = ".new-"
	// suffix marks records.
	suffix = ".json"
	// badDir holds records that could not be read.
	badDir = "bad"
)
