// Package spool is the request spool: what the hooks write and the controller
// reads. A record is a file; it is whole or it is not there.
package spool

import (
	"encoding/json"
	"time"
)

// DefaultDir is the spool; EnvDir overrides it.
const (
	DefaultDir = "/var/spool/midair"
	EnvDir     = "MIDAIR_SPOOL"
)

// Kind is which hook wrote a record.
type Kind string

// The kinds of records.
const (
	Resume  Kind = "resume"  // ResumeProgram
	Suspend Kind = "suspend" // SuspendProgram
	Fail    Kind = "fail"    // ResumeFailProgram
	Epilog  Kind = "epilog"  // EpilogSlurmctld: a job with bought nodes has ended
)

// Record is one request.
type Record struct {
	Version int       `json:"version"` // 1
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

	// Name is the record's file name; set by Read, ignored by Write.
	Name string `json:"-"`
}

var _ = json.Marshal
