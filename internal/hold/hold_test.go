package hold_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/hold"
)

// soon bounds waits for what should come at once; a busy machine may need it.
const soon = 30 * time.Second

var question = hold.Question{JobID: 7, Nodes: "gpu-[1-4]"}

type answerFunc = func(context.Context, hold.Question) (hold.Answer, error)

func ready(context.Context, hold.Question) (hold.Answer, error) {
	return hold.Answer{Outcome: hold.Ready}, nil
}

// untilGone answers nobody; it tells when it is asked, and when its hook is gone.
func untilGone() (answer answerFunc, asked, gone chan hold.Question) {
	asked, gone = make(chan hold.Question, 1), make(chan hold.Question, 1)
	return func(ctx context.Context, q hold.Question) (hold.Answer, error) {
		asked <- q
		<-ctx.Done()
		gone <- q
		return hold.Answer{}, ctx.Err()
	}, asked, gone
}

// serve runs a server in the folder until the test ends; stop ends it earlier.
func serve(t *testing.T, dir string, answer answerFunc) (stop func()) {
	t.Helper()
	s, err := hold.Listen(dir)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, answer) }()
	stop = sync.OnceFunc(func() {
		cancel()
		s.Close()
		require.NoError(t, within(t, served))
	})
	t.Cleanup(stop)
	return stop
}

func within[T any](t *testing.T, c <-chan T) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(soon):
		t.Fatal("nothing happens")
	}
	return v
}

func ask(ctx context.Context, dir string) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := hold.Ask(ctx, dir, question)
		done <- err
	}()
	return done
}

func TestAnswerReachesTheHook(t *testing.T) {
	for _, want := range []hold.Outcome{hold.Ready, hold.Gone} {
		dir := t.TempDir()
		var got hold.Question
		stop := serve(t, dir, func(_ context.Context, q hold.Question) (hold.Answer, error) {
			got = q
			return hold.Answer{Outcome: want}, nil
		})
		a, err := hold.Ask(t.Context(), dir, question)
		require.NoError(t, err)
		require.Equal(t, want, a.Outcome)
		stop()
		require.Equal(t, question, got)
	}
}

func TestJobWithTenThousandNodesCanBeAskedFor(t *testing.T) {
	dir := t.TempDir()
	long := hold.Question{JobID: 1, Nodes: strings.Repeat("n-0123456789,", 10_000)}
	got := make(chan hold.Question, 1)
	serve(t, dir, func(_ context.Context, q hold.Question) (hold.Answer, error) {
		got <- q
		return hold.Answer{Outcome: hold.Ready}, nil
	})
	_, err := hold.Ask(t.Context(), dir, long)
	require.NoError(t, err)
	require.Equal(t, long, <-got)
}

func TestControllerLearnsThatAHookIsGone(t *testing.T) {
	dir := t.TempDir()
	answer, asked, gone := untilGone()
	serve(t, dir, answer)
	ctx, cancel := context.WithCancel(t.Context())
	done := ask(ctx, dir)
	within(t, asked)
	cancel()
	require.ErrorIs(t, within(t, done), context.Canceled)
	require.Equal(t, question, within(t, gone))
}

func TestControllerLearnsThatAHookWasKilled(t *testing.T) {
	dir := t.TempDir()
	answer, asked, gone := untilGone()
	serve(t, dir, answer)
	conn, err := net.Dial("unix", filepath.Join(dir, hold.SocketName))
	require.NoError(t, err)
	fmt.Fprintln(conn, `{"job_id":7,"nodes":"gpu-[1-4]"}`)
	within(t, asked)
	require.NoError(t, conn.Close()) // what the kernel does for a killed process
	within(t, gone)
}

func TestHookLearnsThatTheControllerIsGone(t *testing.T) {
	dir := t.TempDir()
	answer, asked, _ := untilGone()
	stop := serve(t, dir, answer)
	done := ask(t.Context(), dir)
	within(t, asked)
	stop()
	require.ErrorContains(t, within(t, done), "wait for the controller's answer")
	_, err := hold.Ask(t.Context(), dir, question)
	require.ErrorContains(t, err, "ask the controller")
	require.NoFileExists(t, filepath.Join(dir, hold.SocketName))
}

func TestServeReturnsOnlyWhenItsAnswersHave(t *testing.T) {
	dir := t.TempDir()
	answer, asked, gone := untilGone()
	stop := serve(t, dir, answer)
	ask(t.Context(), dir)
	within(t, asked)
	stop()
	require.Len(t, gone, 1)
}

func TestClosedServerEndsWithoutItsContext(t *testing.T) {
	dir := t.TempDir()
	s, err := hold.Listen(dir)
	require.NoError(t, err)
	answer, asked, gone := untilGone()
	served := make(chan error, 1)
	go func() { served <- s.Serve(context.Background(), answer) }()
	done := ask(t.Context(), dir)
	within(t, asked)
	s.Close()
	require.NoError(t, within(t, served))
	require.Error(t, within(t, done))
	within(t, gone)
}

func TestAnswerThatFailsIsNoAnswer(t *testing.T) {
	dir := t.TempDir()
	serve(t, dir, func(context.Context, hold.Question) (hold.Answer, error) {
		return hold.Answer{Outcome: hold.Ready}, errors.New("no")
	})
	_, err := hold.Ask(t.Context(), dir, question)
	require.ErrorContains(t, err, "wait for the controller's answer")
}

func TestHookGivesUpAtItsDeadline(t *testing.T) {
	dir := t.TempDir()
	answer, _, gone := untilGone()
	serve(t, dir, answer)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, within(t, ask(ctx, dir)), context.DeadlineExceeded)
	within(t, gone)
}

