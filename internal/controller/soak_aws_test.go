//go:build awssoak

package controller

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/cloud/aws"
	"github.com/midair-hpc/midair/internal/cloud/ec2sim"
	"github.com/midair-hpc/midair/internal/config"
)

// The same with the real provider for AWS against the stand-in for EC2, in this
// process and in testing/synctest's time. It needs the tag awssoak, since the
// AWS SDK takes a minute to compile. MIDAIR_SOAK_AWS is
// to it what MIDAIR_SOAK is to the other.
func TestRandomFaultsAndKillsLeaveNothingBehindOnAWS(t *testing.T) {
	first, last := seeds(t, "MIDAIR_SOAK_AWS", 5)
	t.Setenv("AWS_CA_BUNDLE", "") // it does not go with a transport of our own
	var seen tally
	t.Run("seeds", func(t *testing.T) {
		for seed := first; seed <= last; seed++ {
			t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					s := newSoak(t, seed, onAWS)
					s.run()
					seen.add(s)
				})
			})
		}
	})
	t.Logf("%d instances, %d jobs, %d ledgers lost, %d controllers killed, %.1f of %.1f instance-hours counted too many", seen.instances, seen.jobs, seen.ledgers, seen.kills, seen.over.Hours(), seen.lived.Hours())
}

var (
	awsSpot     = cloud.Offering{Type: "g5.xlarge", Zone: "us-east-1a", Market: cloud.Spot}
	awsOnDemand = cloud.Offering{Type: "g5.2xlarge", Zone: "us-east-1b", Market: cloud.OnDemand}
)

// onAWS has AWS stand in for the cloud east.
func onAWS(s *soak) {
	s.bubble, s.now = true, time.Now()
	s.day = 8 * time.Hour
	s.rough = time.Second // EC2 gives times in whole seconds
	sim, err := ec2sim.New(ec2sim.Options{Seed: s.seed, Log: slog.New(slog.DiscardHandler),
		Delays: ec2sim.Delays{Pending: 3 * time.Second, ShuttingDown: 20 * time.Second, Stopping: 10 * time.Second}})
	require.NoError(s.t, err)
	keys := filepath.Join(s.dir, "credentials")
	require.NoError(s.t, os.WriteFile(keys, fmt.Appendf(nil, "[default]\naws_access_key_id = %s\naws_secret_access_key = %s\n",
		ec2sim.DefaultCredential.AccessKeyID, ec2sim.DefaultCredential.SecretAccessKey), 0o600))
	p, err := aws.Open(aws.Options{
		Name: "east", HTTPClient: &http.Client{Transport: inProcess{sim}}, Rand: func() float64 { return s.r.Float64() }, Log: s.log,
		AWS: config.AWS{Region: "us-east-1", Endpoint: "http://ec2.test", CredentialsFile: keys, LaunchTemplate: "midair",
			Subnets: map[string][]string{"us-east-1a": {"subnet-0a1b2c3d4e5f6000a"}, "us-east-1b": {"subnet-0a1b2c3d4e5f6000b"}}},
	})
	require.NoError(s.t, err)
	s.conf.Pools[0].Offerings = []cloud.Offering{awsSpot, awsOnDemand}
	s.stands[0] = &simCloud{Provider: p, aws: p, sim: sim, w: s.world, seen: map[string]int{}, never: map[string]bool{}}
	s.t.(*testing.T).Cleanup(func() { sim.Close() })
}

// inProcess carries requests to the stand-in without a network.
type inProcess struct{ sim http.Handler }

func (p inProcess) RoundTrip(req *http.Request) (resp *http.Response, err error) {
	defer func() {
		switch r := recover(); r {
		case nil:
		case http.ErrAbortHandler:
			if err = req.Context().Err(); err == nil {
				err = io.ErrUnexpectedEOF
			}
		default:
			panic(r)
		}
	}()
	in := req.Clone(req.Context())
	in.Host = req.URL.Host
	in.RequestURI = req.URL.RequestURI()
	if req.ContentLength > 0 {
		in.Header.Set("Content-Length", strconv.FormatInt(req.ContentLength, 10))
	}
	if in.Body == nil {
		in.Body = http.NoBody
	}
	rec := httptest.NewRecorder()
	p.sim.ServeHTTP(rec, in)
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	return rec.Result(), nil
}

// simCloud is EC2 with the provider for it.
type simCloud struct {
	cloud.Provider
	aws   *aws.Provider
	sim   *ec2sim.Sim
	w     *world
	made  []cloud.Instance // all that ever were
	seen  map[string]int   // where in made
	never map[string]bool
}

func (m *simCloud) id() string             { return "east" }
func (m *simCloud) boots(node string) bool { return !m.never[node] }
func (m *simCloud) forgot(string) bool     { return false }

