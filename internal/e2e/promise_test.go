package e2e

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/controller"
	"github.com/midair-hpc/midair/internal/testcluster"
)

func TestJobGetsNodesThatDidNotExistAndTheyGoAway(t *testing.T) {
	l := startLab(t, labOptions{})
	id := l.submit("p2", 3, "srun hostname > hosts")
	l.state(id, "COMPLETED")
	hosts, err := os.ReadFile(l.Path("/mnt/home/alice/hosts"))
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"spot-001", "spot-002", "spot-003"}, strings.Fields(string(hosts)), "each node is a machine with its own host name")
	l.settles()
	require.Contains(t, l.run("midair", "why", fmt.Sprint(id)), "midair had ready after")
}

// Every place between two journal steps, and for each the two ways a launch
// can go: well, and with a failed first round.
func TestKillAtEveryCrashPointLeaksNothingAndTheJobRuns(t *testing.T) {
	l := startLab(t, labOptions{noController: true})
	for _, point := range controller.CrashPoints {
		failing := strings.HasPrefix(point, "launch-fail") || point == "nodes-powered-down" || point == "job-requeued"
		t.Run(point, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
			defer cancel()
			l := &lab{Cluster: l.Cluster, t: t, ctx: ctx}
			if failing {
				l.fault("set", "--unknown", "1") // the one call for both offerings of the pool
			}
			d := l.controller("MIDAIR_CRASH_AT=" + point)
			defer func() { _ = l.Signal(context.Background(), l.Daemon("controller"), "KILL") }()
			id := l.submit("p1", 2, "sleep 1")
			select {
			case <-d.Done():
			case <-l.ctx.Done():
				t.Fatal("the controller did not reach " + point)
			}
			d = l.controller()
			l.state(id, "COMPLETED")
			l.settles()
			require.NoError(t, l.Signal(l.ctx, d, "TERM"))
			l.fault("clear")
		})
	}
}

func TestSameRequestTwiceLaunchesOnce(t *testing.T) {
	l := startLab(t, labOptions{noController: true})
	id := l.submit("p1", 2, "sleep 2")
	l.within(20*time.Second, "the request", func() bool { return len(l.spoolFiles()) > 0 })
	record, err := os.ReadFile(l.spoolFiles()[0])
	require.NoError(t, err)
	for i := range 2 {
		require.NoError(t, l.WriteFile(fmt.Sprintf("%s/%020d-again.json", testcluster.SpoolDir, i), string(record), 0o640))
	}
	l.controller()
	l.run("/bin/sh", "-c", testcluster.HooksDir+"/midair-resume od-[1-2]")
	l.state(id, "COMPLETED")
	l.run(testcluster.HooksDir+"/midair-resume", "od-[1-2]") // by hand, when nobody asked
	l.settles()
	require.Len(t, l.instances(), 2)
}

func TestSlurmctldRestartWhileNodesBoot(t *testing.T) {
	l := startLab(t, labOptions{})
	l.fault("set", "--boot-delay", "g1/za/on-demand=4s")
	id := l.submit("p1", 2, "sleep 1")
	l.within(20*time.Second, "two instances", func() bool { return len(l.live()) == 2 })
	require.NoError(t, l.Signal(l.ctx, l.Daemon("slurmctld"), "KILL"))
	require.NoError(t, l.StartSlurmctld(l.ctx))
	l.state(id, "COMPLETED")
	l.settles()
}

func TestRequestsArriveWhileTheControllerIsDown(t *testing.T) {
	l := startLab(t, labOptions{noController: true, resumeTimeout: "150s"})
	first := l.submit("p1", 1, "sleep 1")
	second := l.submit("p2", 3, "sleep 1")
	l.within(20*time.Second, "the requests", func() bool { return len(l.spoolFiles()) > 0 })
	third := l.submit("p2", 2, "sleep 1")
	time.Sleep(time.Minute) // the minute is what the promise is about
	l.controller()
	for _, id := range []int{first, second, third} {
		l.state(id, "COMPLETED")
	}
	l.settles()
}

func TestLostCreateAnswerIsAskedAgainNotBoughtAgain(t *testing.T) {
	l := startLab(t, labOptions{})
	l.fault("set", "--lose-answer", "2")
	id := l.submit("p2", 3, "sleep 1")
	l.state(id, "COMPLETED")
	l.settles()
	require.Len(t, l.instances(), 3)
}

func TestListThatLagsKillsNothing(t *testing.T) {
	l := startLab(t, labOptions{})
	l.fault("set", "--list-lag", "30s")
	id := l.submit("p2", 2, "sleep 12") // several reconciler passes
	l.state(id, "COMPLETED")
	l.fault("clear")
	l.settles()
	require.Len(t, l.instances(), 2)
}

