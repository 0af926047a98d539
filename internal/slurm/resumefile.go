package slurm

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
)

// ResumeFile is the file that SLURM_RESUME_FILE names while ResumeProgram
// runs: which jobs the nodes are for. A node in no job (a manual power_up, or
// one that is already coming for another job) is normal.
type ResumeFile struct {
	AllNodes string // hostlist of every node to power up
	Jobs     []ResumeJob
}

// ResumeJob is one job in a ResumeFile. No version of Slurm gives its QOS, user
// or account here.
type ResumeJob struct {
	JobID       int    // the raw job id
	NodesAlloc  string // hostlist of all of the job's nodes
	NodesResume string // hostlist of those to power up now
	Features    string // empty before 23.02, as are the fields below
	Partition   string
	Reservation string
	Extra       string
}

// ParseResumeFile reads both spellings: all_nodes and nodes of 21.08 to 22.05,
// all_nodes_resume, nodes_alloc and nodes_resume from 23.02 on. Fields of
// later versions are ignored. A file with no nodes at all is an error, since
// Slurm writes none.
func ParseResumeFile(data []byte) (ResumeFile, error) {
	var raw struct {
		AllNodes       string `json:"all_nodes"`
		AllNodesResume string `json:"all_nodes_resume"`
		Jobs           []struct {
			JobID       int     `json:"job_id"`
			Nodes       string  `json:"nodes"`
			NodesAlloc  string  `json:"nodes_alloc"`
			NodesResume *string `json:"nodes_resume"`
			Features    string  `json:"features"`
			Partition   string  `json:"partition"`
			Reservation string  `json:"reservation"`
			Extra       string  `json:"extra"`
		} `json:"jobs"`
	}
	if err := json.Unmarshal(data, &raw); err != nil {
		return ResumeFile{}, fmt.Errorf("read Slurm's resume file: %w", err)
	}
	f := ResumeFile{AllNodes: cmp.Or(raw.AllNodesResume, raw.AllNodes)}
	for i, j := range raw.Jobs {
		job := ResumeJob{
			JobID: j.JobID, NodesAlloc: cmp.Or(j.NodesAlloc, j.Nodes), NodesResume: cmp.Or(j.Nodes, j.NodesAlloc),
			Features: j.Features, Partition: j.Partition, Reservation: j.Reservation, Extra: j.Extra,
		}
		if j.NodesResume != nil {
			// May be empty: ResumeRate lets none of the job's nodes through yet.
			job.NodesResume = *j.NodesResume
		}
		if job.JobID <= 0 || job.NodesAlloc == "" {
			return ResumeFile{}, fmt.Errorf("read Slurm's resume file: jobs[%d] has job_id %d and nodes %q; want both", i, job.JobID, job.NodesAlloc)
		}
		f.Jobs = append(f.Jobs, job)
	}
	if f.AllNodes == "" {
		return ResumeFile{}, errors.New("read Slurm's resume file: it has neither all_nodes_resume nor all_nodes")
	}
	return f, nil
}
