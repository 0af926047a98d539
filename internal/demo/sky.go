package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/midair-hpc/midair/internal/testcluster"
)

// Clouds that the demo can be told with.
var Clouds = []string{"local", "ec2sim"}

// sky is the cloud of a story.
type sky interface {
	intro() string
	yaml() string
	start(ctx context.Context, c *testcluster.Cluster) error
	// runsLow leaves no instance of the spot pool's first offering and one of
	// the on-demand pool's, and says so.
	runsLow(ctx context.Context, c *testcluster.Cluster) (string, error)
	// ls is the command that lists all instances as JSON.
	ls() []string
}

func skyOf(name string) (sky, error) {
	switch name {
	case "", "local":
		return localSky{}, nil
	case "ec2sim":
		return simSky{}, nil
	}
	return nil, fmt.Errorf("there is no cloud %q for the demo; there are %s", name, strings.Join(Clouds, ", "))
}

// allEnded fails unless every instance that was bought is gone, and says how
// many there were.
func (s *story) allEnded(ctx context.Context) (int, error) {
	var list []struct {
		ID, Node, State string
	}
	err := testcluster.WaitFor(ctx, "every bought instance to be gone", func(ctx context.Context) (bool, error) {
		out, err := s.c.Run(ctx, s.sky.ls()...)
		if err != nil {
			return false, err
		}
		if err := json.Unmarshal([]byte(out), &list); err != nil {
			return false, fmt.Errorf("read %s: %w", strings.Join(s.sky.ls(), " "), err)
		}
		for _, i := range list {
			switch i.State {
			case "terminated":
			case "shutting-down":
				return false, nil
			default:
				return false, fmt.Errorf("instance %s is still %s after its node was powered down", i.ID, i.State)
			}
		}
		return true, nil
	})
	return len(list), err
}

type localSky struct{}

func (localSky) intro() string { return "its cloud made of network namespaces" }
func (localSky) yaml() string  { return localYAML }
func (localSky) ls() []string  { return []string{"midair", "local", "ls", "--json"} }

func (localSky) start(context.Context, *testcluster.Cluster) error { return nil }

func (localSky) runsLow(ctx context.Context, c *testcluster.Cluster) (string, error) {
	_, err := c.Run(ctx, "midair", "local", "fault", "set", "--out-of-stock", "g1.small/zone-a/spot", "--stock", "g1.small/zone-a/on-demand=1")
	return "the cloud runs out of g1.small spot in zone-a, and has one g1.small on demand left", err
}

// Where the story's stand-in for AWS is on the cluster's machine.
const (
	simURL         = "http://127.0.0.1:4747"
	simCredentials = "/etc/midair/aws-credentials"
)

type simSky struct{}

func (simSky) intro() string {
	return "its cloud a stand-in for AWS whose instances are network namespaces"
}
func (simSky) yaml() string { return simYAML }
func (simSky) ls() []string { return []string{"midair", "ec2sim", "ls", "--json"} }

func (simSky) start(ctx context.Context, c *testcluster.Cluster) error {
	return c.StartEC2Sim(ctx, simCredentials, "--boot", "2s")
}

func (simSky) runsLow(ctx context.Context, c *testcluster.Cluster) (string, error) {
	_, err := c.Run(ctx, "midair", "ec2sim", "set", "--capacity", "g5.xlarge/us-east-1a/spot=0", "--capacity", "g5.xlarge/us-east-1a/on-demand=1")
	return "AWS runs out of g5.xlarge spot in us-east-1a, and has one g5.xlarge on demand left", err
}
