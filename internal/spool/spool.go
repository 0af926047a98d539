// Package spool is the request spool: what the hooks write and the controller
// reads. A record is a file; it is whole or it is not there.
//
// A writer makes a temporary file in the folder itself, syncs it, renames it and
// syncs the folder. So Read sees only complete records, and a record survives a
// power cut as soon as Write has returned. The checksum is for disks that lose
// what they have confirmed: Read reports such a record as broken. The
// temporary's name starts with a dot; what a killed hook leaves behind is
// ignored and swept up later.
//
// # Format
//
// A record is a head of lines, an empty line and the resume file as Slurm gave
// it, byte for byte:
//
//	midair-request 2
//	kind resume
//	at 2026-03-01T12:00:00.123456789Z
//	nodes "gpu-[1-4]"
//	slurm-conf "/etc/slurm/slurm.conf"
//	resume-file 81
//	sum d1de21b1
//
//	{"all_nodes_resume":"gpu-[1-4]","jobs":[{"job_id":7,"nodes_alloc":"gpu-[1-4]"}]}
//
// The first line is the format and its version. The others are a key, a space
// and a value, in any order, each key once:
//
//	kind               the hook: resume, suspend, fail or epilog
//	at                 when it was called, RFC 3339
//	nodes              hostlist, as Slurm gave it
//	job                the job's id, where the request is about one job
//	slurm-conf         SLURM_CONF of the hook
//	resume-file        how many bytes of resume file follow the empty line
//	resume-file-error  why there is no resume file although Slurm named one
//	sum                CRC-32 (IEEE) of the record without this line, in hex
//
// kind, at and sum are always there, the others where there is something to say.
// Texts are quoted as in Go (strconv.Quote), so that they hold any byte. A
// reader ignores keys that it does not know, and takes a record whose length or
// sum is not what it says for broken. Files are named by the time, the hook, its
// process id and a random number and end in .request.
//
// Version 1 is one JSON object in a file that ends in .json; it is still read.
// Writing it took the hooks, which live for milliseconds, longer than starting.
package spool

import (
	"os"
	"strings"
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

// Version is the format that Write writes.
const Version = 2

// MaxSize bounds a record's file, in bytes: 64 MiB is far above what a call for
// every node and job of the largest cluster needs (100 bytes or so for each
// job).
const MaxSize = 64 << 20

// Record is one request.
type Record struct {
	Version int // of the format it was read in
	Kind    Kind
	At      time.Time
	Nodes   string // hostlist, as Slurm gave it
	JobID   int    // 0: the request is not about one job
	// ResumeFile is SLURM_RESUME_FILE's content, byte for byte; it is not
	// parsed here, so that a strange one is not lost.
	ResumeFile string
	// ResumeFileError says why there is no ResumeFile although Slurm named one.
	ResumeFileError string
	SlurmConf       string

	// Name is the record's file name; set by Read, ignored by Write. Names sort
	// by At.
	Name string
}

// Times that a file's name can hold: nanoseconds since 1970 in 64 bits.
var (
	earliest = time.Unix(0, 0)
	latest   = time.Unix(0, 1<<63-1)
)

const (
	// tempPrefix marks files that are not records yet.
	tempPrefix = ".new-"
	// suffix marks records, suffix1 those of version 1.
	suffix  = ".request"
	suffix1 = ".json"
	// badDir holds records that could not be read.
	badDir = "bad"
)

// IsRecord reports whether a file of the spool is a record, by its name.
func IsRecord(name string) bool {
	return !strings.HasPrefix(name, ".") && (strings.HasSuffix(name, suffix) || strings.HasSuffix(name, suffix1))
}
