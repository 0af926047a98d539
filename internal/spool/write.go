package spool

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// Write puts a record into the folder, durably: when it returns nil the record
// survives a power cut, and when it returns an error nothing of it is there.
// The name sorts by time.
func Write(dir string, r Record) (name string, err error) {
	r.Version = Version
	text, err := json.Marshal(r)
	if err != nil {
		return "", fmt.Errorf("encode spool record: %w", err)
	}
	if len(text) > MaxSize {
		return "", fmt.Errorf("write spool record: it is %d bytes; more than %d are not taken", len(text), MaxSize)
	}
	// CreateTemp's random part keeps two hooks in one nanosecond apart.
	f, err := os.CreateTemp(dir, tempPrefix+"*")
	if err != nil {
		return "", advise(dir, err)
	}
	temp := f.Name()
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(temp)
		}
	}()
	if err := f.Chmod(0o640); err != nil {
		return "", advise(dir, err)
	}
	if _, err := f.Write(text); err != nil {
		return "", advise(dir, err)
	}
	if err := f.Sync(); err != nil {
		return "", advise(dir, err)
	}
	if err := f.Close(); err != nil {
		return "", advise(dir, err)
	}
	name = fmt.Sprintf("%020d-%s-%s.json", r.At.UnixNano(), r.Kind, filepath.Base(temp)[len(tempPrefix):])
	if err := os.Rename(temp, filepath.Join(dir, name)); err != nil {
		return "", advise(dir, err)
	}
	if err := syncDir(dir); err != nil {
		// The name may not survive a power cut, so it must not be promised.
		os.Remove(filepath.Join(dir, name))
		return "", advise(dir, err)
	}
	return name, nil
}

func advise(dir string, err error) error {
	return fmt.Errorf("write spool record: %w; check that the folder %s exists, has room and can be written by SlurmUser", err, dir)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
