package controller

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/hold"
	"github.com/midair-hpc/midair/internal/ledger"
	"github.com/midair-hpc/midair/internal/slurm/slurmtest"
)

func TestSuspendWhileNodesBootReleasesThem(t *testing.T) {
	w := newWorld(t)
	w.boot = time.Minute
	id := w.submit(slurmtest.Job{Nodes: 2})
	w.pass(5 * time.Second)
	require.Len(t, w.east.live(), 2)
	w.ctld.Cancel(id)
	require.NoError(t, w.ctld.UpdateNodes(w.ctx, []string{"a1", "a2"}, powerDownNow))
	w.pass(5 * time.Second)
	require.Empty(t, w.east.live())
	require.Equal(t, ledger.Released, w.launchesOf(id)[0].State)
	w.settled()
}

func TestSuspendBeforeTheCreateCallAnswersEndsTheInstanceWhenItIsKnown(t *testing.T) {
	for name, restart := range map[string]bool{"same controller": false, "another controller": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.east.lose = 8 // about half a minute
			require.NoError(t, w.ctld.UpdateNodes(w.ctx, []string{"a1"}, powerUp))
			w.pass(5 * time.Second)
			require.Len(t, w.east.live(), 1)
			require.NoError(t, w.ctld.UpdateNodes(w.ctx, []string{"a1"}, powerDownNow))
			w.pass(2 * time.Second)
			if restart {
				w.restart()
			}
			w.settled()
			require.Len(t, w.east.all(), 1)
		})
	}
}

func TestNothingIsBoughtAfterARestartForNodesThatWerePoweredDownMeanwhile(t *testing.T) {
	w := newWorld(t)
	w.east.throttle = 1000
	id := w.submit(slurmtest.Job{Nodes: 2, On: []string{"a1", "a2"}})
	w.crash = func(point string) {
		if point == "launch-planned" {
			panic(point)
		}
	}
	w.ctld.Tick()
	require.Panics(t, w.step)
	w.ctld.Cancel(id)
	require.NoError(t, w.ctld.UpdateNodes(w.ctx, []string{"a1", "a2"}, powerDownNow))
	w.crash = func(string) {}
	w.dropRecords = true
	w.pass0(20 * time.Second)
	w.dropRecords = false
	w.restart()
	w.settled()
	require.Empty(t, w.east.launches)
}

func TestInstanceThatVanishesUnderAJobIsReplacedAndTheJobRunsAgain(t *testing.T) {
	for _, op := range []slurmtest.Op{"", slurmtest.ActiveJobs, slurmtest.UpdateNodes} {
		t.Run("slurmctld fails at "+string(op), func(t *testing.T) {
			w := newWorld(t)
			id := w.submit(slurmtest.Job{Nodes: 3, Duration: 5 * time.Minute})
			w.until(time.Minute, "the job to run", func() bool { return w.job(id).State == "RUNNING" })
			w.ctld.Break(op, 2, false)
			w.east.vanish(w.east.all()[0].ID)
			w.east.vanish(w.east.all()[1].ID)
			w.until(2*time.Minute, "the job to be requeued", func() bool { return w.job(id).Restarts == 1 })
			w.pass(2 * time.Second)
			require.Less(t, w.job(id).StartTime.Sub(w.now), 30*time.Second, "the start time is ours, not Slurm's")
			require.Contains(t, w.job(id).Comment, "midair: unknown: the cloud ended the instance (taken back)")
			list := w.launchesOf(id)
			require.Len(t, list, 2, "one failed round, however many of its nodes are lost")
			w.until(20*time.Minute, "the job to complete", w.completed(id))
			w.settled()
		})
	}
}

func TestInstanceThatVanishesWhileItBootsFailsTheLaunch(t *testing.T) {
	w := newWorld(t)
	w.boot = 100 * time.Second
	id := w.submit(slurmtest.Job{Nodes: 2})
	w.pass(5 * time.Second)
	w.east.vanish(w.east.all()[1].ID)
	w.until(time.Minute, "the launch to fail", w.failed(id, 1))
	require.Contains(t, w.job(id).Comment, "init-failed: the instance of a2 ended while it booted")
	w.until(10*time.Minute, "the job to complete", w.completed(id))
	w.settled()
}

func TestEverySlurmCallThatCannotReachSlurmctldIsMadeAgain(t *testing.T) {
	for _, op := range slurmtest.Ops {
		for name, applied := range map[string]bool{"not applied": false, "answer lost": true} {
			t.Run(string(op)+" "+name, func(t *testing.T) {
				w := newWorld(t)
				w.soldOut()
				w.ctld.Break(op, 90, applied) // a minute and a half: longer than any patience
				refused := w.submit(slurmtest.Job{Nodes: 2, On: []string{"a1", "a2"}})
				strange := w.submit(slurmtest.Job{On: []string{"x1"}})
				bought := w.submit(slurmtest.Job{On: []string{"b1"}})
				w.until(15*time.Minute, "the strange job to be held", w.held(strange))
				w.until(30*time.Minute, "the refused job to be held", w.held(refused))
				require.Contains(t, w.job(refused).Comment, "held after 3 of 3 rounds")
				w.until(15*time.Minute, "the other to complete", w.completed(bought))
				w.settled()
			})
		}
	}
}

