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

// Signs of life: while a hook waits, the controller sends it an empty line
// every beatEvery. A hook that has heard nothing for Silence takes the
// controller for frozen (stopped, or stuck in the kernel) and hangs up: a
// connection to such a one stays open, and even new ones are taken by the
// kernel.
const (
	beatEvery = 10 * time.Second
	Silence   = 35 * time.Second
)

// Ask asks the controller and waits for its answer. The error wraps ctx's when
// that is done first; any other means that no controller answers: there is
// none, it hung up, it has given no sign of life for Silence, or it said
// something that is no answer.
func Ask(ctx context.Context, dir string, q Question) (Answer, error) {
	a, err := ask(ctx, dir, q, Silence)
	if err != nil && ctx.Err() != nil {
		// The connection broke because ctx is done, whatever that looked like.
		err = fmt.Errorf("wait for the controller's answer: %w", ctx.Err())
	}
	if err != nil {
		return Answer{}, err
	}
	return a, nil
}

func ask(ctx context.Context, dir string, q Question, silence time.Duration) (Answer, error) {
	text, err := json.Marshal(q)
	if err != nil {
		return Answer{}, fmt.Errorf("ask the controller: %w", err)
	}
	if text = append(text, '\n'); len(text) > maxLine {
		return Answer{}, fmt.Errorf("ask the controller: the question has %d bytes; the controller takes %d", len(text), maxLine)
	}
	path, done, err := socketPath(dir)
	if err != nil {
		return Answer{}, fmt.Errorf("ask the controller: %w", err)
	}
	defer done()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return Answer{}, fmt.Errorf("ask the controller: %w", err)
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	_ = conn.SetWriteDeadline(time.Now().Add(silence)) // fails only on a closed connection
	if _, err := conn.Write(text); err != nil {
		return Answer{}, fmt.Errorf("ask the controller: %w", err)
	}
	line, err := readLine(conn, silence)
	if err != nil {
		return Answer{}, fmt.Errorf("wait for the controller's answer: %w", err)
	}
	var a Answer
	if err := json.Unmarshal(line, &a); err != nil {
		return Answer{}, fmt.Errorf("read the controller's answer: %w", err)
	}
	if a.Outcome != Ready && a.Outcome != Gone {
		return Answer{}, fmt.Errorf("read the controller's answer: %q is no outcome", a.Outcome)
	}
	return a, nil
}

// readLine gives the first line that is not empty.
func readLine(conn net.Conn, silence time.Duration) ([]byte, error) {
	r := bufio.NewReader(io.LimitReader(conn, maxLine))
	for {
		_ = conn.SetReadDeadline(time.Now().Add(silence)) // fails only on a closed connection
		line, err := r.ReadBytes('\n')
		if err != nil {
			return nil, err
		}
		if len(line) > 1 {
			return line, nil
		}
	}
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
