package spool_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/spool"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func resume(at time.Time, nodes string) spool.Record {
	return spool.Record{Kind: spool.Resume, At: at, Nodes: nodes}
}

func write(t *testing.T, dir string, r spool.Record) string {
	t.Helper()
	name, err := spool.Write(dir, r)
	require.NoError(t, err)
	return name
}

func read(t *testing.T, dir string) []spool.Record {
	t.Helper()
	records, bad, err := spool.Read(dir)
	require.NoError(t, err)
	require.Empty(t, bad)
	return records
}

func filesIn(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestRecordComesBackAsItWasWritten(t *testing.T) {
	for name, file := range map[string]string{
		"none":          "",
		"slurm's":       `{"all_nodes_resume":"gpu-[1-4]","jobs":[{"job_id":7,"features":"a&b|c<d>","extra":null}]}` + "\n",
		"not JSON":      "{\"all_nodes\": \u2028 \x00 \\",
		"not UTF-8":     "{\"extra\":\"caf\xe9\"}",
		"newlines only": "\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			want := spool.Record{
				Version: spool.Version, Kind: spool.Resume, At: noon.Add(123456789), Nodes: "gpu-[1-4]",
				ResumeFile: file, ResumeFileError: "gone\nor \xff", SlurmConf: "/etc/my slurm/\"slurm.conf", JobID: 7,
			}
			want.Name = write(t, dir, want)
			require.Equal(t, []spool.Record{want}, read(t, dir))
		})
	}
}

func TestRecordsAreReadInTheOrderOfTheirTimes(t *testing.T) {
	dir := t.TempDir()
	var want []string
	// A second of 9 and of 10 digits, and nanoseconds that differ in the last digit.
	times := []time.Time{time.Unix(999999999, 0), time.Unix(1000000000, 0), noon, noon.Add(1), noon.Add(time.Hour)}
	for _, i := range []int{3, 0, 4, 1, 2} {
		write(t, dir, resume(times[i], fmt.Sprint("n", i)))
	}
	for _, r := range read(t, dir) {
		want = append(want, r.Nodes)
	}
	require.Equal(t, []string{"n0", "n1", "n2", "n3", "n4"}, want)
}

func TestTwoWritersInOneNanosecondBothKeepTheirRecord(t *testing.T) {
	dir := t.TempDir()
	a, b := write(t, dir, resume(noon, "a")), write(t, dir, resume(noon, "b"))
	require.NotEqual(t, a, b)
	require.Len(t, read(t, dir), 2)
}

func TestFiveHundredWritersAtOnceLoseNothing(t *testing.T) {
	dir := t.TempDir()
	const writers = 500
	failed := make([]error, writers)
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() { _, failed[i] = spool.Write(dir, resume(noon.Add(time.Duration(i/2)), fmt.Sprint("n", i))) })
	}
	wg.Wait()
	for _, err := range failed {
		require.NoError(t, err)
	}
	seen := map[string]bool{}
	for _, r := range read(t, dir) {
		seen[r.Nodes] = true
	}
	require.Len(t, seen, writers)
	require.Len(t, filesIn(t, dir), writers, "no temporary may be left")
}

// The reader runs beside the writers: what it sees is whole.
func TestReaderNeverSeesHalfARecord(t *testing.T) {
	dir := t.TempDir()
	body := strings.Repeat("x", 256<<10)
	done := make(chan error, 1)
	go func() {
		var err error
		for i := 0; i < 40 && err == nil; i++ {
			_, err = spool.Write(dir, spool.Record{Kind: spool.Resume, At: noon.Add(time.Duration(i)), ResumeFile: body})
		}
		done <- err
	}()
	for {
		for _, r := range read(t, dir) {
			require.Len(t, r.ResumeFile, len(body))
		}
		select {
		case err := <-done:
			require.NoError(t, err)
			require.Len(t, read(t, dir), 40)
			return
		default:
		}
	}
}

func TestRecordCanBeReadByTheFoldersGroupAndNobodyElse(t *testing.T) {
	dir := t.TempDir()
	fi, err := os.Stat(filepath.Join(dir, write(t, dir, resume(noon, "a"))))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o640), fi.Mode())
}

func TestRecordThatCouldNotBeReadIsNotWritten(t *testing.T) {
	for name, c := range map[string]struct {
		record spool.Record
		says   string
	}{
		"no kind":      {spool.Record{At: noon}, "kind"},
		"strange kind": {spool.Record{Kind: "../x", At: noon}, "kind"},
		"no time":      {spool.Record{Kind: spool.Resume}, "time"},
		"1969":         {resume(time.Unix(-1, 0), "a"), "1970"},
		"2263":         {resume(time.Date(2263, 1, 1, 0, 0, 0, 0, time.UTC), "a"), "2262"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			_, err := spool.Write(dir, c.record)
			require.ErrorContains(t, err, c.says)
			require.Empty(t, filesIn(t, dir))
		})
	}
}

func TestRecordLargerThanAReaderTakesIsNotWritten(t *testing.T) {
	dir := t.TempDir()
	r := resume(noon, "a")
	r.ResumeFile = strings.Repeat("x", spool.MaxSize)
	_, err := spool.Write(dir, r)
	require.ErrorIs(t, err, spool.ErrTooLarge)
	require.Empty(t, filesIn(t, dir))
}

func TestFilesThatAreNotNamedLikeRecordsAreLeftAlone(t *testing.T) {
	dir := t.TempDir()
	for _, n := range []string{"README", "controller.sock", "x.json~", ".x.json", "x.json.swp", "x.request~", ".x.request", "request"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, n), []byte("?"), 0o600))
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "bad"), 0o750))
	require.Empty(t, read(t, dir))
}

// A newer hook may put a kind or a key there that an older controller does not
// know; whether it can do without it is the controller's decision.
func TestRecordOfANewerHookIsReadAsFarAsItIsKnown(t *testing.T) {
	r, err := spool.Decode([]byte("midair-request 2\nkind reboot\nat 2026-03-01T12:00:00Z\nnodes \"n1\"\ncolour \"red\"\nsum 4b0ee461\n\n"))
	require.NoError(t, err)
	require.Equal(t, spool.Record{Version: 2, Kind: "reboot", At: noon, Nodes: "n1"}, r)
}

// Without a free descriptor the record is as good as before: it must not be
// taken for broken and put aside.
func TestShortageOfDescriptorsDoesNotSpoilRecords(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, resume(noon, "a"))
	var hog []*os.File
	defer func() {
		for _, f := range hog {
			f.Close()
		}
	}()
	var old syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &old))
	defer func() { require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &old)) }()
	low := old
	low.Cur = 40
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &low))
	for {
		f, err := os.Open("/dev/null")
		if err != nil {
			break
		}
		hog = append(hog, f)
	}
	for free := range 4 {
		_, bad, err := spool.Read(dir)
		require.Empty(t, bad, "with %d free", free)
		if err != nil {
			require.ErrorIs(t, err, syscall.EMFILE)
		}
		last := hog[len(hog)-1]
		hog = hog[:len(hog)-1]
		last.Close()
	}
	require.Len(t, read(t, dir), 1)
}
