package aws

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	awssdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/config"
)

// pageSize is the most that DescribeInstances gives at once.
const pageSize = 1000

// List implements cloud.Provider. EC2 shows instances for about an hour after
// their end.
func (p *Provider) List(ctx context.Context, cluster string) ([]cloud.Instance, error) {
	list, err := p.describe(ctx, filter("tag:"+cloud.TagCluster, wildless(cluster)))
	if err != nil {
		return nil, err
	}
	p.forgetEnds()
	return list, nil
}

// wildless makes a value of a filter plain: EC2 takes * and ? for any text.
func wildless(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`).Replace(s)
}

// describe gives the instances that filters leave, in order of their ids.
func (p *Provider) describe(ctx context.Context, filters ...types.Filter) ([]cloud.Instance, error) {
	var all []cloud.Instance
	err := p.eachInstance(ctx, filters, func(x types.Instance) {
		i, err := p.instance(x)
		if err != nil {
			p.log.Warn("leave out an odd item in the list of instances", "err", err)
			return
		}
		all = append(all, i)
	})
	if err != nil {
		return nil, err
	}
	// An instance that changes while pages are read may be on two of them.
	slices.SortStableFunc(all, func(a, b cloud.Instance) int { return strings.Compare(a.ID, b.ID) })
	return slices.CompactFunc(all, func(a, b cloud.Instance) bool { return a.ID == b.ID }), nil
}

func (p *Provider) eachInstance(ctx context.Context, filters []types.Filter, do func(types.Instance)) error {
	in := &ec2.DescribeInstancesInput{Filters: filters, MaxResults: awssdk.Int32(pageSize)}
	for {
		page, err := read(ctx, p, "DescribeInstances", func(ctx context.Context) (*ec2.DescribeInstancesOutput, error) {
			return p.ec2.DescribeInstances(ctx, in)
		})
		if err != nil {
			return err
		}
		for _, r := range page.Reservations {
			for _, x := range r.Instances {
				do(x)
			}
		}
		if awssdk.ToString(page.NextToken) == "" {
			return nil
		}
		in.NextToken = page.NextToken
	}
}

var states = map[types.InstanceStateName]cloud.InstanceState{
	types.InstanceStateNamePending: cloud.Pending, types.InstanceStateNameRunning: cloud.Running,
	types.InstanceStateNameStopping: cloud.Stopping, types.InstanceStateNameStopped: cloud.Stopped,
	types.InstanceStateNameShuttingDown: cloud.ShuttingDown, types.InstanceStateNameTerminated: cloud.Terminated,
}

// instance reads one item. An error is for an item that cannot be told.
func (p *Provider) instance(x types.Instance) (cloud.Instance, error) {
	i := cloud.Instance{ID: awssdk.ToString(x.InstanceId), Addr: awssdk.ToString(x.PrivateIpAddress), Tags: map[string]string{}}
	if i.ID == "" {
		return i, errors.New("an instance without an id")
	}
	if x.State == nil || states[x.State.Name] == "" {
		return i, fmt.Errorf("instance %s is in no state that is known", i.ID)
	}
	if x.InstanceType == "" || x.Placement == nil || awssdk.ToString(x.Placement.AvailabilityZone) == "" || x.LaunchTime == nil {
		return i, fmt.Errorf("instance %s has no type, zone or launch time", i.ID)
	}
	i.State, i.CreatedAt = states[x.State.Name], *x.LaunchTime
	for _, t := range x.Tags {
		i.Tags[awssdk.ToString(t.Key)] = awssdk.ToString(t.Value)
	}
	i.Token, i.Pool = i.Tags[cloud.TagToken], i.Tags[cloud.TagPool]
	if i.Node = i.Tags[cloud.TagNode]; i.Node != "" {
		i.Launch = i.Tags[cloud.TagLaunch]
		if g, err := strconv.Atoi(i.Tags[cloud.TagGeneration]); err == nil {
			i.Generation = g
		}
	}
	i.Offering = cloud.Offering{Type: string(x.InstanceType), Zone: *x.Placement.AvailabilityZone, Market: p.market(x)}
	switch i.State {
	case cloud.Stopping, cloud.Stopped:
		tellCause(&i, x) // a spot interruption may stop or hibernate
	case cloud.ShuttingDown, cloud.Terminated:
		tellCause(&i, x)
		p.tellEnd(&i, x)
	case cloud.Pending, cloud.Running:
	}
	return i, nil
}

// market tells how an instance is paid for. An on-demand instance may run in an
// open reservation without having been aimed at it; it stays on-demand.
func (p *Provider) market(x types.Instance) cloud.Market {
	switch x.InstanceLifecycle {
	case types.InstanceLifecycleTypeSpot:
		return cloud.Spot
	case types.InstanceLifecycleTypeCapacityBlock:
		return cloud.Reserved
	}
	id := awssdk.ToString(x.CapacityReservationId)
	if id != "" && slices.ContainsFunc(p.conf.Reservations, func(r config.Reservation) bool { return r.ID == id }) {
		return cloud.Reserved
	}
	return cloud.OnDemand
}

// endTime is EC2's time of a change that somebody has asked for: "User
// initiated (2026-12-01 09:30:00 GMT)".
var endTime = regexp.MustCompile(`\((\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) (?:GMT|UTC)\)`)

// tellCause says why an instance ended or stopped.
func tellCause(i *cloud.Instance, x types.Instance) {
	transition := awssdk.ToString(x.StateTransitionReason)
	reason := ""
	if x.StateReason != nil {
		reason = awssdk.ToString(x.StateReason.Code)
		i.StateCause = awssdk.ToString(x.StateReason.Message)
	}
	if i.StateCause == "" {
		i.StateCause = transition
	}
	for _, taken := range []string{"Server.Spot", "Server.CapacityBlock", "Server.ScheduledStop"} {
		i.Reclaimed = i.Reclaimed || strings.HasPrefix(reason, taken) || strings.HasPrefix(transition, taken)
	}
}

// tellEnd says when an instance ended. EC2 gives a time only for what somebody
// has asked for; else it is when the end was first seen here.
func (p *Provider) tellEnd(i *cloud.Instance, x types.Instance) {
	if m := endTime.FindStringSubmatch(awssdk.ToString(x.StateTransitionReason)); m != nil {
		if at, err := time.Parse(time.DateTime, m[1]); err == nil {
			i.EndedAt = at
		}
	}
	if i.EndedAt.IsZero() {
		i.EndedAt = p.firstSeenEnded(i.ID)
	}
	// EC2 gives the end in whole seconds.
	if i.EndedAt.Before(i.CreatedAt) {
		i.EndedAt = i.CreatedAt
	}
}

func (p *Provider) firstSeenEnded(id string) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended[id].IsZero() {
		p.ended[id] = p.now()
	}
	return p.ended[id]
}

// endsKept is longer than EC2 shows what has ended.
const endsKept = 3 * time.Hour

// forgetEnds keeps the memory of ends to what may still be shown.
func (p *Provider) forgetEnds() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, at := range p.ended {
		if p.now().Sub(at) > endsKept {
			delete(p.ended, id)
		}
	}
}
