package spool

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const good = `{"version":1,"kind":"resume","at":"2026-03-01T12:00:00Z","nodes":"a","key of a later version":{}}`

func TestBrokenRecordsAreReportedAndTheOthersRead(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o640))
	}
	put("10.json", good)
	put("20-empty.json", "")
	put("21-half.json", good[:30])
	put("22-not-json.json", "hello")
	put("23-null.json", "null")
	put("24-later.json", strings.Replace(good, `"version":1`, `"version":2`, 1))
	put("25-no-kind.json", strings.Replace(good, "resume", "", 1))
	put("26-no-time.json", `{"version":1,"kind":"resume"}`)
	put("27-more.json", good+good)
	put("30.json", good)
	put("40.txt", "not ours")
	put("28-large.json", good)
	require.NoError(t, os.Truncate(filepath.Join(dir, "28-large.json"), MaxSize+1))

	records, bad, err := Read(dir)
	require.NoError(t, err)
	require.Len(t, records, 2)
	require.Equal(t, "10.json", records[0].Name)
	require.Equal(t, "30.json", records[1].Name)
	want := []string{
		"20-empty.json: it is no spool record", "21-half.json: it is no spool record", "22-not-json.json: it is no spool record",
		"23-null.json: its version is 0", "24-later.json: its version is 2; this midair reads version 1",
		"25-no-kind.json: it has no kind", "26-no-time.json: it has no time", "27-more.json: it is no spool record",
		"28-large.json: the record is too large",
	}
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

func FuzzDecode(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte(`{"version":1,"kind":"x","at":"9999-12-31T23:59:59.999999999+23:59","resume_file_base64":"/w=="}`))
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
		again, err := encode(r)
		require.NoError(t, err)
		require.True(t, json.Valid(again))
		back, err := Decode(again)
		require.NoError(t, err)
		require.True(t, r.At.Equal(back.At))
		r.At, back.At = time.Time{}, time.Time{}
		require.Equal(t, r, back)
	})
}