// all remembers what the stand-in forgets an hour after its end. An instance
// learns its node from its tags.
func (m *simCloud) all() []cloud.Instance {
	for _, x := range m.sim.Instances() {
		g, _ := strconv.Atoi(x.Tags[cloud.TagGeneration])
		i := cloud.Instance{ID: x.ID, Node: x.Tags[cloud.TagNode], Generation: g, Launch: x.Tags[cloud.TagLaunch], Token: x.Tags[cloud.TagToken], Pool: x.Tags[cloud.TagPool],
			Offering: x.Offering, Addr: x.Addr, State: x.State, CreatedAt: x.CreatedAt, EndedAt: x.EndedAt, StateCause: x.Reason, Tags: x.Tags}
		if k, ok := m.seen[x.ID]; ok {
			m.made[k] = i
			continue
		}
		m.seen[x.ID] = len(m.made)
		m.made = append(m.made, i)
	}
	return append([]cloud.Instance(nil), m.made...)
}

func (m *simCloud) mend() {
	clear(m.never)
	err := errors.Join(m.sim.ClearFaults(), m.sim.SetLag(ec2sim.Lag{}), m.sim.Allow(), m.sim.SetCapacity(awsSpot, 10_000), m.sim.SetCapacity(awsOnDemand, 10_000))
	require.NoError(m.w.t, err)
}

func (m *simCloud) fault(s *soak, f ec2sim.Fault) {
	s.note("aws: %s", f)
	_, err := m.sim.AddFault(f)
	require.NoError(s.t, err)
}

func (m *simCloud) market(s *soak) {
	o := []cloud.Offering{awsSpot, awsOnDemand}[s.r.IntN(2)]
	switch s.r.IntN(3) {
	case 0:
		n := s.r.IntN(4)
		s.note("aws: %s has room for %d", o, n)
		require.NoError(s.t, m.sim.SetCapacity(o, n))
	case 1:
		code := []string{"InsufficientInstanceCapacity", "VcpuLimitExceeded", "MaxSpotInstanceCountExceeded", "UnauthorizedOperation", "Unsupported", "InsufficientFreeAddressesInSubnet", "SomethingNew"}[s.r.IntN(7)]
		m.fault(s, ec2sim.Fault{Type: o.Type, Market: o.Market, Error: code, Times: s.r.IntN(4)})
	case 2:
		s.note("aws is mended for now")
		m.mend()
	}
}

func (m *simCloud) calling(s *soak) {
	action := []string{"CreateFleet", "RunInstances", "DescribeInstances", "TerminateInstances", "CreateTags"}[s.r.IntN(5)]
	times := 1 + s.r.IntN(8)
	switch s.r.IntN(8) {
	case 0:
		m.fault(s, ec2sim.Fault{Action: action, Cut: true, After: s.r.IntN(2) == 0, Times: times})
	case 1:
		m.fault(s, ec2sim.Fault{Action: action, Error: "RequestLimitExceeded", Times: times})
	case 2:
		m.fault(s, ec2sim.Fault{Action: action, Error: []string{"InternalError", "Unavailable"}[s.r.IntN(2)], After: s.r.IntN(2) == 0, Times: times})
	case 3:
		m.fault(s, ec2sim.Fault{Action: action, Hang: ec2sim.Duration(time.Duration(1+s.r.IntN(90)) * time.Second), After: s.r.IntN(2) == 0, Times: 1 + times/3})
	case 4, 5:
		l := ec2sim.Lag{ID: time.Duration(s.r.IntN(40)) * time.Second, Address: time.Duration(s.r.IntN(30)) * time.Second, Tags: time.Duration(s.r.IntN(40)) * time.Second}
		s.note("aws: lag %v", l)
		require.NoError(s.t, m.sim.SetLag(l))
	case 6:
		m.fault(s, ec2sim.Fault{SlowTerminate: ec2sim.Duration(time.Duration(1+s.r.IntN(300)) * time.Second), Times: times})
	case 7:
		m.fault(s, ec2sim.Fault{Odd: ec2sim.Oddities[s.r.IntN(len(ec2sim.Oddities))], Times: times})
	}
}

func (m *simCloud) befalls(s *soak) {
	i := s.someInstance(m)
	k := s.r.IntN(6)
	if i == nil || k == 0 {
		n := s.someNode()
		s.note("%s does not boot", n)
		m.never[n] = true
		return
	}
	s.note("%s of %s (%s): %s", i.ID, i.Node, i.Offering, []string{"", "vanishes", "reclaimed", "reclaimed", "reclaimed with notice", "stopped"}[k])
	switch k {
	case 1:
		_ = m.sim.Vanish(i.ID)
	case 2, 3:
		_ = m.sim.Interrupt(i.ID, 0) // on-demand instances are not
	case 4:
		_ = m.sim.Interrupt(i.ID, 2*time.Minute)
	case 5:
		ctx, cancel := context.WithTimeout(s.ctx, 30*time.Second)
		defer cancel()
		_ = m.aws.Stop(ctx, []string{i.ID}, false) // spot instances cannot be
	}
}

var _ stand = (*simCloud)(nil)
