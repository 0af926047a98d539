package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/testcluster"
)

// The faults in this file have broken other systems that burst from Slurm to a
// cloud. Each runs on a real slurmctld, with the stand-in for AWS.

func TestAWSJobGetsInstancesAndTheyGoAway(t *testing.T) {
	l := startAWS(t, labOptions{})
	id := l.submit("p2", 3, "srun hostname > hosts")
	l.state(id, "COMPLETED")
	for _, i := range l.instances() {
		require.Equal(t, "lab", i.Tags["midair:cluster"])
		require.Equal(t, "alice", i.Tags["midair:user"])
		require.Equal(t, fmt.Sprint(id), i.Tags["midair:job"])
		require.Equal(t, "p2", i.Tags["midair:tier"])
		require.Equal(t, i.Node, i.Tags["Name"])
	}
	l.settles()
	require.Len(t, l.instances(), 3)
	require.Equal(t, 1, l.creates(), "one call for a job's three nodes")
}

func TestStockoutLeavesNoNodeDown(t *testing.T) {
	l := startAWS(t, labOptions{})
	l.aws("--error", "InsufficientInstanceCapacity", "--type", "c7i.large")
	id := l.submit("p1", 2, "sleep 1")
	l.commented(id, "midair: out-of-stock: ")
	l.within(30*time.Second, "its nodes to be powered down and in service", func() bool {
		return strings.Count(l.run("sinfo", "-h", "-N", "-p", "od", "-o", "%T"), "idle~") == 8
	})
	require.Contains(t, l.reasons("od-1"), "Reason=midair: out-of-stock: ")
	require.Contains(t, l.why(id), "out-of-stock")
	l.awsClear()
	l.state(id, "COMPLETED")
	l.settles()
}

func TestQuotaThatFitsPartOfAJobBuysNothingAndShowsTheQuota(t *testing.T) {
	l := startAWS(t, labOptions{})
	l.awsSet("--quota", "L-1216C47A=4") // standard on-demand vCPUs: two c7i.large
	id := l.submit("p1", 3, "sleep 1")
	l.commented(id, "midair: quota: ")
	l.within(60*time.Second, "the job to be held after its rounds, or to wait", func() bool {
		return strings.HasPrefix(l.job(id, "%r"), "JobHeld") || strings.Contains(l.why(id), "quota")
	})
	require.LessOrEqual(t, l.creates(), 3, "at most one call a round")
	require.Empty(t, l.instances(), "all or nothing is EC2's own promise")
	require.Contains(t, l.reasons("od-1"), "Reason=midair: quota: ")
	l.awsSet("--quota", "L-1216C47A=100")
	l.run("scontrol", "release", fmt.Sprint(id))
	l.state(id, "COMPLETED")
	l.settles()
}

func TestHungCreateCallBlocksNeitherOtherTiersNorReconfigure(t *testing.T) {
	l := startAWS(t, labOptions{resumeTimeout: "120s"})
	l.aws("--hang", "40s", "--action", "CreateFleet", "--times", "1")
	slow := l.submit("p2", 2, "sleep 1")
	l.within(20*time.Second, "the call that hangs", func() bool { return l.creates() > 0 })
	id := l.submit("p1", 1, "sleep 1")
	began := time.Now()
	l.run("scontrol", "reconfigure")
	l.state(id, "COMPLETED")
	require.Less(t, time.Since(began), 30*time.Second)
	l.awsClear()
	l.state(slow, "COMPLETED")
	l.settles()
	require.Len(t, l.instances(), 3)
}

func TestInstanceThatNeverBecomesANodeIsReplacedAndItsConsoleKept(t *testing.T) {
	l := startAWS(t, labOptions{resumeTimeout: "6s"})
	l.aws("--no-boot", "--times", "1")
	id := l.submit("p1", 1, "sleep 1")
	l.commented(id, "midair: init-failed: od-")
	l.state(id, "COMPLETED")
	l.settles()
	require.Contains(t, l.why(id), "init-failed")
	led := l.ledger()
	defer led.Close()
	all, err := led.Instances(l.ctx, time.Time{})
	require.NoError(t, err)
	var consoles int
	for _, i := range all {
		if i.Console != "" {
			consoles++
		}
	}
	require.NotZero(t, consoles, "what the instance printed before it was ended")
}

func TestTerminateThatFailsIsRepeatedUntilNothingIsBilled(t *testing.T) {
	l := startAWS(t, labOptions{})
	id := l.submit("p2", 2, "sleep 1")
	l.state(id, "COMPLETED")
	l.aws("--error", "InternalError", "--action", "TerminateInstances", "--times", "3")
	l.settles()
}

