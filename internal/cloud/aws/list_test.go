package aws

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/cloud/ec2sim"
)

func list(t testing.TB, p *Provider) map[string]cloud.Instance {
	t.Helper()
	all, err := p.List(context.Background(), "gpu1")
	require.NoError(t, err)
	byID := map[string]cloud.Instance{}
	for _, i := range all {
		byID[i.ID] = i
	}
	return byID
}

func TestOddItemIsLeftOutAndTheOthersAreListed(t *testing.T) {
	for _, odd := range ec2sim.Oddities {
		var log bytes.Buffer
		l := newLab(t)
		p := l.open(func(o *Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
		launch(t, p, ask("t1", 3, true, p5odA))
		l.fault(ec2sim.Fault{Odd: odd, Times: 1})
		got := list(t, p)
		if odd == "tagSet" { // nothing is odd about no tags, but it is nobody's then
			require.Len(t, got, 3, odd)
			continue
		}
		require.Len(t, got, 2, odd)
		require.Equal(t, 1, strings.Count(log.String(), "leave out an odd item"), odd)
	}
}

func TestEmptyItemsDoNotPanic(t *testing.T) {
	p := newLab(t).open()
	for _, x := range []types.Instance{
		{}, {InstanceId: awssdk.String("i-1")}, {InstanceId: awssdk.String("i-1"), State: &types.InstanceState{}},
		{InstanceId: awssdk.String("i-1"), State: &types.InstanceState{Name: types.InstanceStateNameRunning}, InstanceType: "g5.xlarge", Placement: &types.Placement{}},
		{InstanceId: awssdk.String("i-1"), State: &types.InstanceState{Name: types.InstanceStateNameTerminated}, InstanceType: "g5.xlarge", Placement: &types.Placement{AvailabilityZone: awssdk.String(zoneA)}, Tags: []types.Tag{{}}},
	} {
		_, err := p.instance(x)
		require.Error(t, err)
	}
	_, err := p.instance(types.Instance{
		InstanceId: awssdk.String("i-1"), State: &types.InstanceState{Name: types.InstanceStateNameTerminated}, InstanceType: "g5.xlarge",
		Placement: &types.Placement{AvailabilityZone: awssdk.String(zoneA)}, LaunchTime: awssdk.Time(time.Now()), Tags: []types.Tag{{}, {Key: awssdk.String(cloud.TagNode), Value: awssdk.String("n1")}, {Key: awssdk.String(cloud.TagGeneration), Value: awssdk.String("x")}},
	})
	require.NoError(t, err)
}

// clock is a clock that is moved by hand.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) forward(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

func TestSpotInterruptionIsSeenInTheList(t *testing.T) {
	c := &clock{at: time.Now().UTC().Truncate(time.Millisecond)}
	l := newLab(t, func(o *ec2sim.Options) { o.Now = c.now })
	p := l.open(func(o *Options) { o.Now = c.now })
	res := launch(t, p, ask("t1", 2, true, p5spotA))
	c.forward(time.Hour)
	require.NoError(t, l.Interrupt(res.Instances[0].ID, 0))
	got := list(t, p)
	gone, other := got[res.Instances[0].ID], got[res.Instances[1].ID]
	require.True(t, gone.Reclaimed)
	require.Contains(t, gone.StateCause, "Spot instance termination")
	require.False(t, gone.EndedAt.IsZero())
	require.False(t, other.Reclaimed)
	require.NoError(t, p.Terminate(context.Background(), []string{other.ID}))
	c.forward(time.Minute)
	got = list(t, p)
	require.Equal(t, gone.EndedAt, got[gone.ID].EndedAt, "EC2 does not say when, but the end does not move")
	require.False(t, got[other.ID].Reclaimed, "it was ended on request")
	require.WithinDuration(t, c.now().Add(-time.Minute), got[other.ID].EndedAt, time.Second)
}

func TestStoppedInstancesAreListedAsStoppedAndComeBack(t *testing.T) {
	l := newLab(t)
	p := l.open()
	ctx := context.Background()
	ids := []string{}
	for _, i := range launch(t, p, ask("t1", 2, true, p5odA)).Instances {
		ids = append(ids, i.ID)
	}
	l.Settle()
	require.NoError(t, p.Stop(ctx, append(ids, noInstance), true))
	l.Settle()
	require.Equal(t, cloud.Stopped, list(t, p)[ids[0]].State)
	require.True(t, list(t, p)[ids[0]].EndedAt.IsZero())
	require.NoError(t, p.Start(ctx, ids))
	l.Settle()
	require.True(t, list(t, p)[ids[0]].Live())
	require.NoError(t, p.Stop(ctx, ids, false))
	l.Settle()
	require.NoError(t, l.SetCapacity(p5odA, 0))
	require.Equal(t, cloud.OutOfStock, cloud.AsError(p.Start(ctx, ids)).Class)
}

func TestUnknownIdsDoNotKeepTheOthersAlive(t *testing.T) {
	l := newLab(t)
	p := l.open()
	var ids []string
	for _, i := range launch(t, p, ask("t1", 700, true, p5odA)).Instances {
		ids = append(ids, i.ID, "i-0"+i.ID[3:]+"")
	}
	for k := range ids {
		if k%2 == 1 {
			ids[k] = fmt.Sprintf("i-0ffffffffff%06x", k)
		}
	}
	require.NoError(t, p.Terminate(context.Background(), ids))
	for _, i := range list(t, p) {
		require.False(t, i.Live())
	}
	require.LessOrEqual(t, l.Calls()["TerminateInstances"], 6, "two for each batch of 500")
}

func TestInstanceThatEC2DoesNotFindYetIsNotGivenUp(t *testing.T) {
	l := newLab(t)
	p := l.open(func(o *Options) { o.ShownWithin = time.Millisecond })
	require.NoError(t, l.SetLag(ec2sim.Lag{ID: time.Hour}))
	res := launch(t, p, ask("t1", 2, true, p5odA))
	require.Len(t, res.Instances, 2)
	ids := []string{res.Instances[0].ID, res.Instances[1].ID}
	waits := 0
	p.sleep = func(context.Context, time.Duration) error {
		if waits++; waits == 3 {
			require.NoError(t, l.SetLag(ec2sim.Lag{}))
		}
		return nil
	}
	require.NoError(t, p.Terminate(context.Background(), ids))
	require.Equal(t, 3, waits)
	for _, i := range l.Instances() {
		require.NotEqual(t, cloud.Running, i.State)
		require.NotEqual(t, cloud.Pending, i.State)
	}
}

func TestInstanceThatEC2NeverFindsIsAnErrorAndNotForgotten(t *testing.T) {
	l := newLab(t)
	p := l.open(func(o *Options) { o.ShownWithin = time.Millisecond })
	require.NoError(t, l.SetLag(ec2sim.Lag{ID: time.Hour}))
	res := launch(t, p, ask("t1", 1, true, p5odA))
	p.sleep = func(context.Context, time.Duration) error { return nil }
	e := cloud.AsError(p.Terminate(context.Background(), []string{res.Instances[0].ID}))
	require.True(t, e.Ambiguous)
	require.Contains(t, e.Message, "EC2 does not find 1 new instances yet")
	require.Error(t, p.Name(context.Background(), launch(t, p, ask("t2", 2, true, p5odA)).Instances))
}

func TestNamesAreWrittenOnceForEachNode(t *testing.T) {
	l := newLab(t)
	p := l.open()
	res := launch(t, p, ask("t1", 20, true, p5odA))
	require.NoError(t, p.Name(context.Background(), res.Instances))
	require.Equal(t, 20, l.Calls()["CreateTags"])
	got := list(t, p)
	for _, i := range res.Instances {
		require.Equal(t, i.Node, got[i.ID].Node)
		require.Equal(t, i.Node, got[i.ID].Tags["Name"])
		require.Equal(t, 1, got[i.ID].Generation)
		require.Equal(t, "l1", got[i.ID].Launch)
		require.Equal(t, i.Tags, withoutAWS(got[i.ID].Tags))
	}
}

func withoutAWS(tags map[string]string) map[string]string {
	own := map[string]string{}
	for k, v := range tags {
		if !strings.HasPrefix(k, "aws:") {
			own[k] = v
		}
	}
	return own
}

func TestConsoleIsReadAndMayBeEmpty(t *testing.T) {
	l := newLab(t)
	p := l.open()
	res := launch(t, p, ask("t1", 1, true, p5odA))
	text, err := p.Console(context.Background(), res.Instances[0].ID)
	require.NoError(t, err)
	require.Contains(t, text, "cloud-init")
	text, err = p.Console(context.Background(), noInstance)
	require.NoError(t, err)
	require.Empty(t, text)
}

func TestClusterNamesAreNoPatterns(t *testing.T) {
	l := newLab(t)
	p := l.open()
	launch(t, p, ask("t1", 1, true, p5odA))
	all, err := p.List(context.Background(), "gpu*")
	require.NoError(t, err)
	require.Empty(t, all)
}

// Spot requests that stop or hibernate instead of ending are persistent ones,
// which the stand-in does not sell.
func TestSpotInstanceThatIsStoppedInsteadOfEndedCountsAsTakenBack(t *testing.T) {
	for code, want := range map[string]bool{"Server.SpotInstanceShutdown": true, "Client.UserInitiatedShutdown": false} {
		var i cloud.Instance
		tellCause(&i, types.Instance{StateReason: &types.StateReason{Code: awssdk.String(code), Message: awssdk.String(code + ": why")}})
		require.Equal(t, want, i.Reclaimed, code)
		require.Equal(t, code+": why", i.StateCause)
	}
}
