package spool

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// listing gives the names in a folder.
func listing(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	names := []string{}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestRecordsTextIsAsDocumented(t *testing.T) {
	r := Record{
		Kind: Resume, At: noon.Add(123456789), Nodes: "gpu-[1-4]", SlurmConf: "/etc/slurm/slurm.conf",
		ResumeFile: `{"all_nodes_resume":"gpu-[1-4]","jobs":[{"job_id":7,"nodes_alloc":"gpu-[1-4]"}]}` + "\n",
	}
	require.Equal(t, `midair-request 2
kind resume
at 2026-03-01T12:00:00.123456789Z
nodes "gpu-[1-4]"
slurm-conf "/etc/slurm/slurm.conf"
resume-file 81
sum d1de21b1

{"all_nodes_resume":"gpu-[1-4]","jobs":[{"job_id":7,"nodes_alloc":"gpu-[1-4]"}]}
`, string(encode(r)))
	require.Equal(t, `midair-request 2
kind epilog
at 2026-03-01T12:00:00Z
job 7
resume-file-error "a\nb"
sum 99d6f3c4

`, string(encode(Record{Kind: Epilog, At: noon, JobID: 7, ResumeFileError: "a\nb"})))
}
