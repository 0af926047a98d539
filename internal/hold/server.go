package hold

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

// Server is the controller's side.
type Server struct {
	listener net.Listener
	path     string
	wg       sync.WaitGroup
}

// Listen makes the socket in the spool folder; one that a killed controller
// left is replaced. Only the folder's owner and group can use it.
func Listen(dir string) (*Server, error) {
	path, done, err := socketPath(dir)
	if err != nil {
		return nil, fmt.Errorf("listen for hooks: %w", err)
	}
	defer done()
	real := filepath.Join(dir, SocketName)
	if err := os.Remove(real); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("listen for hooks: %w", err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen for hooks: %w", err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false) // path may be one through a closed descriptor
	s := &Server{listener: l, path: real}
	if err := s.restrict(dir); err != nil {
		s.Close()
		return nil, fmt.Errorf("listen for hooks: %w", err)
	}
	return s, nil
}

// restrict gives the socket to the folder's owner: the hooks run as SlurmUser
// although the controller may be root, and root must not be led out of the
// folder by a link.
func (s *Server) restrict(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.Chmod(SocketName, 0o660); err != nil {
		return err
	}
	fi, err := root.Stat(".")
	if err != nil {
		return err
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok || os.Geteuid() != 0 {
		return nil
	}
	return root.Lchown(SocketName, int(st.Uid), int(st.Gid))
}

// Serve answers questions until the server is closed. answer's ctx is done when
// the hook hangs up; when answer fails the connection is closed without one.
func (s *Server) Serve(ctx context.Context, answer func(context.Context, Question) (Answer, error)) error {
	stop := context.AfterFunc(ctx, func() { s.listener.Close() })
	defer stop()
	for {
		conn, err := s.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("accept a hook: %w", err)
		}
		s.wg.Go(func() { serveOne(ctx, conn, answer) })
	}
}

func serveOne(ctx context.Context, conn net.Conn, answer func(context.Context, Question) (Answer, error)) {
	defer conn.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	context.AfterFunc(ctx, func() { conn.Close() })
	r := bufio.NewReader(io.LimitReader(conn, maxLine))
	line, err := r.ReadBytes('\n')
	if err != nil {
		return
	}
	var q Question
	if err := json.Unmarshal(line, &q); err != nil {
		return
	}
	go func() {
		_, _ = r.ReadByte() // returns when the hook hangs up, or says more than it should
		cancel()
	}()
	a, err := answer(ctx, q)
	if err != nil {
		return
	}
	_ = json.NewEncoder(conn).Encode(a) // a hook that is gone needs no answer
}

// Close stops listening and removes the socket.
func (s *Server) Close() {
	s.listener.Close()
	os.Remove(s.path)
}
