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
	"time"
)

// Server is the controller's side.
type Server struct {
	listener net.Listener
	path     string
	made     os.FileInfo   // the socket's file, to know it again
	beat     time.Duration // between signs of life
}

// questionTimeout bounds how long a connection may take to ask, so that one
// which never does cannot hold a descriptor for ever.
const questionTimeout = 30 * time.Second

// acceptAgain is how long the server pauses when the system has no descriptor
// or memory for another hook.
const acceptAgain = 100 * time.Millisecond

// Listen makes the socket in the spool folder; one that is there is taken for
// what a killed controller left and replaced. Only the folder's owner and group
// can use it.
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
	s := &Server{listener: l, path: real, beat: beatEvery}
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
	if s.made, err = root.Lstat(SocketName); err != nil {
		return err
	}
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

// Serve answers questions until ctx is done or the server is closed; both are
// no error. Then it hangs up on the hooks that still wait, which look after
// themselves, and returns when their answers have. answer runs once per hook,
// all at the same time. Its ctx is done when the hook hangs up; when it fails
// the connection is closed without an answer.
func (s *Server) Serve(ctx context.Context, answer func(context.Context, Question) (Answer, error)) error {
	var hooks sync.WaitGroup
	defer hooks.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { s.listener.Close() })
	defer stop()
	for {
		conn, err := s.listener.Accept()
		switch {
		case err == nil:
			hooks.Go(func() { s.serveOne(ctx, conn, answer) })
		case errors.Is(err, net.ErrClosed):
			return nil
		case passes(err):
			select {
			case <-time.After(acceptAgain):
			case <-ctx.Done():
			}
		default:
			return fmt.Errorf("accept a hook: %w", err)
		}
	}
}

// passes reports whether accept may work again later.
func passes(err error) bool {
	for _, e := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOBUFS, syscall.ECONNABORTED} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// serveOne takes one hook's question and keeps it waiting until there is an
// answer or the hook hangs up.
func (s *Server) serveOne(ctx context.Context, conn net.Conn, answer func(context.Context, Question) (Answer, error)) {
	defer conn.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	context.AfterFunc(ctx, func() { conn.Close() })
	_ = conn.SetReadDeadline(time.Now().Add(questionTimeout)) // fails only on a closed connection
	r := bufio.NewReader(io.LimitReader(conn, maxLine))
	line, err := r.ReadBytes('\n')
	if err != nil {
		return
	}
	_ = conn.SetReadDeadline(time.Time{})
	var q Question
	if err := json.Unmarshal(line, &q); err != nil {
		return
	}
	go func() {
		_, _ = r.ReadByte() // returns when the hook hangs up, or says more than it should
		cancel()
	}()
	answered := make(chan []byte, 1)
	go func() {
		defer close(answered)
		if a, err := answer(ctx, q); err == nil {
			text, _ := json.Marshal(a) // a struct of strings cannot fail
			answered <- append(text, '\n')
		}
	}()
	beat := time.NewTicker(s.beat)
	defer beat.Stop()
	for {
		select {
		case text := <-answered:
			_, _ = conn.Write(text) // a hook that is gone needs no answer
			return
		case <-beat.C:
			if _, err := conn.Write([]byte{'\n'}); err != nil {
				cancel() // answer returns, and with it answered
			}
		}
	}
}

// Close stops listening and removes the socket, unless another controller has
// put its own in its place.
func (s *Server) Close() {
	s.listener.Close()
	if now, err := os.Lstat(s.path); err == nil && s.made != nil && os.SameFile(now, s.made) {
		os.Remove(s.path)
	}
}