func TestSlurmThatRefusesForGoodDoesNotKeepALaunchOpen(t *testing.T) {
	w := newWorld(t)
	w.soldOut()
	refused := &cloud.Error{Class: cloud.Unknown, Message: "Invalid node state specified"}
	w.ctld.BreakWith(slurmtest.UpdateNodes, 1000, false, refused)
	w.submit(slurmtest.Job{Nodes: 2})
	w.until(5*time.Minute, "the launch to be closed", func() bool { return len(w.launchesOf(1)) > 0 && w.launchesOf(1)[0].State == ledger.Failed })
}

func TestNothingIsBoughtWhileTheLedgerCannotBeWritten(t *testing.T) {
	w := newWorld(t)
	id := w.submit(slurmtest.Job{Nodes: 2})
	require.NoError(t, w.led.Close())
	w.pass(20 * time.Second)
	require.Empty(t, w.east.launches)
	w.start()
	w.until(5*time.Minute, "the job to complete", w.completed(id))
	w.settled()
}

func TestDamagedLedgerIsRebuiltFromTagsAndRunningNodesAreKept(t *testing.T) {
	w := newWorld(t)
	id := w.submit(slurmtest.Job{Nodes: 3, On: []string{"a1", "a2", "b1"}, Duration: 5 * time.Minute})
	w.until(time.Minute, "the job to run", func() bool { return w.job(id).State == "RUNNING" })
	w.kill()
	for _, suffix := range []string{"-wal", "-shm"} {
		require.NoError(t, os.RemoveAll(filepath.Join(w.dir, "ledger.db"+suffix)))
	}
	require.NoError(t, os.WriteFile(filepath.Join(w.dir, "ledger.db"), make([]byte, 8192), 0o640))
	w.west.unlisted = 3 // its part of the launch is found in a later pass
	w.calls = nil
	w.start()
	require.True(t, w.c.adopting)
	second := w.submit(slurmtest.Job{On: []string{"a5"}})
	w.until(time.Minute, "the ledger to be rebuilt", func() bool { return !w.c.adopting })
	w.until(time.Minute, "the second job to complete", w.completed(second))
	w.until(6*time.Minute, "the job to complete", w.completed(id))
	require.Zero(t, w.job(id).Restarts)
	require.Len(t, append(w.east.all(), w.west.all()...), 4, "nothing was bought again")
	w.settled()
}

func TestACloudThatNeverAnswersDoesNotKeepTheOthersFromBuying(t *testing.T) {
	w := newWorld(t)
	w.kill()
	require.NoError(t, os.Remove(filepath.Join(w.dir, "ledger.db")))
	require.NoError(t, os.RemoveAll(filepath.Join(w.dir, "ledger.db-wal")))
	w.west.unlisted = 1 << 30
	w.ids = 1
	w.start()
	id := w.submit(slurmtest.Job{})
	w.until(15*time.Minute, "the job to complete", w.completed(id))
}

func TestHooksThatWaitAreLetGo(t *testing.T) {
	w := newWorld(t)
	id := w.submit(slurmtest.Job{Nodes: 2})
	w.ctld.Tick()
	ready, _ := w.ask(id, "a[1-2]")
	w.pass(time.Second)
	require.Empty(t, ready)
	w.pass(10 * time.Second)
	require.Equal(t, hold.Ready, <-ready)

	cancelled := w.submit(slurmtest.Job{On: []string{"a4"}})
	w.ctld.Tick()
	gone, _ := w.ask(cancelled, "a4")
	w.ctld.Cancel(cancelled)
	w.pass(2 * time.Second)
	require.Equal(t, hold.Gone, <-gone)

	w.soldOut()
	failed := w.submit(slurmtest.Job{Nodes: 2, On: []string{"a5", "a6"}})
	w.ctld.Tick()
	refused, _ := w.ask(failed, "a[5-6]")
	w.pass(2 * time.Second)
	require.Equal(t, hold.Gone, <-refused)

	w.boot = time.Hour
	w.east.mend()
	waits := w.submit(slurmtest.Job{On: []string{"b1"}})
	w.ctld.Tick()
	_, hangUp := w.ask(waits, "b1")
	w.turn()
	require.Len(t, w.c.waiters, 1)
	hangUp()
	w.turn()
	require.Empty(t, w.c.waiters)
}

func TestTerminateIsRepeatedUntilTheCloudAccepts(t *testing.T) {
	w := newWorld(t)
	id := w.submit(slurmtest.Job{})
	w.until(time.Minute, "the job to complete", w.completed(id))
	w.east.busy = 20
	w.settled()
	require.Zero(t, w.east.busy)
}

func TestListThatLagsKillsNothing(t *testing.T) {
	w := newWorld(t)
	w.east.lag = 4 * time.Minute
	id := w.submit(slurmtest.Job{Nodes: 2, Duration: 5 * time.Minute})
	w.until(7*time.Minute, "the job to complete", w.completed(id))
	require.Zero(t, w.job(id).Restarts)
	w.east.mend()
	w.settled()
	require.Len(t, w.east.all(), 2)
}
