package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// simCredentials is where the lab's midair.yaml finds the stand-in's key.
const simCredentials = "/etc/midair/aws-credentials"

// awsYAML is the lab's midair.yaml where the cloud is AWS. The types are small
// ones, since every instance is a slurmd on this machine.
const awsYAML = `cluster: lab
providers:
  east:
    kind: aws
    region: us-east-1
    endpoint: http://127.0.0.1:4747
    credentials_file: /etc/midair/aws-credentials
    launch_template: midair
    subnets: {us-east-1a: subnet-0a1b2c3d4e5f6000a, us-east-1b: subnet-0a1b2c3d4e5f6000b}
pools:
  - name: od
    nodes: od-[1-8]
    provider: east
    node: {cpus: 1, memory: 500M}
    offerings: [{types: [c7i.large], zones: [us-east-1a], markets: [on-demand]}]
    suspend_time: 3s
    resume_timeout: RESUME_TIMEOUT
    suspend_timeout: 2s
  - name: spot
    nodes: spot-[001-064]
    provider: east
    node: {cpus: 1, memory: 500M}
    offerings: [{types: [c7i.large, m7i.large], zones: [us-east-1a, us-east-1b], markets: [spot, on-demand]}]
    suspend_time: 3s
    resume_timeout: RESUME_TIMEOUT
    suspend_timeout: 2s
tiers:
  - {name: p0, qos: [p0], partitions: [onprem]}
  - {name: p1, qos: [p1], partitions: [od]}
  - {name: p2, qos: [p2], partitions: [spot]}
retry: {first: 1s, max: 20s, rounds: 3}
capacity_memory: {first: 2s, max: 10s}
reconcile: {every: 2s, grace: 4s, max_terminations: 50}
`

// startAWS starts a lab whose cloud is the stand-in for AWS.
func startAWS(t *testing.T, o labOptions, args ...string) *lab {
	t.Helper()
	if o.yaml == "" {
		o.yaml = awsYAML
	}
	o.sim = append([]string{"--boot", "300ms"}, args...)
	return startLab(t, o)
}

// aws adds a fault to the stand-in, in the words of midair ec2sim fault add.
func (l *lab) aws(args ...string) {
	l.t.Helper()
	l.run(append([]string{"midair", "ec2sim", "fault", "add"}, args...)...)
}

func (l *lab) awsClear() {
	l.t.Helper()
	l.run("midair", "ec2sim", "fault", "clear")
}

func (l *lab) awsSet(args ...string) {
	l.t.Helper()
	l.run(append([]string{"midair", "ec2sim", "set"}, args...)...)
}

// calls gives how many calls of each action the stand-in has had.
func (l *lab) calls() map[string]int {
	l.t.Helper()
	var st struct {
		Calls map[string]int `json:"calls"`
	}
	require.NoError(l.t, json.Unmarshal([]byte(l.run("midair", "ec2sim", "status", "--json")), &st))
	return st.Calls
}

func (l *lab) creates() int {
	c := l.calls()
	return c["RunInstances"] + c["CreateFleet"]
}

// offerings lists what has been bought, as type/zone/market, sorted by age.
func (l *lab) offerings() []string {
	l.t.Helper()
	var all []string
	for _, i := range l.instances() {
		var o struct{ Type, Zone, Market string }
		require.NoError(l.t, json.Unmarshal(i.Offering, &o))
		all = append(all, o.Type+"/"+o.Zone+"/"+o.Market)
	}
	return all
}

// commented waits until a job's comment starts so.
func (l *lab) commented(id int, start string) {
	l.t.Helper()
	l.within(60*time.Second, fmt.Sprintf("job %d's comment to be %q", id, start), func() bool { return strings.HasPrefix(l.job(id, "%k"), start) })
}

func (l *lab) why(id int) string {
	l.t.Helper()
	return l.run("midair", "why", fmt.Sprint(id))
}

// reasons lists the reasons of nodes, as scontrol shows them.
func (l *lab) reasons(nodes string) string {
	l.t.Helper()
	return l.run("scontrol", "show", "node", nodes)
}
