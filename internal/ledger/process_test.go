package ledger

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The test binary is also a process that writes to a ledger until it is
// killed or has written as many transactions as it was told to.
const (
	childPath  = "MIDAIR_TEST_LEDGER"
	childName  = "MIDAIR_TEST_WRITER"
	childFirst = "MIDAIR_TEST_FIRST"
	childCount = "MIDAIR_TEST_COUNT"
)

func TestMain(m *testing.M) {
	if os.Getenv(childPath) == "" {
		os.Exit(m.Run())
	}
	if err := child(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func child(ctx context.Context) error {
	first, err := strconv.Atoi(os.Getenv(childFirst))
	if err != nil {
		return err
	}
	count, err := strconv.Atoi(os.Getenv(childCount))
	if err != nil {
		return err
	}
	fmt.Println("opening")
	l, r, err := Open(ctx, os.Getenv(childPath), quiet, time.Now)
	if err != nil {
		return err
	}
	if r.MovedAside != "" {
		return fmt.Errorf("moved aside to %s", r.MovedAside)
	}
	for n := first; n < first+count; n++ {
		if err := l.Update(ctx, step(os.Getenv(childName), n)); err != nil {
			return err
		}
		fmt.Println(n) // acknowledged
	}
	return l.Close()
}

// stepNodes is how many nodes a step's launch has: now and then so many that
// writing them takes a while.
func stepNodes(n int) int {
	if n%5 == 0 {
		return 300
	}
	return 1 + n%7
}

// step is the n-th transaction of a writer: it touches every kind of record.
func step(writer string, n int) func(tx *Tx) error {
	id := fmt.Sprintf("%s-%06d", writer, n)
	la := aLaunch(id, n, stepNodes(n), noon)
	return func(tx *Tx) error {
		for _, write := range []func() error{
			func() error { return tx.AddRequests([]Request{{Name: id, At: noon}}) },
			func() error { return tx.AddLaunches([]Launch{la}) },
			func() error { return tx.AddIntents([]Intent{anIntent(id, la)}) },
			func() error { return tx.AddInstances(instancesOf(la, id)) },
			func() error { return tx.CloseIntent(id, noon) },
			func() error { return tx.AddFailures([]Failure{{At: noon, Launch: id}}) },
			func() error {
				return tx.PutMemory([]MemoryEntry{{Provider: writer, Offering: spotA, Failures: n, Since: noon, Until: noon}})
			},
			func() error { return tx.SetTerminating("east", []string{"i-" + id + "-0"}, "last step") },
		} {
			if err := write(); err != nil {
				return err
			}
		}
		return nil
	}
}

// steps gives which steps of a writer are in the ledger, and fails if one is
// there in part.
func steps(t *testing.T, l *Ledger, writer string) int {
	t.Helper()
	var counts [7]int
	var highest int
	require.NoError(t, one(t.Context(), l.reader, []any{&counts[0], &counts[1], &counts[2], &counts[3], &counts[4], &counts[5], &highest}, `SELECT
		(SELECT count(*) FROM requests WHERE name LIKE ?1||'-%'),
		(SELECT count(*) FROM launches WHERE id LIKE ?1||'-%'),
		(SELECT count(*) FROM intents WHERE token LIKE ?1||'-%' AND open = 0),
		(SELECT count(*) FROM failures WHERE launch LIKE ?1||'-%'),
		(SELECT count(*) FROM instances WHERE launch LIKE ?1||'-%'),
		(SELECT count(*) FROM instances WHERE launch LIKE ?1||'-%' AND state = 'terminating'),
		coalesce((SELECT failures FROM memory WHERE provider = ?1), 0)`, writer))
	n := counts[0]
	nodes := 0
	for i := 1; i <= n; i++ {
		nodes += stepNodes(i)
	}
	require.Equal(t, [7]int{n, n, n, n, nodes, n}, counts)
	require.Equal(t, n, highest, "steps 1 to %d and no other", n)
	return n
}

type process struct {
	*exec.Cmd
	out    *bufio.Scanner
	stderr *strings.Builder
}

func startChild(t *testing.T, path, writer string, first, count int) *process {
	t.Helper()
	p := &process{Cmd: exec.Command(os.Args[0]), stderr: &strings.Builder{}}
	p.Env = append(os.Environ(), childPath+"="+path, childName+"="+writer, fmt.Sprintf("%s=%d", childFirst, first), fmt.Sprintf("%s=%d", childCount, count))
	p.Stderr = p.stderr
	out, err := p.StdoutPipe()
	require.NoError(t, err)
	p.out = bufio.NewScanner(out)
	require.NoError(t, p.Start())
	t.Cleanup(func() {
		if p.ProcessState == nil {
			p.Process.Kill()
			p.Wait()
		}
	})
	require.True(t, p.out.Scan(), "the child says that it runs: %s", p.stderr)
	require.Equal(t, "opening", p.out.Text())
	return p
}

// last reads acknowledgements to the end and gives the last one.
func (p *process) last(before int) int {
	for p.out.Scan() {
		if n, err := strconv.Atoi(p.out.Text()); err == nil {
			before = n
		}
	}
	return before
}

// A process that is killed at any moment, also while it creates the ledger,
// leaves exactly what it has committed: every transaction that it had
// acknowledged, at most the one after, and none in part.
func TestKilledWriterLosesNothing(t *testing.T) {
	const rounds = 30
	r := rand.New(rand.NewPCG(2026, 3))
	var path string
	acked := 0
	total, young := 0, 0
	for round := range rounds {
		within := 40 * time.Millisecond
		if round%3 == 0 {
			path, acked = filepath.Join(t.TempDir(), "ledger.db"), 0
			within = 15 * time.Millisecond // about what creating one takes
		}
		p := startChild(t, path, "w", acked+1, 1e6)
		// A third of the kills hit the creation, a third the opening and the
		// first writes, a third a busy writer.
		if round%3 == 2 && p.out.Scan() {
			acked, _ = strconv.Atoi(p.out.Text())
		}
		time.Sleep(time.Duration(r.Int64N(int64(within))))
		require.NoError(t, p.Process.Kill())
		acked = p.last(acked)
		require.ErrorContains(t, p.Wait(), "killed", "%s", p.stderr)

		l, rep, err := Open(t.Context(), path, quiet, clock) // which runs quick_check
		require.NoError(t, err, "round %d", round)
		require.Empty(t, rep.MovedAside)
		var check string
		require.NoError(t, one(t.Context(), l.reader, []any{&check}, `PRAGMA integrity_check`))
		require.Equal(t, "ok", check)
		n := steps(t, l, "w")
		require.Contains(t, []int{acked, acked + 1}, n, "round %d", round)
		total += n - acked
		if n == 0 {
			young++
		}
		acked = n
		require.NoError(t, l.Close())
	}
	t.Logf("of %d kills, %d fell before the first commit and %d between a commit and its acknowledgement", rounds, young, total)
}

// Two processes and this one write as fast as they can while others read: no
// write fails, none is lost, and no reader sees half a transaction.
func TestProcessesShareALedger(t *testing.T) {
	const each = 60
	path := filepath.Join(t.TempDir(), "ledger.db")
	l, _ := mustOpen(t, path)
	defer l.Close()
	children := []*process{startChild(t, path, "a", 1, each), startChild(t, path, "b", 1, each)}
	reader, err := OpenReadOnly(t.Context(), path)
	require.NoError(t, err)
	defer reader.Close()

	done := make(chan struct{})
	var writing sync.WaitGroup
	for _, p := range children {
		writing.Go(func() {
			p.last(0)
			if err := p.Wait(); err != nil {
				t.Errorf("writer: %v: %s", err, p.stderr)
			}
		})
	}
	writing.Go(func() {
		for n := 1; n <= each; n++ {
			if err := l.Update(t.Context(), step("c", n)); err != nil {
				t.Errorf("step %d: %v", n, err)
				return
			}
		}
	})
	go func() { writing.Wait(); close(done) }()
	seen := map[string]int{}
	reads := 0
	for running := true; running; reads++ {
		select {
		case <-done:
			running = false
		default:
		}
		for _, w := range []string{"a", "b", "c"} {
			n := steps(t, reader, w)
			require.GreaterOrEqual(t, n, seen[w], "time runs forward")
			seen[w] = n
		}
	}
	require.Equal(t, map[string]int{"a": each, "b": each, "c": each}, seen)
	t.Logf("read %d times meanwhile", reads)
}
