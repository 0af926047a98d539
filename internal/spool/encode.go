package spool

import (
	"errors"
	"hash/crc32"
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
	keySum             = "sum"
)

// encode gives a record's text.
func encode(r Record) []byte {
	const most = 256 // bytes of what is neither nodes nor resume file, mostly
	text := make([]byte, 0, most+len(r.Nodes)+len(r.ResumeFile))
	text = append(strconv.AppendInt(append(text, magic...), Version, 10), '\n')
	text = append(append(append(text, keyKind...), ' '), r.Kind...)
	text = append(append(append(text, '\n'), keyAt...), ' ')
	text = append(r.At.UTC().AppendFormat(text, time.RFC3339Nano), '\n')
	text = appendText(text, keyNodes, r.Nodes)
	text = appendNumber(text, keyJob, r.JobID)
	text = appendText(text, keySlurmConf, r.SlurmConf)
	text = appendText(text, keyResumeFileError, r.ResumeFileError)
	text = appendNumber(text, keyResumeFile, len(r.ResumeFile))

	before := len(text)
	text = append(append(text, keySum...), " 00000000\n"...)
	after := len(text)
	text = append(append(text, '\n'), r.ResumeFile...)
	sum := crc32.Update(crc32.ChecksumIEEE(text[:before]), crc32.IEEETable, text[after:])
	hex := strconv.AppendUint(nil, uint64(sum), 16)
	copy(text[after-1-len(hex):], hex)
	return text
}

func appendText(text []byte, key, value string) []byte {
	if value == "" {
		return text
	}
	text = append(append(text, key...), ' ')
	return append(strconv.AppendQuote(text, value), '\n')
}

func appendNumber(text []byte, key string, n int) []byte {
	if n <= 0 {
		return text
	}
	text = append(append(text, key...), ' ')
	return append(strconv.AppendInt(text, int64(n), 10), '\n')
}
