package plainfile

import "syscall"

// Dir is an open folder. What it does stays in that folder, even if another one
// takes its place.
type Dir struct{ File }

// OpenDir opens a folder.
func OpenDir(path string) (Dir, error) {
	f, err := Open(path, syscall.O_RDONLY|syscall.O_DIRECTORY, 0)
	return Dir{f}, err
}

// Create makes a file that is not there yet and opens it for writing.
func (d Dir) Create(name string, perm uint32) (File, error) {
	fd, err := again(func() (int, error) {
		return syscall.Openat(d.fd, name, syscall.O_WRONLY|syscall.O_CREAT|syscall.O_EXCL|syscall.O_CLOEXEC, perm)
	})
	f := File{fd, d.path(), name}
	if err != nil {
		return File{}, f.failed("create", err)
	}
	return f, nil
}

// Rename gives a file of the folder another name, whose bearer it replaces.
func (d Dir) Rename(from, to string) error {
	err := syscall.Renameat(d.fd, from, d.fd, to)
	return File{dir: d.path(), name: from}.failed("rename", err)
}

// Remove removes a file of the folder.
func (d Dir) Remove(name string) error {
	err := syscall.Unlinkat(d.fd, name)
	return File{dir: d.path(), name: name}.failed("remove", err)
}
