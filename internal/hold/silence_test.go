package hold

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A stopped controller (SIGSTOP, say) holds its socket open and the kernel
// takes connections for it.
func TestFrozenControllerIsGivenUpOn(t *testing.T) {
	dir := t.TempDir()
	l, err := net.Listen("unix", filepath.Join(dir, SocketName))
	require.NoError(t, err)
	defer l.Close() // it never accepts
	_, err = ask(t.Context(), dir, Question{JobID: 7, Nodes: "gpu-1"}, 50*time.Millisecond)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.ErrorContains(t, err, "wait for the controller's answer")
}

func TestControllerThatIsOnlySlowIsWaitedFor(t *testing.T) {
	dir := t.TempDir()
	s, err := Listen(dir)
	require.NoError(t, err)
	defer s.Close()
	s.beat = 5 * time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() {
		served <- s.Serve(ctx, func(context.Context, Question) (Answer, error) {
			time.Sleep(2 * time.Second) // much longer than the silence that is borne
			return Answer{Outcome: Gone}, nil
		})
	}()
	a, err := ask(t.Context(), dir, Question{JobID: 7, Nodes: "gpu-1"}, time.Second)
	require.NoError(t, err)
	require.Equal(t, Gone, a.Outcome)
	cancel()
	require.NoError(t, <-served)
}

func TestSilenceOutlastsSeveralSignsOfLife(t *testing.T) {
	require.Greater(t, Silence, 3*beatEvery)
}