func TestInstancesThatAreNotShownYetAreNotReplaced(t *testing.T) {
	l := startAWS(t, labOptions{}, "--id-lag", "6s", "--address-lag", "8s", "--tag-lag", "2s")
	id := l.submit("p2", 2, "sleep 12") // several reconciler passes
	l.state(id, "COMPLETED")
	require.Len(t, l.instances(), 2)
	l.settles()
	require.Len(t, l.instances(), 2)
}

func TestSpotLossUnderAnExclusiveJobRunsItAgainElsewhere(t *testing.T) {
	l := startAWS(t, labOptions{})
	id := l.submit("p2", 2, "sleep 6", "--requeue", "--exclusive")
	l.state(id, "RUNNING")
	l.run("midair", "ec2sim", "fault", "interrupt", "--notice", "1s", "spot-001")
	began := time.Now()
	l.state(id, "PENDING", "CONFIGURING")
	l.within(30*time.Second, "the reason on the node", func() bool {
		r := l.reasons("spot-001")
		return strings.Contains(r, "Reason=midair: ") && strings.Contains(r, "spot")
	})
	l.state(id, "COMPLETED")
	require.Less(t, time.Since(began), 100*time.Second, "Slurm's own delay is 121 s")
	l.settles()
}

func TestOneOfferingThatNeverBootsLeavesTheOthersUsable(t *testing.T) {
	l := startAWS(t, labOptions{resumeTimeout: "5s", yaml: strings.ReplaceAll(strings.ReplaceAll(awsYAML, "rounds: 3", "rounds: 9"), "first: 2s, max: 10s", "first: 60s, max: 120s, init_failures: 1")})
	l.aws("--no-boot", "--type", "c7i.large", "--market", "spot")
	l.awsSet("--price", "m7i.large/us-east-1a=0.9", "--price", "m7i.large/us-east-1b=0.9")
	id := l.submit("p2", 1, "sleep 1")
	l.within(2*time.Minute, "the job to have run", func() bool { return l.job(id, "%T") == "COMPLETED" })
	second := l.submit("p2", 1, "sleep 1")
	l.state(second, "COMPLETED")
	require.NotContains(t, l.why(second), "init-failed", "the bad offering is passed over by now")
	require.NotContains(t, l.run("sinfo", "-h", "-p", "spot", "-o", "%a"), "inact")
	l.settles()
}

func TestResumeFailProgramThatIsKilledLeavesNoInstance(t *testing.T) {
	l := startAWS(t, labOptions{resumeTimeout: "6s", noController: true})
	hook := testcluster.HooksDir + "/midair-slurmctld-hook"
	require.NoError(t, l.WriteFile("/mnt/killed", "#!/bin/sh\n[ -n \"$SLURM_SCRIPT_CONTEXT\" ] || kill -9 $$\nexec /mnt/hook \"$@\"\n", 0o755))
	l.run("/bin/sh", "-c", "cp "+hook+" /mnt/hook && mount --bind /mnt/killed "+hook)
	l.controller()
	l.aws("--no-boot", "--times", "1")
	id := l.submit("p1", 1, "sleep 1")
	l.state(id, "COMPLETED")
	l.settles()
}

func TestDeleteThatTakesLongerThanSuspendTimeoutGivesNoSecondInstanceOfALife(t *testing.T) {
	l := startAWS(t, labOptions{})
	l.aws("--slow-terminate", "10s")
	for range 2 {
		id := l.submit("p1", 1, "sleep 1", "-w", "od-1")
		l.state(id, "COMPLETED")
		l.within(30*time.Second, "od-1 to be powered down", func() bool {
			return strings.TrimSpace(l.run("sinfo", "-h", "-N", "-n", "od-1", "-o", "%T")) == "idle~"
		})
	}
	l.awsClear()
	l.settles()
	require.Len(t, l.instances(), 2)
}

func TestNodeThatArrivesAfterResumeTimeoutIsNotLeftRunning(t *testing.T) {
	l := startAWS(t, labOptions{resumeTimeout: "5s"}, "--boot", "9s")
	id := l.submit("p1", 1, "sleep 1")
	l.commented(id, "midair: init-failed: ")
	l.run("scancel", fmt.Sprint(id))
	l.settles()
}

