package spool

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
	"time"
)

// Decode reads a record's text, of any version up to Version. The record has no
// Name. Keys that this version does not know are ignored, a kind that it does
// not know is not.
func Decode(text []byte) (Record, error) {
	if len(text) > MaxSize {
		return Record{}, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, MaxSize)
	}
	r, err := decodeAny(text)
	if err != nil {
		return Record{}, err
	}
	switch {
	case r.Kind == "":
		return Record{}, errors.New("it has no kind")
	case r.At.IsZero():
		return Record{}, errors.New("it has no time")
	case r.At.Before(earliest) || r.At.After(latest):
		return Record{}, fmt.Errorf("its time %s is not between 1970 and 2262", r.At)
	case r.JobID < 0:
		return Record{}, fmt.Errorf("its job is %d", r.JobID)
	}
	return r, nil
}

func decodeAny(text []byte) (Record, error) {
	if bytes.HasPrefix(text, []byte("{")) {
		return decode1(text)
	}
	rest, ok := bytes.CutPrefix(text, []byte(magic))
	if !ok {
		return Record{}, fmt.Errorf("it is no spool record: it does not start with %q", magic)
	}
	version, rest, ok := bytes.Cut(rest, []byte("\n"))
	switch n, err := strconv.Atoi(string(version)); {
	case !ok:
		return Record{}, errors.New("it is cut off in its first line")
	case err != nil:
		return Record{}, fmt.Errorf("it is no spool record: its version is %q", version)
	case n != Version:
		return Record{}, fmt.Errorf("its version is %d; this midair reads versions 1 and %d", n, Version)
	}
	return decode2(rest, crc32.ChecksumIEEE(text[:len(text)-len(rest)]))
}

// decode2 reads what follows the first line of a record of version 2; sum is
// the checksum so far.
func decode2(rest []byte, sum uint32) (Record, error) {
	r := Record{Version: Version}
	var tail tail
	seen := map[string]bool{}
	for n := 2; ; n++ {
		line, after, ended := bytes.Cut(rest, []byte("\n"))
		if !ended {
			return Record{}, fmt.Errorf("it is cut off in line %d", n)
		}
		key, value, ok := strings.Cut(string(line), " ")
		if key != keySum {
			sum = crc32.Update(sum, crc32.IEEETable, rest[:len(line)+1])
		}
		rest = after
		if len(line) == 0 {
			break
		}
		if !ok {
			return Record{}, fmt.Errorf("line %d: want a key and a value, got %q", n, line)
		}
		if seen[key] {
			return Record{}, fmt.Errorf("line %d: %s is there twice", n, key)
		}
		seen[key] = true
		if err := r.set(key, value, &tail); err != nil {
			return Record{}, fmt.Errorf("line %d: read %s: %w", n, key, err)
		}
	}
	sum = crc32.Update(sum, crc32.IEEETable, rest)
	switch {
	case len(rest) != tail.size:
		return Record{}, fmt.Errorf("it should have %d bytes of resume file and has %d", tail.size, len(rest))
	case !seen[keySum]:
		return Record{}, errors.New("it has no sum")
	case tail.sum != sum:
		return Record{}, fmt.Errorf("it is damaged: its sum is %08x, it says %08x", sum, tail.sum)
	}
	r.ResumeFile = string(rest)
	return r, nil
}

// tail is what the head says about the whole record.
type tail struct {
	size int    // bytes of resume file
	sum  uint32 // checksum
}

// set takes over one line of the head.
func (r *Record) set(key, value string, t *tail) (err error) {
	switch key {
	case keyKind:
		r.Kind = Kind(value)
	case keyAt:
		r.At, err = time.Parse(time.RFC3339Nano, value)
	case keyNodes:
		r.Nodes, err = unquote(value)
	case keyJob:
		r.JobID, err = number(value)
	case keySlurmConf:
		r.SlurmConf, err = unquote(value)
	case keyResumeFileError:
		r.ResumeFileError, err = unquote(value)
	case keyResumeFile:
		t.size, err = number(value)
	case keySum:
		var sum uint64
		sum, err = strconv.ParseUint(value, 16, 32)
		t.sum = uint32(sum)
	}
	return err
}

func unquote(value string) (string, error) {
	text, err := strconv.Unquote(value)
	if err != nil || value[0] != '"' { // Unquote also knows '' and backquotes
		return "", fmt.Errorf("want a text in double quotes, got %q", value)
	}
	return text, nil
}

func number(value string) (int, error) {
	n, err := strconv.Atoi(value)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("want a number, got %q", value)
	}
	return n, nil
}
