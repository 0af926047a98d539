package spool

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestATemporaryThatACrashLeftIsNotRead(t *testing.T) {
	dir := t.TempDir()
	whole := encode(Record{Kind: Resume, At: noon, Nodes: "a"})
	for name, text := range map[string][]byte{tempPrefix + "1": whole[:20], tempPrefix + "2": whole, tempPrefix + "3" + suffix: whole} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o640))
	}
	records, bad, err := Read(dir)
	require.NoError(t, err)
	require.Empty(t, records)
	require.Empty(t, bad)
}

func TestSweepRemovesOnlyOldTemporaries(t *testing.T) {
	dir := t.TempDir()
	record, err := Write(dir, Record{Kind: Resume, At: noon, Nodes: "a"})
	require.NoError(t, err)
	now := time.Now()
	for name, age := range map[string]time.Duration{
		tempPrefix + "old": 61 * time.Minute, tempPrefix + "young": 59 * time.Minute, tempPrefix + "future": -2 * time.Hour,
		record: 24 * time.Hour, "other": 24 * time.Hour,
	} {
		path := filepath.Join(dir, name)
		if name != record {
			require.NoError(t, os.WriteFile(path, nil, 0o640))
		}
		require.NoError(t, os.Chtimes(path, now, now.Add(-age)))
	}
	outside := filepath.Join(t.TempDir(), "outside")
	require.NoError(t, os.WriteFile(outside, nil, 0o600))
	link := filepath.Join(dir, tempPrefix+"link")
	require.NoError(t, os.Symlink(outside, link))
	old := unix.NsecToTimeval(now.Add(-2 * time.Hour).UnixNano())
	require.NoError(t, unix.Lutimes(link, []unix.Timeval{old, old}))
	require.NoError(t, os.Mkdir(filepath.Join(dir, tempPrefix+"folder"), 0o700))

	require.NoError(t, Sweep(dir, now))
	require.ElementsMatch(t, []string{record, "other", tempPrefix + "young", tempPrefix + "future", tempPrefix + "folder"}, listing(t, dir))
	require.FileExists(t, outside)
	require.Error(t, Sweep(filepath.Join(dir, "missing"), now))
}

func TestAWriteThatFailsLeavesNothingAndSaysWhatToDo(t *testing.T) {
	// Every case writes a record of 10,000 bytes to a file system of its own.
	for name, c := range map[string]struct {
		options string // of the tmpfs
		flags   uintptr
		fill    bool // no block is free
		want    syscall.Errno
		advice  string
	}{
		"no block is free":        {options: "size=64k", fill: true, want: syscall.ENOSPC, advice: "make room on the disk of "},
		"too few blocks are free": {options: "size=8k", want: syscall.ENOSPC, advice: "make room on the disk of "},
		"no inode is free":        {options: "nr_inodes=1", want: syscall.ENOSPC, advice: "make room on the disk of "},
		"read-only":               {options: "size=64k", flags: unix.MS_RDONLY, want: syscall.EROFS, advice: "mounted read-only"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := mountTmpfs(t, c.options, c.flags)
			if c.fill {
				fillUp(t, filepath.Join(dir, "filler"))
			}
			before := listing(t, dir)
			_, err := Write(dir, Record{Kind: Resume, At: noon, Nodes: strings.Repeat("n", 10_000)})
			require.ErrorIs(t, err, c.want)
			require.ErrorContains(t, err, c.advice)
			require.ErrorContains(t, err, dir)
			require.Equal(t, before, listing(t, dir))
			records, bad, err := Read(dir)
			require.NoError(t, err)
			require.Empty(t, records)
			require.Empty(t, bad)
		})
	}
}

func TestARecordFitsAgainOnceThereIsRoom(t *testing.T) {
	dir := mountTmpfs(t, "size=64k", 0)
	filler := filepath.Join(dir, "filler")
	fillUp(t, filler)
	_, err := Write(dir, Record{Kind: Resume, At: noon})
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.NoError(t, os.Remove(filler))
	_, err = Write(dir, Record{Kind: Resume, At: noon})
	require.NoError(t, err)
}

func TestWriteNamesAFolderThatIsMissingOrNone(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	_, err := Write(missing, Record{Kind: Resume, At: noon})
	require.ErrorContains(t, err, "create the folder "+missing)
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err = Write(file, Record{Kind: Resume, At: noon})
	require.ErrorContains(t, err, file+" must be a folder")
	_, err = Write("", Record{Kind: Resume, At: noon})
	require.ErrorContains(t, err, "no name")
	_, _, err = Read(missing)
	require.ErrorContains(t, err, missing)
}

func TestAFolderWithoutPermissionIsNamed(t *testing.T) {
	dir := t.TempDir()
	if os.Geteuid() == 0 {
		// Root may write anywhere; for as long as this test its thread may not.
		runtime.LockOSThread()
		require.NoError(t, setFileUser(65534))
		defer func() {
			require.NoError(t, setFileUser(0))
			runtime.UnlockOSThread()
		}()
	} else {
		require.NoError(t, os.Chmod(dir, 0o500))
	}
	_, err := Write(dir, Record{Kind: Resume, At: noon})
	require.ErrorIs(t, err, os.ErrPermission)
	require.ErrorContains(t, err, "give the folder "+dir+" to SlurmUser")
}

// setFileUser changes whom file permissions of this thread are checked for.
func setFileUser(uid int) error {
	if _, err := unix.SetfsuidRetUid(uid); err != nil {
		return err
	}
	if now, _ := unix.SetfsuidRetUid(-1); now != uid {
		return fmt.Errorf("set file user %d: it is %d", uid, now)
	}
	return nil
}

// mountTmpfs mounts a tmpfs that only the test's own thread sees, and which
// goes with it.
func mountTmpfs(t *testing.T, options string, flags uintptr) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting a small file system needs root")
	}
	dir := t.TempDir()
	runtime.LockOSThread() // never unlocked: the thread ends with the test
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		t.Skipf("no mount namespace can be made here: %v", err)
	}
	require.NoError(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	require.NoError(t, unix.Mount("tmpfs", dir, "tmpfs", flags, options))
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	return dir
}

func fillUp(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	require.NoError(t, err)
	defer f.Close()
	for {
		_, err := f.Write(make([]byte, 4096))
		if errors.Is(err, syscall.ENOSPC) {
			return
		}
		require.NoError(t, err)
	}
}