func TestCreateAnswerThatIsCutOffIsAskedAgainNotBoughtAgain(t *testing.T) {
	l := startAWS(t, labOptions{})
	l.aws("--cut", "--after", "--action", "RunInstances", "--times", "1")
	l.aws("--cut", "--after", "--action", "CreateFleet", "--times", "1")
	id := l.submit("p2", 3, "sleep 1")
	one := l.submit("p1", 1, "sleep 1")
	l.state(id, "COMPLETED")
	l.state(one, "COMPLETED")
	l.settles()
	require.Len(t, l.instances(), 4)
}

func TestThrottledCreateCallIsRepeatedNotFailed(t *testing.T) {
	l := startAWS(t, labOptions{})
	l.aws("--throttle", "--times", "6")
	id := l.submit("p2", 2, "sleep 1")
	l.state(id, "COMPLETED")
	require.NotContains(t, l.job(id, "%k"), "midair:", "throttling is nobody's business but ours")
	l.settles()
	require.Len(t, l.instances(), 2)
}

func TestUnknownCodeGetsTheSafeActionAndAnEnd(t *testing.T) {
	l := startAWS(t, labOptions{})
	l.aws("--error", "ResourcePoolTired_WITH_DETAILS", "--message", "something new")
	id := l.submit("p1", 2, "sleep 1")
	l.commented(id, "midair: unknown: ")
	l.within(2*time.Minute, "the job to be held", func() bool { return strings.HasPrefix(l.job(id, "%r"), "JobHeld") })
	require.Contains(t, l.why(id), "ResourcePoolTired_WITH_DETAILS")
	require.LessOrEqual(t, l.creates(), 3)
	l.awsClear()
	l.run("scontrol", "release", fmt.Sprint(id))
	l.state(id, "COMPLETED")
	l.settles()
}

func TestSpotFallsBackToOnDemandAndReturnsToSpotByItself(t *testing.T) {
	l := startAWS(t, labOptions{})
	l.aws("--error", "InsufficientInstanceCapacity", "--market", "spot")
	first := l.submit("p2", 2, "sleep 1")
	l.state(first, "COMPLETED")
	for _, o := range l.offerings() {
		require.True(t, strings.HasSuffix(o, "/on-demand"), o)
	}
	l.awsClear()
	l.settles()
	time.Sleep(4 * time.Second) // capacity memory starts with 2 s
	second := l.submit("p2", 2, "sleep 1")
	l.state(second, "COMPLETED")
	spot := 0
	for _, o := range l.offerings() {
		if strings.HasSuffix(o, "/spot") {
			spot++
		}
	}
	require.Equal(t, 2, spot)
	l.settles()
}

func TestPausedTierWaitsForSpotAndIsNeverHeld(t *testing.T) {
	l := startAWS(t, labOptions{yaml: strings.ReplaceAll(awsYAML, "partitions: [spot]}", "partitions: [spot], when_out_of_stock: pause}")})
	l.aws("--error", "InsufficientInstanceCapacity", "--market", "spot")
	id := l.submit("p2", 1, "sleep 1")
	l.commented(id, "midair: out-of-stock: ")
	time.Sleep(15 * time.Second) // more than three rounds of 2 s and 4 s
	require.NotContains(t, l.job(id, "%r"), "JobHeld")
	require.Empty(t, l.instances(), "on-demand is not bought")
	l.awsClear()
	l.state(id, "COMPLETED")
	l.settles()
}

func TestAdminsDrainOfARunningNodeIsRespected(t *testing.T) {
	l := startAWS(t, labOptions{})
	id := l.submit("p2", 2, "sleep 8")
	l.state(id, "RUNNING")
	l.run("scontrol", "update", "nodename=spot-001", "state=drain", "reason=looks odd")
	l.state(id, "COMPLETED")
	require.Contains(t, l.reasons("spot-001"), "Reason=looks odd")
	require.Len(t, l.instances(), 2)
	l.run("scontrol", "update", "nodename=spot-001", "state=resume")
	l.settles()
	require.Len(t, l.instances(), 2)
}

func TestDeniedActionNamesThePermissionAndLaunchesNothing(t *testing.T) {
	l := startAWS(t, labOptions{})
	l.run("midair", "ec2sim", "fault", "deny", "RunInstances", "CreateFleet")
	id := l.submit("p1", 1, "sleep 1")
	l.commented(id, "midair: unauthorized: ")
	l.within(30*time.Second, "the job to be held", func() bool { return strings.HasPrefix(l.job(id, "%r"), "JobHeld") })
	require.Contains(t, l.job(id, "%k"), "ec2:")
	require.Empty(t, l.instances())
	l.run("midair", "ec2sim", "fault", "allow")
	l.run("scontrol", "release", fmt.Sprint(id))
	l.state(id, "COMPLETED")
	l.settles()
}

