package ec2sim_test

import (
	"encoding/xml"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/cloud/ec2sim"
)

const (
	subnetA = "subnet-0a1b2c3d4e5f6000a"
	subnetB = "subnet-0a1b2c3d4e5f6000b"
)

// clock is a clock that tests move.
type clock struct {
	mu sync.Mutex
	t  time.Time
}

func newClock() *clock { return &clock{t: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *clock) forward(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(d)
}

// lab is a stand-in with its clock.
type lab struct {
	*ec2sim.Sim
	*clock
	t testing.TB
}

func newLab(t testing.TB, change ...func(*ec2sim.Options)) *lab {
	t.Helper()
	l := &lab{clock: newClock(), t: t}
	o := ec2sim.Options{Now: l.now, Seed: 7, AnySignature: true, Delays: ec2sim.Delays{Pending: 10 * time.Second, ShuttingDown: 30 * time.Second, Stopping: 20 * time.Second}}
	for _, c := range change {
		c(&o)
	}
	sim, err := ec2sim.New(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, sim.Close()) })
	l.Sim = sim
	return l
}

// answer is what a call gave.
type answer struct {
	status int
	body   string
	Code   string `xml:"Errors>Error>Code"`
	Text   string `xml:"Errors>Error>Message"`

	Instances []inst   `xml:"instancesSet>item"` // RunInstances, and state changes
	Described []inst   `xml:"reservationSet>item>instancesSet>item"`
	NextToken string   `xml:"nextToken"`
	FleetID   string   `xml:"fleetId"`
	Fleet     []bought `xml:"fleetInstanceSet>item"`
	Errors    []struct {
		Code      string `xml:"errorCode"`
		Message   string `xml:"errorMessage"`
		Lifecycle string `xml:"lifecycle"`
		Type      string `xml:"launchTemplateAndOverrides>overrides>instanceType"`
		Zone      string `xml:"launchTemplateAndOverrides>overrides>availabilityZone"`
	} `xml:"errorSet>item"`
	Prices []struct {
		Zone  string `xml:"availabilityZone"`
		Type  string `xml:"instanceType"`
		Price string `xml:"spotPrice"`
		At    string `xml:"timestamp"`
	} `xml:"spotPriceHistorySet>item"`
	Types []struct {
		Name  string `xml:"instanceType"`
		VCPUs int    `xml:"vCpuInfo>defaultVCpus"`
	} `xml:"instanceTypeSet>item"`
	Tags   []pair `xml:"tagSet>item"`
	Output string `xml:"output"`
}

type pair struct {
	Key   string `xml:"key"`
	Value string `xml:"value"`
}

type inst struct {
	ID       string `xml:"instanceId"`
	State    string `xml:"instanceState>name"`
	Current  string `xml:"currentState>name"`
	Previous string `xml:"previousState>name"`
	Addr     string `xml:"privateIpAddress"`
	Zone     string `xml:"placement>availabilityZone"`
	Type     string `xml:"instanceType"`
	Launched string `xml:"launchTime"`
	Life     string `xml:"instanceLifecycle"`
	Reason   string `xml:"stateReason>code"`
	Capacity string `xml:"capacityReservationId"`
	Tags     []pair `xml:"tagSet>item"`
}

type bought struct {
	IDs  []string `xml:"instanceIds>item"`
	Type string   `xml:"instanceType"`
	Zone string   `xml:"launchTemplateAndOverrides>overrides>availabilityZone"`
	Life string   `xml:"lifecycle"`
}

func (i inst) tag(key string) string {
	for _, t := range i.Tags {
		if t.Key == key {
			return t.Value
		}
	}
	return ""
}

func authorization(key, region, service string) string {
	return "AWS4-HMAC-SHA256 Credential=" + key + "/20260301/" + region + "/" + service + "/aws4_request, SignedHeaders=host;x-amz-date, Signature=00"
}

func request(form string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(form+"&Version=2016-11-15"))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Authorization", authorization(ec2sim.DefaultCredential.AccessKeyID, "us-east-1", "ec2"))
	return r
}

// call makes a call in process. args are name, value, name, value…
func (l *lab) call(action string, args ...string) answer {
	l.t.Helper()
	return l.send(request(form(action, args...)))
}

func form(action string, args ...string) string {
	v := url.Values{"Action": {action}}
	for i := 0; i < len(args); i += 2 {
		v.Set(args[i], args[i+1])
	}
	return v.Encode()
}

func (l *lab) send(r *http.Request) answer {
	l.t.Helper()
	w := httptest.NewRecorder()
	l.ServeHTTP(w, r)
	b, err := io.ReadAll(w.Body)
	require.NoError(l.t, err)
	a := answer{status: w.Code, body: string(b)}
	require.NoError(l.t, xml.Unmarshal(b, &a), "%s", b)
	return a
}

func (a answer) ok(t testing.TB) answer {
	t.Helper()
	require.Equal(t, 200, a.status, a.body)
	return a
}

func (a answer) fails(t testing.TB, status int, code string) answer {
	t.Helper()
	require.Equal(t, code, a.Code, a.body)
	require.Equal(t, status, a.status)
	return a
}

func (l *lab) run(args ...string) answer {
	l.t.Helper()
	base := []string{"LaunchTemplate.LaunchTemplateName", "midair", "InstanceType", "p5.48xlarge", "SubnetId", subnetA, "MinCount", "1", "MaxCount", "1"}
	return l.call("RunInstances", append(base, args...)...)
}

// fleet makes a fleet call with overrides of type/subnet.
func (l *lab) fleet(n string, market cloud.Market, overrides []string, args ...string) answer {
	l.t.Helper()
	base := []string{
		"Type", "instant", "TargetCapacitySpecification.TotalTargetCapacity", n, "TargetCapacitySpecification.DefaultTargetCapacityType", string(market),
		"LaunchTemplateConfigs.1.LaunchTemplateSpecification.LaunchTemplateName", "midair", "LaunchTemplateConfigs.1.LaunchTemplateSpecification.Version", "$Default",
	}
	for i, o := range overrides {
		typ, subnet, _ := strings.Cut(o, "/")
		p := "LaunchTemplateConfigs.1.Overrides." + string(rune('1'+i)) + "."
		base = append(base, p+"InstanceType", typ, p+"SubnetId", subnet, p+"Priority", string(rune('1'+i)))
	}
	return l.call("CreateFleet", append(base, args...)...)
}

func (l *lab) state(id string) string {
	l.t.Helper()
	a := l.call("DescribeInstances", "InstanceId.1", id).ok(l.t)
	require.Len(l.t, a.Described, 1)
	return a.Described[0].State
}

func (a answer) fleetIDs() []string {
	var all []string
	for _, b := range a.Fleet {
		all = append(all, b.IDs...)
	}
	return all
}

func must(t testing.TB, err error) {
	t.Helper()
	require.NoError(t, err)
}
