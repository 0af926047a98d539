package spool

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"
)

// record1 is a record of version 1.
type record1 struct {
	Version         int       `json:"version"`
	Kind            Kind      `json:"kind"`
	At              time.Time `json:"at"`
	Nodes           string    `json:"nodes"`
	JobID           int       `json:"job_id"`
	ResumeFile      string    `json:"resume_file"`
	ResumeFileRaw   []byte    `json:"resume_file_base64"` // where it is not UTF-8
	ResumeFileError string    `json:"resume_file_error"`
	SlurmConf       string    `json:"slurm_conf"`
}

// decode1 reads the text of a record of version 1, which hooks from before an
// upgrade may have left.
func decode1(text []byte) (Record, error) {
	var r record1
	if err := json.Unmarshal(text, &r); err != nil {
		return Record{}, fmt.Errorf("it is no spool record: %w", err)
	}
	if r.Version != 1 {
		return Record{}, fmt.Errorf("its version is %d; as JSON this midair reads version 1", r.Version)
	}
	return Record{
		Version: 1, Kind: r.Kind, At: r.At, Nodes: r.Nodes, JobID: r.JobID,
		ResumeFile: cmp.Or(r.ResumeFile, string(r.ResumeFileRaw)), ResumeFileError: r.ResumeFileError, SlurmConf: r.SlurmConf,
	}, nil
}
