package spool

import (
	"errors"
	"strconv"
	"time"
)

// ErrTooLarge is in the chain of Write's error when the record is larger than
// MaxSize; without its ResumeFile it may fit.
var ErrTooLarge = errors.New("the record is too large")

// magic starts every record; the format's version follows.
const magic = "midair-request "

// The keys of a record's head.
const (
	keyKind            = "kind"
	keyAt              = "at"
	keyNodes           = "nodes"
	keyJob             = "job"
	keySlurmConf       = "slurm-conf"
	keyResumeFile      = "resume-file"
	keyResumeFileError = "resume-file-error"
)

// encodeHead gives the text of a record up to the resume file, which follows as
// it is.
func encodeHead(r Record) []byte {
	head := make([]byte, 0, 256+len(r.Nodes)) // mostly enough
	head = append(strconv.AppendInt(append(head, magic...), Version, 10), '\n')
	head = append(append(append(head, keyKind...), ' '), r.Kind...)
	head = append(append(append(head, '\n'), keyAt...), ' ')
	head = append(r.At.UTC().AppendFormat(head, time.RFC3339Nano), '\n')
	head = appendText(head, keyNodes, r.Nodes)
	head = appendNumber(head, keyJob, r.JobID)
	head = appendText(head, keySlurmConf, r.SlurmConf)
	head = appendText(head, keyResumeFileError, r.ResumeFileError)
	head = appendNumber(head, keyResumeFile, len(r.ResumeFile))
	return append(head, '\n')
}

func appendText(head []byte, key, value string) []byte {
	if value == "" {
		return head
	}
	head = append(append(head, key...), ' ')
	return append(strconv.AppendQuote(head, value), '\n')
}

func appendNumber(head []byte, key string, n int) []byte {
	if n <= 0 {
		return head
	}
	head = append(append(head, key...), ' ')
	return append(strconv.AppendInt(head, int64(n), 10), '\n')
}
