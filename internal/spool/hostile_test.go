package spool_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/midair-hpc/midair/internal/spool"
)

func needsRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
}

func requireOwner(t *testing.T, path string, uid, gid uint32) {
	t.Helper()
	fi, err := os.Lstat(path)
	require.NoError(t, err)
	st, ok := fi.Sys().(*syscall.Stat_t)
	require.True(t, ok)
	require.Equal(t, [2]uint32{uid, gid}, [2]uint32{st.Uid, st.Gid}, path)
}

// readBefore fails the test if Read blocks.
func readBefore(t *testing.T, dir string) ([]spool.Record, []spool.Bad) {
	t.Helper()
	type result struct {
		records []spool.Record
		bad     []spool.Bad
		err     error
	}
	c := make(chan result, 1)
	go func() {
		var r result
		r.records, r.bad, r.err = spool.Read(dir)
		c <- r
	}()
	select {
	case r := <-c:
		require.NoError(t, r.err)
		return r.records, r.bad
	case <-time.After(30 * time.Second):
		t.Fatal("Read blocks")
		return nil, nil
	}
}

func TestWhatIsNoRecordIsBadAndMovesAside(t *testing.T) {
	valid := []byte(`{"version":1,"kind":"resume","at":"2026-03-01T12:00:00Z","nodes":"evil"}`)
	for name, c := range map[string]struct {
		make func(t *testing.T, dir, path string)
		says string
	}{
		"link out of the folder": {func(t *testing.T, dir, path string) {
			out := filepath.Join(t.TempDir(), "secret")
			require.NoError(t, os.WriteFile(out, valid, 0o600))
			require.NoError(t, os.Symlink(out, path))
		}, "not a regular file"},
		"link within the folder": {func(t *testing.T, dir, path string) {
			require.NoError(t, os.WriteFile(filepath.Join(dir, ".new-1"), valid, 0o600))
			require.NoError(t, os.Symlink(".new-1", path))
		}, "not a regular file"},
		"dangling link": {func(t *testing.T, dir, path string) {
			require.NoError(t, os.Symlink("nowhere", path))
		}, "not a regular file"},
		"pipe": {func(t *testing.T, dir, path string) {
			require.NoError(t, syscall.Mkfifo(path, 0o600))
		}, "not a regular file"},
		"device": {func(t *testing.T, dir, path string) {
			needsRoot(t)
			if err := unix.Mknod(path, unix.S_IFCHR|0o600, int(unix.Mkdev(1, 5))); err != nil {
				t.Skipf("cannot make a device here: %v", err)
			}
		}, "not a regular file"},
		"folder": {func(t *testing.T, dir, path string) {
			require.NoError(t, os.Mkdir(path, 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(path, "x"), nil, 0o600))
		}, "not a regular file"},
		"empty":           {content(""), "no spool record"},
		"half a record":   {content(string(valid[:len(valid)-9])), "no spool record"},
		"two records":     {content(string(valid) + string(valid)), "no spool record"},
		"a list":          {content("[]"), "no spool record"},
		"another version": {content(`{"version":2,"kind":"resume","at":"2026-03-01T12:00:00Z"}`), "version is 2; this midair reads version 1"},
		"no version":      {content(`{"kind":"resume","at":"2026-03-01T12:00:00Z"}`), "version is 0"},
		"no kind":         {content(`{"version":1,"at":"2026-03-01T12:00:00Z"}`), "no kind"},
		"no time":         {content(`{"version":1,"kind":"resume"}`), "no time"},
		"oversized": {func(t *testing.T, dir, path string) {
			require.NoError(t, os.WriteFile(path, valid, 0o600))
			require.NoError(t, os.Truncate(path, spool.MaxSize+1))
		}, "too large"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			good := write(t, dir, resume(noon, "good"))
			const odd = "00000000000000000001-resume-1-1.json"
			c.make(t, dir, filepath.Join(dir, odd))

			records, bad := readBefore(t, dir)
			require.Len(t, records, 1, "one odd file does not hide the others")
			require.Equal(t, good, records[0].Name)
			require.Len(t, bad, 1)
			require.Equal(t, odd, bad[0].Name)
			require.ErrorContains(t, bad[0].Err, c.says)

			require.NoError(t, spool.Quarantine(dir, odd))
			_, err := os.Lstat(filepath.Join(dir, "bad", odd))
			require.NoError(t, err)
			require.Len(t, read(t, dir), 1)
			require.NoError(t, spool.Quarantine(dir, odd), "gone already")
		})
	}
}

func content(text string) func(*testing.T, string, string) {
	return func(t *testing.T, _, path string) {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
}

func TestFilesThatAreNotNamedLikeRecordsAreLeftAlone(t *testing.T) {
	dir := t.TempDir()
	for _, n := range []string{"README", "controller.sock", "x.json~", ".x.json", "x.json.swp"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, n), []byte("?"), 0o600))
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "bad"), 0o750))
	require.Empty(t, read(t, dir))
}

// A newer hook may put a kind or a key there that an older controller does not
// know; whether it can do without it is the controller's decision.
func TestRecordOfANewerHookIsReadAsFarAsItIsKnown(t *testing.T) {
	r, err := spool.Decode([]byte(`{"version":1,"kind":"reboot","at":"2026-03-01T12:00:00Z","nodes":"n1","colour":"red"}`))
	require.NoError(t, err)
	require.Equal(t, spool.Record{Version: 1, Kind: "reboot", At: noon, Nodes: "n1"}, r)
}

func TestRemovingARecordTwiceIsNoError(t *testing.T) {
	dir := t.TempDir()
	name := write(t, dir, resume(noon, "a"))
	require.NoError(t, spool.Remove(dir, name))
	require.NoError(t, spool.Remove(dir, name))
	require.Empty(t, read(t, dir))
	require.Error(t, spool.Remove(filepath.Join(dir, "missing"), name))
}

func TestNamesThatLeadOutOfTheFolderAreRefused(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "spool")
	require.NoError(t, os.Mkdir(dir, 0o750))
	victim := filepath.Join(top, "victim.json")
	require.NoError(t, os.WriteFile(victim, nil, 0o600))
	require.Error(t, spool.Remove(dir, "../victim.json"))
	require.Error(t, spool.Quarantine(dir, "../victim.json"))
	require.Error(t, spool.Quarantine(dir, victim))
	require.FileExists(t, victim)
}

func TestFolderForBadRecordsMayNotLeadElsewhere(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	require.NoError(t, os.Symlink(elsewhere, filepath.Join(dir, "bad")))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "x.json"), []byte("?"), 0o600))
	require.Error(t, spool.Quarantine(dir, "x.json"))
	require.FileExists(t, filepath.Join(dir, "x.json"))
	require.Empty(t, filesIn(t, elsewhere))
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
