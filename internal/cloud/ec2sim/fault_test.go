package ec2sim_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/cloud/ec2sim"
)

func (l *lab) fault(f ec2sim.Fault) int {
	l.t.Helper()
	id, err := l.AddFault(f)
	require.NoError(l.t, err)
	return id
}

func TestThrottledCallsAreRefusedSoOftenAndNoMore(t *testing.T) {
	l := newLab(t)
	l.fault(ec2sim.Fault{Action: "RunInstances", Error: "RequestLimitExceeded", Times: 2})
	l.call("DescribeInstances").ok(t)
	l.run().fails(t, 503, "RequestLimitExceeded")
	l.run().fails(t, 503, "RequestLimitExceeded")
	l.run().ok(t)
	require.Equal(t, map[string]int{"RunInstances": 3, "DescribeInstances": 1}, l.Calls())
	l.ResetCalls()
	require.Empty(t, l.Calls())
}

func TestErrorOfAnOfferingIsMetWhereItIsBought(t *testing.T) {
	l := newLab(t)
	l.fault(ec2sim.Fault{Type: "p5.48xlarge", Zone: "us-east-1a", Market: cloud.Spot, Error: "InsufficientInstanceCapacity"})
	l.run().ok(t)
	l.run("InstanceMarketOptions.MarketType", "spot").fails(t, 500, "InsufficientInstanceCapacity")
	a := l.fleet("2", cloud.Spot, []string{"p5.48xlarge/" + subnetA, "p5.48xlarge/" + subnetB}, "SpotOptions.AllocationStrategy", "capacity-optimized-prioritized").ok(t)
	require.Equal(t, []string{"2 p5.48xlarge b"}, a.gave())
	require.Len(t, l.Faults(), 1, "it is not used up")
	must(t, l.ClearFaults(1))
	l.run("InstanceMarketOptions.MarketType", "spot").ok(t)
}

func TestUnknownCodeWithItsOwnStatus(t *testing.T) {
	l := newLab(t)
	l.fault(ec2sim.Fault{Error: "CapacityNotToBeHadToday", Status: 507, Message: "no"})
	require.Equal(t, "no", l.run().fails(t, 507, "CapacityNotToBeHadToday").Text)
}

func TestPartialFleet(t *testing.T) {
	l := newLab(t)
	two := 2
	l.fault(ec2sim.Fault{Action: "CreateFleet", AtMost: &two})
	a := l.fleet("5", cloud.OnDemand, []string{"p5.48xlarge/" + subnetA, "p5.48xlarge/" + subnetB}, "OnDemandOptions.AllocationStrategy", "prioritized").ok(t)
	require.Equal(t, []string{"2 p5.48xlarge a", "2 p5.48xlarge b"}, a.gave())
	require.Equal(t, []string{"InsufficientInstanceCapacity p5.48xlarge a", "InsufficientInstanceCapacity p5.48xlarge b"}, a.missed())
}

func TestEffectWithoutAnAnswerIsFoundByItsToken(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fault ec2sim.Fault
		made  int
	}{
		{"cut after the effect", ec2sim.Fault{Cut: true, After: true, Times: 1}, 1},
		{"cut before it", ec2sim.Fault{Cut: true, Times: 1}, 0},
		{"hang after the effect", ec2sim.Fault{Hang: ec2sim.Duration(time.Hour), After: true, Times: 1}, 1},
		{"hang before it", ec2sim.Fault{Hang: ec2sim.Duration(time.Hour), Times: 1}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := newLab(t)
			server := httptest.NewServer(l)
			defer server.Close()
			tt.fault.Action = "RunInstances"
			l.fault(tt.fault)
			ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
			defer cancel()
			r := request(form("RunInstances", "LaunchTemplate.LaunchTemplateName", "midair", "InstanceType", "p5.48xlarge", "SubnetId", subnetA, "MinCount", "1", "MaxCount", "1", "ClientToken", "t"))
			u, err := url.Parse(server.URL)
			require.NoError(t, err)
			r.URL, r.RequestURI = u, ""
			_, err = http.DefaultClient.Do(r.WithContext(ctx))
			require.Error(t, err)
			if tt.fault.Cut {
				require.True(t, errors.Is(err, io.EOF), "%v", err)
			}
			require.Len(t, l.Sim.Instances(), tt.made)
			again := l.run("ClientToken", "t").ok(t)
			require.Len(t, l.Sim.Instances(), 1)
			require.Equal(t, l.Sim.Instances()[0].ID, again.Instances[0].ID)
		})
	}
}

