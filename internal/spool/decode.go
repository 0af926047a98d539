package spool

import (
	"bytes"
	"errors"
	"fmt"
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
	return decode2(rest)
}

// decode2 reads what follows the first line of a record of version 2.
func decode2(rest []byte) (Record, error) {
	r := Record{Version: Version}
	body := 0 // bytes of resume file
	seen := map[string]bool{}
	for n := 2; ; n++ {
		line, after, ended := bytes.Cut(rest, []byte("\n"))
		if !ended {
			return Record{}, fmt.Errorf("it is cut off in line %d", n)
		}
		rest = after
		if len(line) == 0 {
			break
		}
		key, value, ok := strings.Cut(string(line), " ")
		if !ok {
			return Record{}, fmt.Errorf("line %d: want a key and a value, got %q", n, line)
		}
		if seen[key] {
			return Record{}, fmt.Errorf("line %d: %s is there twice", n, key)
		}
		seen[key] = true
		if err := r.set(key, value, &body); err != nil {
			return Record{}, fmt.Errorf("line %d: read %s: %w", n, key, err)
		}
	}
	if len(rest) != body {
		return Record{}, fmt.Errorf("it should have %d bytes of resume file and has %d", body, len(rest))
	}
	r.ResumeFile = string(rest)
	return r, nil
}

// set takes over one line of the head.
func (r *Record) set(key, value string, body *int) (err error) {
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
		*body, err = number(value)
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