func TestNodeThatNeverRegistersIsReplacedAndTheConsoleKept(t *testing.T) {
	l := startLab(t, labOptions{resumeTimeout: "6s"})
	l.fault("set", "--no-register", "od-1")
	id := l.submit("p1", 2, "sleep 1", "--exclude=od-[3-8]")
	l.within(60*time.Second, "the reason on the job", func() bool { return strings.HasPrefix(l.job(id, "%k"), "midair: init-failed: od-1 did not register") })
	l.within(10*time.Second, "the reason on the node", func() bool {
		return strings.Contains(l.run("scontrol", "show", "node", "od-1"), "Reason=midair: init-failed: od-1 did not register")
	})
	l.fault("clear")
	l.state(id, "COMPLETED")
	l.settles()
	require.Contains(t, l.run("midair", "why", fmt.Sprint(id)), "init-failed")
}

func TestInstanceThatVanishesUnderAJobIsReplacedAndTheJobRunsAgain(t *testing.T) {
	l := startLab(t, labOptions{})
	id := l.submit("p2", 2, "echo run >>runs; sleep 4", "--requeue", "--open-mode=append")
	l.state(id, "RUNNING")
	l.fault("set", "--vanish", "spot-001")
	l.state(id, "PENDING", "CONFIGURING")
	l.within(30*time.Second, "the reason on the node", func() bool {
		return strings.Contains(l.run("scontrol", "show", "node", "spot-001"), "Reason=midair: unknown: the cloud ended")
	})
	l.state(id, "COMPLETED")
	l.settles()
}

func TestManualPowerUpOfNodesInNoJob(t *testing.T) {
	l := startLab(t, labOptions{})
	l.run("scontrol", "update", "nodename=od-[1-2]", "state=power_up")
	l.within(30*time.Second, "two idle nodes", func() bool {
		return strings.TrimSpace(l.run("sinfo", "-h", "-N", "-n", "od-[1-2]", "-t", "idle", "-o", "%N %T")) != "" && strings.Count(l.run("sinfo", "-h", "-N", "-n", "od-[1-2]", "-o", "%T"), "idle\n") == 2
	})
	l.settles()
	require.Len(t, l.instances(), 2)
}

func TestOneCallThatSpansPoolsServesBoth(t *testing.T) {
	l := startLab(t, labOptions{fragment: "PartitionName=both Nodes=od-[1-8],spot-[001-320] MaxTime=1:00:00\n"})
	id := l.submit("normal", 4, "sleep 1", "-p", "both", "-w", "od-[1-2],spot-[001-002]")
	l.state(id, "COMPLETED")
	l.settles()
	require.Len(t, l.instances(), 4)
}

func TestThreeHundredOneNodeJobsAtOnce(t *testing.T) {
	l := startLab(t, labOptions{resumeTimeout: "200s"})
	out, err := l.RunAs(l.ctx, "alice", "sh", "-c", `for i in $(seq 300); do sbatch -Q --qos=p2 -n1 --mem=100 --time=5 --output=/dev/null --wrap=true & [ $((i % 20)) -ne 0 ] || wait; done; wait`)
	require.NoError(t, err, out)
	l.within(4*time.Minute, "all jobs to end", func() bool {
		return strings.TrimSpace(l.run("squeue", "-h", "-u", "alice", "-o", "%i")) == ""
	})
	done := l.run("squeue", "-h", "-u", "alice", "-t", "COMPLETED", "-o", "%i")
	require.Len(t, strings.Fields(done), 300)
	l.settles()
}

func TestScancelWhileNodesBootLeavesNothing(t *testing.T) {
	l := startLab(t, labOptions{})
	l.fault("set", "--boot-delay", "g1/za/on-demand=3s")
	id := l.submit("p1", 2, "sleep 100")
	l.within(20*time.Second, "two instances", func() bool { return len(l.live()) == 2 })
	l.run("scancel", fmt.Sprint(id))
	l.within(10*time.Second, "the job to be gone, its hook with it", func() bool { return l.job(id, "%T") == "CANCELLED" || l.job(id, "%T") == "" })
	l.settles()
}

func TestOutOfStockUsesTheNextOfferingInTheSameRound(t *testing.T) {
	l := startLab(t, labOptions{})
	l.fault("set", "--out-of-stock", "g1/za/spot")
	id := l.submit("p2", 2, "sleep 1")
	l.state(id, "COMPLETED")
	l.settles()
	why := l.run("midair", "why", fmt.Sprint(id))
	require.Contains(t, why, "g1/za/spot")
	require.NotContains(t, why, "failed ")
}