func TestErrorAfterTheEffect(t *testing.T) {
	l := newLab(t)
	l.fault(ec2sim.Fault{Action: "TerminateInstances", Error: "InternalError", After: true, Times: 1})
	id := l.run().ok(t).Instances[0].ID
	l.call("TerminateInstances", "InstanceId.1", id).fails(t, 500, "InternalError")
	require.Equal(t, "shutting-down", l.state(id))
}

func TestSlowTerminateKeepsTheMachine(t *testing.T) {
	l := newLab(t)
	must(t, l.SetCapacity(offering("p5.48xlarge", "a", cloud.OnDemand), 1))
	l.fault(ec2sim.Fault{SlowTerminate: ec2sim.Duration(3 * time.Minute)})
	id := l.run().ok(t).Instances[0].ID
	l.call("TerminateInstances", "InstanceId.1", id).ok(t)
	l.forward(3 * time.Minute)
	require.Equal(t, "shutting-down", l.state(id))
	l.run().fails(t, 500, "InsufficientInstanceCapacity")
	l.forward(30 * time.Second)
	require.Equal(t, "terminated", l.state(id))
	l.run().ok(t)
}

func TestOddInstanceIsListedAmongTheOthers(t *testing.T) {
	for _, odd := range ec2sim.Oddities {
		t.Run(odd, func(t *testing.T) {
			l := newLab(t)
			l.run("MinCount", "3", "MaxCount", "3").ok(t)
			l.fault(ec2sim.Fault{Odd: odd, Times: 1})
			odd := l.call("DescribeInstances").ok(t)
			require.Len(t, odd.Described, 3)
			usual := l.call("DescribeInstances").ok(t)
			require.NotEqual(t, usual.Described[0], odd.Described[0], "%s", odd.body)
			require.Equal(t, usual.Described[1:], odd.Described[1:])
		})
	}
}

func TestFaultsThatCannotBeMeantAreRefused(t *testing.T) {
	for _, tt := range []struct {
		fault ec2sim.Fault
		want  string
	}{
		{ec2sim.Fault{}, "one effect"},
		{ec2sim.Fault{Error: "X", Cut: true}, "one effect"},
		{ec2sim.Fault{Error: "X", Action: "RunInstance"}, "RunInstance"},
		{ec2sim.Fault{Error: "X", Market: "auction"}, "auction"},
		{ec2sim.Fault{Cut: true, Type: "p5.48xlarge"}, "of a call"},
		{ec2sim.Fault{Error: "X", Action: "TerminateInstances", Zone: "us-east-1a"}, "buys nothing"},
		{ec2sim.Fault{Odd: "shape"}, "shape"},
		{ec2sim.Fault{Error: "X", Times: -1}, "below 0"},
	} {
		_, err := newLab(t).AddFault(tt.fault)
		require.ErrorContains(t, err, tt.want)
	}
}

func TestWhoAsksIsChecked(t *testing.T) {
	const key = "AKIAEC2SIM0000000000"
	session := ec2sim.Credential{AccessKeyID: "ASIASESSION", SecretAccessKey: "s", SessionToken: "tok", Expires: time.Date(2026, 3, 1, 13, 0, 0, 0, time.UTC)}
	for _, tt := range []struct {
		name, auth, token string
		forward           time.Duration
		status            int
		code              string
	}{
		{"known", authorization(key, "us-east-1", "ec2"), "", 0, 200, ""},
		{"nobody", "", "", 0, 403, "MissingAuthenticationToken"},
		{"another scheme", "Basic Zm9v", "", 0, 403, "MissingAuthenticationToken"},
		{"unknown key", authorization("AKIAOTHER", "us-east-1", "ec2"), "", 0, 401, "AuthFailure"},
		{"wrong region", authorization(key, "eu-west-1", "ec2"), "", 0, 401, "AuthFailure"},
		{"wrong service", authorization(key, "us-east-1", "s3"), "", 0, 401, "AuthFailure"},
		{"session", authorization("ASIASESSION", "us-east-1", "ec2"), "tok", 0, 200, ""},
		{"session without its token", authorization("ASIASESSION", "us-east-1", "ec2"), "", 0, 401, "AuthFailure"},
		{"session that has ended", authorization("ASIASESSION", "us-east-1", "ec2"), "tok", time.Hour, 400, "RequestExpired"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := newLab(t, func(o *ec2sim.Options) { o.Credentials = []ec2sim.Credential{ec2sim.DefaultCredential, session} })
			l.forward(tt.forward)
			r := request(form("DescribeInstances"))
			r.Header.Set("Authorization", tt.auth)
			r.Header.Set("X-Amz-Security-Token", tt.token)
			a := l.send(r)
			require.Equal(t, tt.code, a.Code)
			require.Equal(t, tt.status, a.status)
		})
	}
}