func TestExpiredCredentialsAreSaidInOneLineAndNothingIsLost(t *testing.T) {
	l := startAWS(t, labOptions{})
	l.run("midair", "ec2sim", "fault", "expire")
	id := l.submit("p1", 1, "sleep 1")
	l.commented(id, "midair: unauthorized: ")
	require.Empty(t, l.instances())
	l.run("midair", "ec2sim", "fault", "renew")
	l.run("scontrol", "release", fmt.Sprint(id))
	l.state(id, "COMPLETED")
	l.settles()
}

func TestControllerKilledAfterTheCreateCallTakesItsInstancesOver(t *testing.T) {
	l := startAWS(t, labOptions{noController: true}, "--boot", "3s")
	d := l.controller("MIDAIR_CRASH_AT=call-returned")
	id := l.submit("p2", 3, "sleep 1")
	select {
	case <-d.Done():
	case <-l.ctx.Done():
		t.Fatal("the controller did not reach its crash point")
	}
	l.controller()
	l.state(id, "COMPLETED")
	l.settles()
	require.Len(t, l.instances(), 3)
}

func TestLostLedgerIsRebuiltFromEC2Tags(t *testing.T) {
	l := startAWS(t, labOptions{})
	id := l.submit("p2", 2, "sleep 15")
	l.state(id, "RUNNING")
	require.NoError(t, l.Signal(l.ctx, l.Daemon("controller"), "KILL"))
	l.run("/bin/sh", "-c", "rm -f "+testcluster.LedgerDir+"/ledger.db*")
	l.controller()
	l.state(id, "COMPLETED")
	l.settles()
	require.Len(t, l.instances(), 2, "the running nodes were taken over, not bought again")
}

func TestSixtyOneNodeJobsAtOnceAreFewCreateCalls(t *testing.T) {
	l := startAWS(t, labOptions{resumeTimeout: "200s"})
	out, err := l.RunAs(l.ctx, "alice", "sbatch", "-Q", "--qos=p2", "--array=1-60", "-n1", "--mem=100", "--time=5", "--output=/dev/null", "--wrap=sleep 5")
	require.NoError(t, err, out)
	l.within(3*time.Minute, "all tasks to end", func() bool {
		return strings.TrimSpace(l.run("squeue", "-h", "-u", "alice", "-o", "%i")) == ""
	})
	require.LessOrEqual(t, l.creates(), 10)
	l.settles()
}

// SuspendExcNodes keeps a node up, so Slurm and midair both have a say in it:
// a boot that fails must not make them power it up and down in turns.
func TestNodeThatSlurmKeepsUpIsNotBoughtInALoopWhenItDoesNotBoot(t *testing.T) {
	l := startAWS(t, labOptions{resumeTimeout: "5s", fragment: "SuspendExcNodes=od-1\n"})
	l.aws("--no-boot", "--times", "1")
	l.run("scontrol", "update", "nodename=od-1", "state=power_up")
	l.within(30*time.Second, "the reason on the node", func() bool { return strings.Contains(l.reasons("od-1"), "Reason=midair: init-failed: ") })
	l.within(30*time.Second, "no instance to be left", func() bool { return len(l.live()) == 0 })
	bought := l.creates()
	time.Sleep(10 * time.Second) // several passes, and twice ResumeTimeout
	require.Equal(t, bought, l.creates())
	require.Equal(t, 1, bought)
	id := l.submit("p1", 1, "sleep 1", "-w", "od-1")
	l.state(id, "COMPLETED")
	time.Sleep(6 * time.Second) // twice SuspendTime
	require.Len(t, l.live(), 1, "it stays up, as SuspendExcNodes says")
	l.run("scontrol", "update", "nodename=od-1", "state=power_down")
	l.settles()
}

func TestPlanSaysWhatWouldBeBoughtAndBuysNothing(t *testing.T) {
	l := startAWS(t, labOptions{})
	l.aws("--error", "InsufficientInstanceCapacity", "--type", "c7i.large", "--market", "spot")
	out := l.run("midair", "plan", "-n", "2", "-q", "p2", "-t", "30")
	require.Contains(t, out, "tier p2: 2 nodes")
	require.Contains(t, out, "asked for 2 nodes")
	require.Contains(t, out, "USD an hour")
	require.Contains(t, l.run("midair", "plan", "-n", "2", "-q", "p0"), "nothing is bought")
	require.Zero(t, l.creates())
	id := l.submit("p2", 2, "sleep 1")
	l.state(id, "COMPLETED")
	l.settles()
}