func TestSocketOfAKilledControllerIsReplaced(t *testing.T) {
	dir := t.TempDir()
	l, err := net.Listen("unix", filepath.Join(dir, hold.SocketName))
	require.NoError(t, err)
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	require.NoError(t, l.Close())
	_, err = hold.Ask(t.Context(), dir, question)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	serve(t, dir, ready)
	_, err = hold.Ask(t.Context(), dir, question)
	require.NoError(t, err)
}

func TestClosingDoesNotTakeAwayASuccessorsSocket(t *testing.T) {
	dir := t.TempDir()
	old, err := hold.Listen(dir)
	require.NoError(t, err)
	serve(t, dir, ready)
	old.Close()
	_, err = hold.Ask(t.Context(), dir, question)
	require.NoError(t, err)
}

func TestFolderTooDeepForASocketsAddress(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("d", 100), strings.Repeat("e", 100))
	require.NoError(t, os.MkdirAll(dir, 0o750))
	stop := serve(t, dir, ready)
	_, err := hold.Ask(t.Context(), dir, question)
	require.NoError(t, err)
	stop()
	require.NoFileExists(t, filepath.Join(dir, hold.SocketName))
}

func TestFolderThatIsMissingIsNamed(t *testing.T) {
	for _, name := range []string{"missing", strings.Repeat("m", 200)} {
		dir := filepath.Join(t.TempDir(), name)
		_, err := hold.Listen(dir)
		require.ErrorContains(t, err, dir)
		_, err = hold.Ask(t.Context(), dir, question)
		require.ErrorContains(t, err, dir)
	}
}

func TestThreeHundredHooksWaitAtTheSameTime(t *testing.T) {
	dir := t.TempDir()
	const hooks = 300
	var all sync.WaitGroup
	all.Add(hooks)
	serve(t, dir, func(ctx context.Context, q hold.Question) (hold.Answer, error) {
		all.Done()
		all.Wait() // nobody is answered before everybody has asked
		return hold.Answer{Outcome: hold.Ready}, nil
	})
	waits := make([]<-chan error, hooks)
	for i := range waits {
		waits[i] = ask(t.Context(), dir)
	}
	for _, w := range waits {
		require.NoError(t, within(t, w))
	}
}

// A controller that is short of descriptors for a moment must not stop
// listening: the hooks wait in the socket's queue.
func TestShortageOfDescriptorsIsWaitedOut(t *testing.T) {
	dir := t.TempDir()
	serve(t, dir, ready)
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	hook := os.NewFile(uintptr(fd), "hook")
	defer hook.Close()

	var old syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &old))
	low := old
	low.Cur = 3
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &low))
	err = syscall.Connect(fd, &syscall.SockaddrUnix{Name: filepath.Join(dir, hold.SocketName)})
	time.Sleep(50 * time.Millisecond) // for accept to fail, which nobody can see
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &old))
	require.NoError(t, err)

	fmt.Fprintln(hook, `{"job_id":7}`)
	answer := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(hook).ReadString('\n')
		answer <- line
	}()
	require.Contains(t, within(t, answer), "ready")
}

func TestGarbageIsHungUpOnAndDoesNotHurtOthers(t *testing.T) {
	dir := t.TempDir()
	serve(t, dir, ready)
	for name, text := range map[string]string{
		"no JSON": "hello\n", "another type": "[1,2]\n", "wrong field": `{"job_id":"seven"}` + "\n", "empty line": "\n",
		"binary": "\x00\xff\n", "endless": strings.Repeat("x", 2<<20),
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := net.Dial("unix", filepath.Join(dir, hold.SocketName))
			require.NoError(t, err)
			defer conn.Close()
			require.NoError(t, conn.SetDeadline(time.Now().Add(soon)))
			_, _ = conn.Write([]byte(text)) // may fail: the server hangs up early
			n, err := conn.Read(make([]byte, 1))
			require.Zero(t, n)
			require.Error(t, err)
			require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
		})
	}
	_, err := hold.Ask(t.Context(), dir, question)
	require.NoError(t, err)
}

func TestWhatIsNoAnswerIsAnError(t *testing.T) {
	for name, text := range map[string]string{
		"no JSON": "yes\n", "no outcome": "{}\n", "an outcome of its own": `{"outcome":"perhaps"}` + "\n", "half a line": `{"outcome":"rea`,
		"nothing": "", "endless": strings.Repeat("x", 2<<20),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			l, err := net.Listen("unix", filepath.Join(dir, hold.SocketName))
			require.NoError(t, err)
			defer l.Close()
			go func() {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				defer conn.Close()
				_, _ = bufio.NewReader(conn).ReadString('\n')
				_, _ = conn.Write([]byte(text))
			}()
			require.Error(t, within(t, ask(t.Context(), dir)))
		})
	}
}

func TestOnlyTheFoldersOwnerAndGroupCanAsk(t *testing.T) {
	dir := t.TempDir()
	if os.Geteuid() == 0 {
		require.NoError(t, os.Chown(dir, 4242, 4243))
	}
	serve(t, dir, ready)
	fi, err := os.Lstat(filepath.Join(dir, hold.SocketName))
	require.NoError(t, err)
	require.Equal(t, os.ModeSocket|0o660, fi.Mode())
	if os.Geteuid() != 0 {
		return
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	require.True(t, ok)
	require.Equal(t, [2]uint32{4242, 4243}, [2]uint32{st.Uid, st.Gid}, "the hooks run as SlurmUser, the controller as root")
}