func TestFailedRoundsAreCappedThenTheJobIsHeldWithTheReason(t *testing.T) {
	l := startLab(t, labOptions{})
	l.fault("set", "--out-of-stock", "g1/za/on-demand", "--out-of-stock", "g2/za/on-demand")
	id := l.submit("p1", 2, "sleep 1")
	l.within(2*time.Minute, "the job to be held", func() bool { return strings.HasPrefix(l.job(id, "%r"), "JobHeld") })
	require.Contains(t, l.job(id, "%k"), "midair: out-of-stock")
	require.Contains(t, l.job(id, "%k"), "held after 3 of 3 rounds")
	require.Contains(t, l.run("midair", "why", fmt.Sprint(id)), "held: out-of-stock")
	require.Empty(t, l.live())
	l.fault("clear")
	_, err := l.RunAs(l.ctx, "alice", "scontrol", "release", fmt.Sprint(id))
	require.NoError(t, err, "its owner can release it")
	l.state(id, "COMPLETED")
	l.settles()
}

func TestFailedLaunchReleasesSiblingsAndRequeuesAtOurTime(t *testing.T) {
	l := startLab(t, labOptions{})
	l.fault("set", "--unknown", "1")
	began := time.Now()
	id := l.submit("p1", 3, "sleep 1")
	l.state(id, "COMPLETED")
	require.Less(t, time.Since(began), 60*time.Second, "Slurm's own delay is 121 s")
	l.settles()
	require.Len(t, l.instances(), 3)
}

func TestSpoolThatIsFullOrReadOnlyIsReportedAndNothingIsHalfWritten(t *testing.T) {
	l := startLab(t, labOptions{noController: true})
	for name, mount := range map[string]string{
		"full":      "mount -t tmpfs -o size=64k,mode=750,uid=slurm tmpfs " + testcluster.SpoolDir + " && (head -c 1M /dev/zero >" + testcluster.SpoolDir + "/fill; true)",
		"read-only": "mount -t tmpfs -o ro,mode=750,uid=slurm tmpfs " + testcluster.SpoolDir,
	} {
		t.Run(name, func(t *testing.T) {
			l.run("/bin/sh", "-c", mount)
			defer l.run("/bin/umount", testcluster.SpoolDir)
			out, err := l.Run(l.ctx, "/usr/bin/env", "-i", "/usr/bin/setpriv", "--reuid=slurm", "--regid=slurm", "--clear-groups", testcluster.HooksDir+"/midair-resume", "od-[1-8]")
			require.Error(t, err, out)
			require.Empty(t, l.spoolFiles())
			log, err := os.ReadFile(l.Path("/var/log/midair/hook.log"))
			require.NoError(t, err)
			require.Contains(t, string(log), testcluster.SpoolDir)
		})
	}
}

func TestLedgerFromANewerVersionIsRefused(t *testing.T) {
	l := startLab(t, labOptions{})
	require.NoError(t, l.Signal(l.ctx, l.Daemon("controller"), "TERM"))
	l.run("python3", "-c", "import sqlite3; c=sqlite3.connect('"+testcluster.LedgerDir+"/ledger.db'); c.execute('PRAGMA user_version=9999'); c.commit()")
	_, err := l.Run(l.ctx, "midair", "controller")
	require.ErrorContains(t, err, "newer")
	require.ErrorContains(t, err, "9999")
}

func TestCorruptLedgerIsMovedAsideAndRebuiltFromTags(t *testing.T) {
	l := startLab(t, labOptions{})
	id := l.submit("p2", 2, "sleep 15")
	l.state(id, "RUNNING")
	require.NoError(t, l.Signal(l.ctx, l.Daemon("controller"), "KILL"))
	l.run("/bin/sh", "-c", "cd "+testcluster.LedgerDir+" && rm -f ledger.db-wal ledger.db-shm && head -c 8192 /dev/urandom >ledger.db")
	l.controller()
	l.state(id, "COMPLETED")
	l.settles()
	require.Len(t, l.instances(), 2, "the running nodes were taken over, not bought again")
	require.NotEmpty(t, strings.TrimSpace(l.run("/bin/sh", "-c", "ls "+testcluster.LedgerDir+" | grep corrupt")))
}

func TestHookWithoutControllerStillLetsTheJobStart(t *testing.T) {
	l := startLab(t, labOptions{})
	l.fault("set", "--boot-delay", "g1/za/on-demand=4s")
	id := l.submit("p1", 1, "sleep 1")
	l.within(20*time.Second, "an instance with its address set", func() bool {
		return strings.Contains(l.run("scontrol", "show", "node", "od-1"), "NodeAddr=10.213.")
	})
	require.NoError(t, l.Signal(l.ctx, l.Daemon("controller"), "KILL"))
	l.state(id, "COMPLETED")
	l.controller()
	l.settles()
}

func TestP0JobThatAsksForACloudPartitionIsRefusedWithAReason(t *testing.T) {
	l := startLab(t, labOptions{})
	_, err := l.Sbatch(l.ctx, "alice", "--qos=p0", "-p", "od", "--wrap=true")
	require.ErrorContains(t, err, "p0")
	id := l.submit("p1", 1, "sleep 1")
	require.Equal(t, "od", l.job(id, "%P"))
	require.Contains(t, l.run("scontrol", "show", "job", fmt.Sprint(id)), "tier=p1")
	l.state(id, "COMPLETED")
	l.settles()
}
