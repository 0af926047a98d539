package spool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// ErrTooLarge is in the chain of Write's error when the record is larger than
// MaxSize; without its ResumeFile it may fit.
var ErrTooLarge = errors.New("the record is too large")

// file is a record as it lies on disk.
type file struct {
	Record
	// Raw is the resume file where it is not UTF-8, which a JSON string cannot
	// hold: users put what they like into a job's fields.
	Raw []byte `json:"resume_file_base64,omitempty"`
}

// encode gives the text of a record, one line.
func encode(r Record) ([]byte, error) {
	f := file{Record: r}
	f.Version = Version
	if !utf8.ValidString(r.ResumeFile) {
		f.ResumeFile, f.Raw = "", []byte(r.ResumeFile)
	}
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false) // a third of the size of some resume files
	if err := e.Encode(f); err != nil {
		return nil, fmt.Errorf("encode spool record: %w", err)
	}
	if text.Len() > MaxSize {
		return nil, fmt.Errorf("encode spool record: %w: %d bytes, at most %d are read", ErrTooLarge, text.Len(), MaxSize)
	}
	return text.Bytes(), nil
}

// Decode reads a record's text. The record has no Name. Keys that this version
// does not know are ignored, a kind that it does not know is not.
func Decode(text []byte) (Record, error) {
	if len(text) > MaxSize {
		return Record{}, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, MaxSize)
	}
	var f file
	if err := json.Unmarshal(text, &f); err != nil {
		return Record{}, fmt.Errorf("it is no spool record: %w", err)
	}
	switch {
	case f.Version != Version:
		return Record{}, fmt.Errorf("its version is %d; this midair reads version %d", f.Version, Version)
	case f.Kind == "":
		return Record{}, errors.New("it has no kind")
	case f.At.IsZero():
		return Record{}, errors.New("it has no time")
	}
	if len(f.Raw) > 0 {
		f.ResumeFile = string(f.Raw)
	}
	return f.Record, nil
}
