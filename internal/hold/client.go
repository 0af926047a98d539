package hold

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"
)

// maxLine bounds a line of either side.
const maxLine = 1 << 20

// maxSocketPath is what fits into a unix socket's address (man 7 unix).
const maxSocketPath = 107

// Ask asks the controller and waits for its answer. The error wraps ctx's when
// that is done first; any other means that no controller answers: there is
// none, it hung up, or it said something that is no answer.
func Ask(ctx context.Context, dir string, q Question) (Answer, error) {
	var a Answer
	path, done, err := socketPath(dir)
	if err != nil {
		return a, fmt.Errorf("ask the controller: %w", err)
	}
	defer done()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return a, fmt.Errorf("ask the controller: %w", err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if err := json.NewEncoder(conn).Encode(q); err != nil {
		return a, fmt.Errorf("ask the controller: %w", err)
	}
	line, err := bufio.NewReader(io.LimitReader(conn, maxLine)).ReadBytes('\n')
	if err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return a, fmt.Errorf("wait for the controller's answer: %w", err)
	}
	if err := json.Unmarshal(line, &a); err != nil {
		return a, fmt.Errorf("read the controller's answer: %w", err)
	}
	if a.Outcome != Ready && a.Outcome != Gone {
		return Answer{}, fmt.Errorf("read the controller's answer: %q is no outcome", a.Outcome)
	}
	return a, nil
}

// socketPath gives a path that fits into a socket's address, also for a deep
// folder: that one is reached through an open descriptor.
func socketPath(dir string) (path string, done func(), err error) {
	path = filepath.Join(dir, SocketName)
	if len(path) <= maxSocketPath {
		return path, func() {}, nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return "", nil, err
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", d.Fd(), SocketName), func() { d.Close() }, nil
}
