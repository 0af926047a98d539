package spool

import (
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// head is a record without its first line, sum and resume file.
const (
	head  = "kind resume\nat 2026-03-01T12:00:00Z\nnodes \"a\"\nkey-of-a-later-version x y\nresume-file 7\n"
	good1 = `{"version":1,"kind":"resume","at":"2026-03-01T12:00:00Z","nodes":"a","key of a later version":{}}`
)

// summed completes a record.
func summed(first, head, body string) string {
	return fmt.Sprintf("%s%ssum %08x\n\n%s", first, head, crc32.ChecksumIEEE([]byte(first+head+"\n"+body)), body)
}

var good = summed("midair-request 2\n", head, `{"a":1}`)

func TestBrokenRecordsAreReportedAndTheOthersRead(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o640))
	}
	with := func(old, new string) string { // in a record that is whole
		require.Contains(t, head, old)
		return summed("midair-request 2\n", strings.Replace(head, old, new, 1), `{"a":1}`)
	}
	with1 := func(old, new string) string {
		require.Contains(t, good1, old)
		return strings.Replace(good1, old, new, 1)
	}
	put("10.request", good)
	put("40.request", summed("midair-request 2\n", strings.Replace(head, "resume-file 7\n", "", 1), ""))
	put("40.json", good1)
	put("40.txt", "not ours")
	var want []string
	for i, c := range []struct{ name, text, says string }{
		{"empty.request", "", "it is no spool record"},
		{"hello.request", "hello", "it is no spool record"},
		{"half-first-line.request", good[:16], "it is cut off in its first line"},
		{"half-head.request", good[:25], "it is cut off in line 2"},
		{"half-line.request", good[:40], "it is cut off in line 3"},
		{"no-body.request", strings.TrimSuffix(good, "\n{\"a\":1}"), "it is cut off in line 8"},
		{"half-body.request", good[:len(good)-1], "it should have 7 bytes of resume file and has 6"},
		{"more.request", good + "x", "it should have 7 bytes of resume file and has 8"},
		{"zeros.request", strings.Repeat("\x00", 100), "it is no spool record"},
		{"lost-text.request", strings.Repeat("\x00", len(good)), "it is no spool record"},
		{"lost-page.request", good[:len(good)-3] + "\x00\x00\x00", "it is damaged: its sum is"},
		{"changed.request", strings.Replace(good, `nodes "a"`, `nodes "b"`, 1), "it is damaged: its sum is"},
		{"no-sum.request", "midair-request 2\n" + head + "\n{\"a\":1}", "it has no sum"},
		{"bare-sum.request", strings.Replace(good, "sum ", "sum x", 1), "line 7: read sum:"},
		{"later.request", summed("midair-request 3\n", head, ""), "its version is 3; this midair reads versions 1 and 2"},
		{"no-version.request", summed("midair-request x\n", head, ""), "it is no spool record: its version is"},
		{"no-kind.request", with("kind resume\n", ""), "it has no kind"},
		{"no-time.request", with("at 2026-03-01T12:00:00Z\n", ""), "it has no time"},
		{"no-such-time.request", with("2026-03", "2026-13"), "line 3: read at: parsing time"},
		{"1969.request", with("2026-03", "1969-03"), "its time 1969-03-01 12:00:00 +0000 UTC is not between 1970 and 2262"},
		{"bare.request", with(`"a"`, "a"), "line 4: read nodes: want a text in double quotes"},
		{"twice.request", with("kind resume\n", "kind resume\nkind fail\n"), "line 3: kind is there twice"},
		{"no-value.request", with("kind resume", "kind"), "line 2: want a key and a value"},
		{"no-number.request", with("resume-file 7", "resume-file -7"), "line 6: read resume-file: want a number"},
		{"half.json", good1[:30], "it is no spool record"},
		{"null.json", "null", "it is no spool record"},
		{"later.json", with1(`"version":1`, `"version":2`), "its version is 2; as JSON this midair reads version 1"},
		{"no-kind.json", with1("resume", ""), "it has no kind"},
		{"no-time.json", `{"version":1,"kind":"resume"}`, "it has no time"},
		{"no-job.json", with1(`"nodes"`, `"job_id":-1,"nodes"`), "its job is -1"},
		{"more.json", good1 + good1, "it is no spool record"},
	} {
		name := fmt.Sprintf("2%02d-%s", i, c.name)
		put(name, c.text)
		want = append(want, name+": "+c.says)
	}
	put("30-large.request", good)
	require.NoError(t, os.Truncate(filepath.Join(dir, "30-large.request"), MaxSize+1))
	want = append(want, "30-large.request: the record is too large")

	records, bad, err := Read(dir)
	require.NoError(t, err)
	var names []string
	for _, r := range records {
		names = append(names, r.Name)
		require.Equal(t, "a", r.Nodes)
	}
	require.Equal(t, []string{"10.request", "40.json", "40.request"}, names)
	require.Equal(t, `{"a":1}`, records[0].ResumeFile)
	require.Equal(t, 1, records[1].Version)
	require.Len(t, bad, len(want))
	for i, b := range bad {
		require.True(t, strings.HasPrefix(b.Name+": "+b.Err.Error(), want[i]), "%s: %s, want %s", b.Name, b.Err, want[i])
		require.NoError(t, Quarantine(dir, b.Name))
	}
	require.Len(t, listing(t, filepath.Join(dir, badDir)), len(want))
	_, bad, err = Read(dir)
	require.NoError(t, err)
	require.Empty(t, bad)
}

