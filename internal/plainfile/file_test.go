package plainfile

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhatIsWrittenIsReadAgain(t *testing.T) {
	path := t.TempDir()
	dir, err := OpenDir(path)
	require.NoError(t, err)
	defer dir.Close()
	f, err := dir.Create("a", 0o600)
	require.NoError(t, err)
	_, err = f.Write([]byte("one "))
	require.NoError(t, err)
	_, err = f.Write([]byte("two"))
	require.NoError(t, err)
	_, err = f.Write(nil)
	require.NoError(t, err)
	require.NoError(t, f.Chmod(0o640))
	require.NoError(t, f.Sync())
	require.NoError(t, f.Close())
	require.NoError(t, dir.Rename("a", "b"))
	require.NoError(t, dir.Sync())

	f, err = Open(filepath.Join(path, "b"), syscall.O_RDONLY, 0)
	require.NoError(t, err)
	st, err := f.Stat()
	require.NoError(t, err)
	require.EqualValues(t, 7, st.Size)
	require.EqualValues(t, syscall.S_IFREG|0o640, st.Mode)
	text, err := io.ReadAll(f)
	require.NoError(t, err)
	require.Equal(t, "one two", string(text))
	require.NoError(t, f.Close())
	require.NoError(t, dir.Remove("b"))
	require.NoFileExists(t, filepath.Join(path, "b"))
}

func TestErrorsNameTheFileAndMatchOsErrors(t *testing.T) {
	path := t.TempDir()
	_, err := OpenDir(filepath.Join(path, "missing"))
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.EqualError(t, err, "open "+path+"/missing: no such file or directory")

	dir, err := OpenDir(path)
	require.NoError(t, err)
	defer dir.Close()
	require.NoError(t, os.WriteFile(filepath.Join(path, "a"), nil, 0o600))
	require.NoError(t, os.Symlink("nowhere", filepath.Join(path, "link")))
	for _, name := range []string{"a", "link"} { // Create goes through no link
		_, err = dir.Create(name, 0o600)
		require.ErrorIs(t, err, fs.ErrExist)
		require.EqualError(t, err, "create "+path+"/"+name+": file exists")
	}
	require.EqualError(t, dir.Rename("b", "c"), "rename "+path+"/b: no such file or directory")
	require.EqualError(t, dir.Remove("b"), "remove "+path+"/b: no such file or directory")
	_, err = dir.Read(make([]byte, 1))
	require.ErrorIs(t, err, syscall.EISDIR)
	_, err = dir.Write([]byte("x"))
	require.ErrorIs(t, err, syscall.EBADF)
}

func TestFolderIsTheOneThatWasOpened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dir")
	require.NoError(t, os.Mkdir(path, 0o700))
	dir, err := OpenDir(path)
	require.NoError(t, err)
	defer dir.Close()
	require.NoError(t, os.Rename(path, path+".old"))
	require.NoError(t, os.Mkdir(path, 0o700))
	f, err := dir.Create("a", 0o600)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.FileExists(t, path+".old/a")
	require.NoFileExists(t, path+"/a")
}
