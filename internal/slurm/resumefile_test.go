package slurm

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseResumeFileReadsBothSpellings(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want ResumeFile
	}{
		"22.05": {
			`{"all_nodes":"p1-od-[1-3]","jobs":[{"job_id":7,"nodes":"p1-od-[1-3]"}]}`,
			ResumeFile{"p1-od-[1-3]", []ResumeJob{{JobID: 7, NodesAlloc: "p1-od-[1-3]", NodesResume: "p1-od-[1-3]"}}},
		},
		"23.02 with a job of which one node is up already": {
			`{"all_nodes_resume":"n[2-3]","jobs":[{"extra":null,"features":"a100","job_id":140814,"nodes_alloc":"n[1-3]","nodes_resume":"n[2-3]","oversubscribe":"OK","partition":"od","reservation":""}]}`,
			ResumeFile{"n[2-3]", []ResumeJob{{JobID: 140814, NodesAlloc: "n[1-3]", NodesResume: "n[2-3]", Features: "a100", Partition: "od"}}},
		},
		"26.05 with a job whose nodes ResumeRate holds back": {
			`{"all_nodes_resume":"n1","jobs":[{"exclusive":"NO","extra":"tier=p2","job_id":9,"priority":5,"features":null,"nodes_alloc":"n[1-3]","nodes_resume":"","oversubscribe":"OK","partition":"od","reservation":"r"}]}`,
			ResumeFile{"n1", []ResumeJob{{JobID: 9, NodesAlloc: "n[1-3]", Partition: "od", Reservation: "r", Extra: "tier=p2"}}},
		},
		"manual power_up": {`{"all_nodes":"n1","jobs":[]}`, ResumeFile{AllNodes: "n1"}},
	} {
		got, err := ParseResumeFile([]byte(c.text))
		require.NoError(t, err, name)
		require.Equal(t, c.want, got, name)
	}
}

func TestParseResumeFileSaysWhatIsWrong(t *testing.T) {
	for text, want := range map[string]string{
		``:                               "resume file",
		`{"all_nodes":`:                  "resume file",
		`{"jobs":[]}`:                    "neither all_nodes_resume nor all_nodes",
		`{"all_nodes":"n1","jobs":[{}]}`: "jobs[0]",
		`{"all_nodes":"n1","jobs":{}}`:   "resume file",
		`{"all_nodes":"n","jobs":[{"job_id":1}]}`: "jobs[0]",
	} {
		_, err := ParseResumeFile([]byte(text))
		require.ErrorContains(t, err, want, text)
	}
}

func FuzzParseResumeFile(f *testing.F) {
	f.Add([]byte(`{"all_nodes":"n[1-3]","jobs":[{"job_id":7,"nodes":"n[1-3]"}]}`))
	f.Add([]byte(`{"all_nodes_resume":"n1","jobs":[{"job_id":9,"nodes_alloc":"n1","nodes_resume":""}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := ParseResumeFile(data)
		if err != nil {
			return
		}
		require.NotEmpty(t, r.AllNodes)
		for _, j := range r.Jobs {
			require.Positive(t, j.JobID)
			require.NotEmpty(t, j.NodesAlloc)
		}
	})
}