func TestOnlyRegularFilesOfTheFolderAreOpened(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	secret := filepath.Join(elsewhere, "secret.json")
	require.NoError(t, os.WriteFile(secret, []byte(good), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, tempPrefix+"1"), []byte(good), 0o600))

	require.NoError(t, os.Symlink(secret, filepath.Join(dir, "1-link.json")))
	require.NoError(t, os.Symlink(tempPrefix+"1", filepath.Join(dir, "2-link-inside.json")))
	require.NoError(t, os.Symlink("nowhere", filepath.Join(dir, "3-dangling.json")))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "4-folder.json"), 0o700))
	// Nobody writes to the pipe: opening it as usual would never return.
	require.NoError(t, unix.Mkfifo(filepath.Join(dir, "5-pipe.json"), 0o600))
	names := 5
	if os.Geteuid() == 0 {
		if err := unix.Mknod(filepath.Join(dir, "6-device.json"), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 5))); err == nil {
			names++
		}
	}
	records, bad, err := Read(dir)
	require.NoError(t, err)
	require.Empty(t, records)
	require.Len(t, bad, names)
	for _, b := range bad {
		require.ErrorContains(t, b.Err, "not a regular file")
		require.NoError(t, Quarantine(dir, b.Name))
	}
	require.FileExists(t, secret)
	require.Len(t, listing(t, filepath.Join(dir, badDir)), names)
}

func TestQuarantineAndRemoveStayInTheFolder(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	victim := filepath.Join(elsewhere, "x.json")
	require.NoError(t, os.WriteFile(victim, nil, 0o600))
	for _, name := range []string{"", ".", "..", "bad/x.json", "../" + filepath.Base(elsewhere) + "/x.json", victim, tempPrefix + "1"} {
		require.ErrorContains(t, Quarantine(dir, name), "no record's name")
	}
	require.Error(t, Remove(dir, "../"+filepath.Base(elsewhere)+"/x.json"))
	require.NoError(t, Quarantine(dir, "gone.json"))

	require.NoError(t, os.WriteFile(filepath.Join(dir, "1.json"), nil, 0o600))
	require.NoError(t, os.Remove(filepath.Join(dir, badDir)))
	require.NoError(t, os.Symlink(elsewhere, filepath.Join(dir, badDir)))
	require.Error(t, Quarantine(dir, "1.json"))
	require.Equal(t, []string{"x.json"}, listing(t, elsewhere))
}

func TestRemoveTakesARecordAwayOnce(t *testing.T) {
	dir := t.TempDir()
	name, err := Write(dir, Record{Kind: Resume, At: noon})
	require.NoError(t, err)
	require.NoError(t, Remove(dir, name))
	require.NoError(t, Remove(dir, name))
	require.Empty(t, listing(t, dir))
}