func TestCredentialsExpireOnDemand(t *testing.T) {
	l := newLab(t)
	must(t, l.ExpireCredential(ec2sim.DefaultCredential.AccessKeyID))
	l.run().fails(t, 400, "RequestExpired")
	must(t, l.RenewCredentials())
	l.run().ok(t)
	require.ErrorContains(t, l.ExpireCredential("AKIA"), "not known")
	require.ErrorContains(t, l.Deny("RunInstance"), "no such action")
}

func TestRateLimitsAreEC2s(t *testing.T) {
	l := newLab(t, func(o *ec2sim.Options) { o.Throttle = true })
	for range 5 {
		l.run().ok(t)
	}
	l.run().fails(t, 503, "RequestLimitExceeded")
	l.forward(500 * time.Millisecond)
	l.run().ok(t)
	l.run().fails(t, 503, "RequestLimitExceeded")

	l.forward(time.Hour)
	l.run("MinCount", "1000", "MaxCount", "1000").ok(t)
	l.run().fails(t, 503, "RequestLimitExceeded") // the bucket of instances
	for range 100 {
		l.call("DescribeInstances", "MaxResults", "5").ok(t)
	}
	l.call("DescribeInstances", "MaxResults", "5").fails(t, 503, "RequestLimitExceeded")
}

func TestControlAPIDoesWhatTheMethodsDo(t *testing.T) {
	l := newLab(t)
	server := httptest.NewServer(l)
	defer server.Close()
	ctx, c := context.Background(), ec2sim.Client{URL: server.URL}
	id, err := c.AddFault(ctx, ec2sim.Fault{Action: "CreateFleet", Hang: ec2sim.Duration(time.Minute), Times: 2})
	must(t, err)
	list, err := c.Faults(ctx)
	must(t, err)
	require.Equal(t, []ec2sim.Fault{{ID: id, Action: "CreateFleet", Hang: ec2sim.Duration(time.Minute), Times: 2}}, list)
	require.ErrorContains(t, c.ClearFaults(ctx, 99), "there is no fault 99")
	must(t, c.ClearFaults(ctx, id))
	must(t, c.SetQuota(ctx, "L-417A185B", 0))
	l.run().fails(t, 400, "VcpuLimitExceeded")
	require.ErrorContains(t, c.SetQuota(ctx, "L-1", 0), "L-1")
	must(t, c.SetQuota(ctx, "L-417A185B", 1000))
	must(t, c.SetCapacity(ctx, offering("p5.48xlarge", "a", cloud.OnDemand), 0))
	l.run().fails(t, 500, "InsufficientInstanceCapacity")
	must(t, c.SetCapacity(ctx, offering("p5.48xlarge", "a", cloud.OnDemand), 9))
	require.ErrorContains(t, c.SetCapacity(ctx, offering("p5.48xlarge", "z", cloud.OnDemand), 9), "not sold here")
	must(t, c.SetSpotPrice(ctx, "p5.48xlarge", "us-east-1a", 17))
	must(t, c.SetLag(ctx, ec2sim.Lag{ID: time.Second}))
	spot := l.run("InstanceMarketOptions.MarketType", "spot").ok(t).Instances[0].ID
	l.call("DescribeInstances", "InstanceId.1", spot).fails(t, 400, "InvalidInstanceID.NotFound")
	l.forward(time.Minute)
	must(t, c.Interrupt(ctx, spot, 0))
	require.Equal(t, "shutting-down", l.state(spot))
	require.ErrorContains(t, c.Vanish(ctx, spot), "no live instance")
	must(t, c.Deny(ctx, "RunInstances"))
	must(t, c.ExpireCredential(ctx, ec2sim.DefaultCredential.AccessKeyID))
	st, err := c.Status(ctx)
	must(t, err)
	require.Equal(t, l.Status(), st)
	require.Equal(t, []string{"RunInstances"}, st.Denied)
	require.Len(t, st.Expired, 1)
	must(t, c.Allow(ctx))
	must(t, c.RenewCredentials(ctx))
	all, err := c.Instances(ctx)
	must(t, err)
	require.Len(t, all, 1)
	n, err := c.Stop(ctx)
	must(t, err)
	require.Zero(t, n)
	<-l.Done()

	_, err = ec2sim.Client{URL: "http://127.0.0.1:1"}.Status(ctx)
	require.ErrorContains(t, err, "is midair ec2sim serve running there?")
}
