package controller

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/slurm/slurmtest"
)

// live runs the controller's own loop, with goroutines, in the bubble's time.
// The function it gives stops it.
func (w *world) live() (stop func()) {
	ctx, cancel := context.WithCancel(w.ctx)
	w.bubble, w.beside, w.now = true, true, time.Now()
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := w.c.Run(ctx, nil); err != nil {
			w.t.Error(err)
		}
	})
	wg.Go(func() {
		for ctx.Err() == nil {
			time.Sleep(time.Second)
			w.ctld.Tick()
			w.slurmds()
		}
	})
	return func() {
		w.stop() // also ends calls that hang
		cancel()
		wg.Wait()
	}
}

func TestCloudCallsThatNeverReturnAreGivenUpAndMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		stop := w.live()
		defer stop()
		time.Sleep(time.Minute)
		first := w.submit(slurmtest.Job{Nodes: 2})
		time.Sleep(10 * time.Second)
		require.Equal(t, "RUNNING", w.job(first).State)
		w.east.setHang(true)
		hung := w.submit(slurmtest.Job{Nodes: 1, On: []string{"a4"}})
		other := w.submit(slurmtest.Job{Nodes: 1, On: []string{"b1"}})
		time.Sleep(50 * time.Second)
		require.Equal(t, "COMPLETED", w.job(other).State, "another cloud is not held up")
		time.Sleep(5 * time.Minute)
		require.NotEqual(t, "COMPLETED", w.job(hung).State)
		require.Contains(t, w.job(hung).Comment, "midair: unknown: a4 got no instance within ResumeTimeout: the call was interrupted")
		w.east.setHang(false)
		time.Sleep(30 * time.Minute)
		require.Equal(t, "COMPLETED", w.job(hung).State, "create calls and listings go on")
		require.Empty(t, w.east.live(), "terminations too")
	})
}