func TestRootLeavesItsFilesToTheFoldersOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("giving files away needs root")
	}
	dir := t.TempDir()
	require.NoError(t, os.Chown(dir, 65534, 65533))
	name, err := Write(dir, Record{Kind: Resume, At: noon})
	require.NoError(t, err)
	require.NoError(t, Quarantine(dir, name))
	for _, path := range []string{badDir, badDir + "/" + name} {
		fi, err := os.Lstat(filepath.Join(dir, path))
		require.NoError(t, err)
		st, ok := fi.Sys().(*syscall.Stat_t)
		require.True(t, ok)
		require.Equal(t, [2]uint32{65534, 65533}, [2]uint32{st.Uid, st.Gid}, path)
	}
}

func TestErrorsThatPassDoNotCondemnARecord(t *testing.T) {
	for errno, want := range map[syscall.Errno]bool{
		syscall.EMFILE: true, syscall.ENFILE: true, syscall.ENOMEM: true, syscall.EIO: false, syscall.EACCES: false, syscall.ELOOP: false,
	} {
		require.Equal(t, want, passing(fmt.Errorf("x: %w", &os.PathError{Op: "openat", Path: "a", Err: errno})), errno.Error())
	}
	require.False(t, passing(nil))
}

// Hooks from before an upgrade may have left such records.
func TestRecordOfVersion1IsStillRead(t *testing.T) {
	for name, c := range map[string]struct{ field, want string }{
		"text":      {`"resume_file":"{\"a\":\"<\u0001>\"}"`, "{\"a\":\"<\x01>\"}"},
		"not UTF-8": {`"resume_file_base64":"Y2Fm6Q=="`, "caf\xe9"},
		"none":      {`"resume_file_error":"gone"`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			text := `{"version":1,"kind":"epilog","at":"2026-03-01T12:00:00.5Z","nodes":"a","job_id":7,"slurm_conf":"/s",` + c.field + "}\n"
			require.NoError(t, os.WriteFile(filepath.Join(dir, "1.json"), []byte(text), 0o640))
			records, bad, err := Read(dir)
			require.NoError(t, err)
			require.Empty(t, bad)
			want := Record{
				Version: 1, Kind: Epilog, At: noon.Add(time.Second / 2), Nodes: "a", JobID: 7, SlurmConf: "/s", ResumeFile: c.want, Name: "1.json",
			}
			if c.want == "" {
				want.ResumeFileError = "gone"
			}
			require.Equal(t, []Record{want}, records)
		})
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(good))
	f.Add(encode(Record{Kind: Epilog, At: noon, JobID: 7, Nodes: "\xff\n\"\\", SlurmConf: "\u2028", ResumeFileError: "x\x00"}))
	f.Add([]byte(summed("midair-request 2\n", "kind x\nat 9999-12-31T23:59:59.999999999-23:59\n", "")))
	f.Add([]byte("midair-request 2\nresume-file 9223372036854775808\n\n"))
	f.Add([]byte(good1))
	f.Add([]byte(`{"version":1,"kind":"x","at":"2200-12-31T23:59:59.999999999+23:59","resume_file_base64":"/w=="}`))
	f.Add([]byte(`{"version":1,"kind":"x","at":"2026-03-01T12:00:00Z","resume_file":"\ud800","job_id":-1}`))
	f.Add([]byte(`null`))
	f.Add([]byte(strings.Repeat("[", 20_000)))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := Decode(text)
		if err != nil {
			require.Equal(t, Record{}, r)
			return
		}
		require.NotEmpty(t, r.Kind)
		require.Empty(t, r.Name)
		if r.Kind != Epilog {
			r.Kind = Resume // Write takes no others
		}
		back, err := Decode(encode(r))
		require.NoError(t, err)
		require.True(t, r.At.Equal(back.At))
		r.At, back.At, r.Version = time.Time{}, time.Time{}, Version
		require.Equal(t, r, back)
		half := encode(back)
		if rest := half[len(half)/2:]; strings.Trim(string(rest), "\x00") != "" {
			clear(rest)
			_, err = Decode(half)
			require.Error(t, err, "half a record was taken for a whole one")
		}
		_, err = Decode(half[:len(half)/2])
		require.Error(t, err, "half a record was taken for a whole one")
	})
}
