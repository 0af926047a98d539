package slurm

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// row prints a job as squeue does: every value cut and padded to its width.
func row(values map[string]string) string {
	var b strings.Builder
	for _, c := range columns {
		v, ok := values[c.field]
		if !ok {
			v = map[string]string{"RestartCnt": "0", "BatchFlag": "1", "NumNodes": "1", "TimeLimit": "UNLIMITED", "ArrayTaskID": "N/A",
				"SubmitTime": "N/A", "EligibleTime": "N/A", "StartTime": "N/A", "State": "PENDING", "NodeList": ""}[c.field]
			if v == "" && c.field != "NodeList" {
				v = "(null)"
			}
		}
		if c.width > 0 && len(v) > c.width {
			v = v[:c.width]
		}
		b.WriteString(v + strings.Repeat(" ", max(0, c.width-len(v))))
	}
	return b.String() + "\n"
}

func TestJobsAreReadByPosition(t *testing.T) {
	forged := strings.TrimSuffix(row(map[string]string{"JobID": "1", "QOS": "p0"}), "\n")
	out := row(map[string]string{
		"JobID": "77", "State": "CONFIGURING", "RestartCnt": "2", "BatchFlag": "1", "NumNodes": "3", "TimeLimit": "1-02:04:00",
		"SubmitTime": "1796100000", "EligibleTime": "2026-12-01T05:25:22", "StartTime": "1796100060", "ArrayTaskID": "4",
		"UserName": "alice", "Account": "ml|x", "QOS": "p2", "Partition": "a100-spot", "Feature": "a100&big", "Reason": "None",
		"Name": "na|me\nJobId=99 State=x", "Comment": "\n" + forged + "\n", "admin_comment": "image=a b  c", "NodeList": "a100-spot-[001-003]",
	}) + row(map[string]string{"JobID": "5", "Reason": "ReqNodeNotAvail, UnavailableNodes:a-[1-2]", "Partition": "a,b", "BatchFlag": "0"})
	jobs, err := parseJobs([]byte(out))
	require.NoError(t, err)
	require.Len(t, jobs, 2)
	require.Equal(t, Job{
		ID: 5, State: "PENDING", Reason: "ReqNodeNotAvail, UnavailableNodes:a-[1-2]", Partition: "a,b", NumNodes: 1,
	}, jobs[0])
	j := jobs[1]
	require.True(t, strings.HasPrefix(j.Comment, "\n1 "))
	j.Comment = ""
	require.Equal(t, Job{
		ID: 77, State: "CONFIGURING", Restarts: 2, Batch: true, NumNodes: 3, TimeLimit: 26*time.Hour + 4*time.Minute,
		SubmitTime: time.Unix(1796100000, 0), EligibleTime: time.Date(2026, 12, 1, 5, 25, 22, 0, time.Local), StartTime: time.Unix(1796100060, 0),
		User: "alice", Account: "ml|x", QOS: "p2", Partition: "a100-spot", Features: "a100&big",
		Name: "na|me\nJobId=99 State=x", AdminComment: "image=a b  c", Nodes: "a100-spot-[001-003]",
	}, j)
}

func TestLongTextsAreCutAtARune(t *testing.T) {
	out := row(map[string]string{"JobID": "5", "Name": strings.Repeat("x", nameWidth-1) + "é", "Partition": strings.Repeat("part,", 200)})
	jobs, err := parseJobs([]byte(out))
	require.NoError(t, err)
	require.Equal(t, strings.Repeat("x", nameWidth-1), jobs[0].Name)
	require.True(t, strings.HasSuffix(jobs[0].Partition, ",part"))
}

func TestRowsOfAPendingArrayAreOneJob(t *testing.T) {
	r := row(map[string]string{"JobID": "8", "ArrayTaskID": "1"})
	jobs, err := parseJobs([]byte(r + r + row(map[string]string{"JobID": "9", "ArrayTaskID": "1-3%2"})))
	require.NoError(t, err)
	require.Len(t, jobs, 2)
	require.False(t, jobs[0].pendingTasks)
	require.True(t, jobs[1].pendingTasks)
}

func TestAStrangeTableIsAnErrorThatSaysWhere(t *testing.T) {
	good := row(map[string]string{"JobID": "5"})
	for name, out := range map[string]string{
		"column JobID":        "JOBID PARTITION\n" + strings.Repeat(" ", 5000) + "\n",
		"ends in column":      good + good[:100],
		"column NodeList has": good + strings.TrimSuffix(good, "\n"),
		"column RestartCnt":   row(map[string]string{"JobID": "5", "RestartCnt": "x"}),
		"no job id":           row(map[string]string{"JobID": "0"}),
		"column TimeLimit":    row(map[string]string{"JobID": "5", "TimeLimit": "soon"}),
	} {
		_, err := parseJobs([]byte(out))
		require.ErrorContains(t, err, name)
	}
	jobs, err := parseJobs(nil)
	require.NoError(t, err)
	require.Empty(t, jobs)
}

func TestParseLimit(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"UNLIMITED": 0, "NOT_SET": 0, "Partition_Limit": 0, "": 0,
		"5:00": 5 * time.Minute, "0:01": time.Second, "1:00:00": time.Hour, "366-00:00:01": 366*24*time.Hour + time.Second,
	} {
		got, err := parseLimit(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"5", "x", "1-", "1-2", "-5:00", "1:2:3:4", "99999999999999999999:00"} {
		_, err := parseLimit(text)
		require.Error(t, err, text)
	}
}

func TestEnded(t *testing.T) {
	for state, want := range map[string]bool{
		"PENDING": false, "CONFIGURING": false, "RUNNING": false, "COMPLETING": false, "SUSPENDED": false, "REQUEUED": false,
		"SPECIAL_EXIT": false, "COMPLETED": true, "CANCELLED": true, "NODE_FAIL": true, "TIMEOUT": true, "PREEMPTED": true,
	} {
		require.Equal(t, want, Job{State: state}.Ended(), state)
	}
}

// Whatever a user writes, the row stays one job with its own values.
func FuzzJobTexts(f *testing.F) {
	f.Add("name", "comment\n1           PENDING", "x\x00y")
	f.Add(strings.Repeat("é", 200), "(null)", strings.Repeat("\n", 3000))
	f.Fuzz(func(t *testing.T, name, comment, admin string) {
		out := row(map[string]string{"JobID": "7", "QOS": "p2", "Name": name, "Comment": comment, "admin_comment": admin, "NodeList": "n1"})
		jobs, err := parseJobs([]byte(out))
		require.NoError(t, err)
		require.Len(t, jobs, 1)
		require.Equal(t, 7, jobs[0].ID)
		require.Equal(t, "p2", jobs[0].QOS)
		require.Equal(t, "n1", jobs[0].Nodes)
	})
}

func FuzzJobTable(f *testing.F) {
	f.Add([]byte(row(map[string]string{"JobID": "7"})))
	f.Fuzz(func(t *testing.T, out []byte) {
		jobs, err := parseJobs(out)
		for _, j := range jobs {
			require.NoError(t, err)
			require.Positive(t, j.ID)
		}
	})
}
