package e2e

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// classesYAML has a pool for each failure that comes from midair.yaml itself.
const classesYAML = `cluster: gpu1
providers:
  east:
    kind: aws
    region: us-east-1
    endpoint: http://127.0.0.1:4747
    credentials_file: /etc/midair/aws-credentials
    launch_template: midair
    subnets: {us-east-1a: subnet-0a1b2c3d4e5f6000a}
pools:
  - name: od
    nodes: od-[1-8]
    provider: east
    node: {cpus: 1, memory: 500M}
    offerings: [{types: [c7i.large], zones: [us-east-1a], markets: [on-demand]}]
    suspend_time: 3s
    resume_timeout: 6s
    suspend_timeout: 2s
  - name: big
    nodes: big-[1-2]
    provider: east
    node: {cpus: 1, memory: 500G}
    offerings: [{types: [c7i.large], zones: [us-east-1a], markets: [on-demand]}]
    suspend_timeout: 2s
  - name: lost
    nodes: lost-[1-2]
    provider: east
    node: {cpus: 1, memory: 500M}
    offerings: [{types: [c7i.large], zones: [us-east-1a], markets: [on-demand]}]
    aws: {launch_template: midair-gpu}
    suspend_timeout: 2s
tiers:
  - {name: p0, qos: [p0], partitions: [onprem]}
  - {name: p1, qos: [p1], partitions: [od, big, lost]}
  - {name: p2, qos: [p2], partitions: [od]}
retry: {first: 1s, max: 2s, rounds: 2}
capacity_memory: {first: 1s, max: 1s}
reconcile: {every: 2s, grace: 4s, max_terminations: 50}
`

// docs/failures.md shows for each class what people see. This is where it was
// seen, and where it is looked at again.
func TestEveryClassIsShownAsTheDocumentationSays(t *testing.T) {
	text, err := os.ReadFile("../../docs/failures.md")
	require.NoError(t, err)
	l := startAWS(t, labOptions{yaml: strings.Replace(classesYAML, "cluster: gpu1", "cluster: lab", 1)})
	pools := map[string]string{"od": "od-[1-8]", "big": "big-[1-2]", "lost": "lost-[1-2]"}
	for _, c := range []struct {
		class string
		pool  string
		held  bool
		fault []string // words of midair ec2sim
		heal  []string
		says  string // what midair why and the documentation say of it
	}{
		{"out-of-stock", "od", true, []string{"fault", "add", "--error", "InsufficientInstanceCapacity", "--type", "c7i.large"}, []string{"fault", "clear"},
			"EC2 has no capacity for c7i.large/us-east-1a/on-demand now (InsufficientInstanceCapacity)"},
		{"quota", "od", true, []string{"set", "--quota", "L-1216C47A=0"}, []string{"set", "--quota", "L-1216C47A=100"},
			"the account's vCPU quota does not allow more of c7i.large/us-east-1a/on-demand (VcpuLimitExceeded)"},
		{"spec-mismatch", "big", true, nil, nil, "c7i.large has 4096 MiB of memory, but pool big promises Slurm 512000"},
		{"init-failed", "od", false, []string{"fault", "add", "--no-boot", "--times", "1"}, []string{"fault", "clear"},
			"did not register with Slurm within ResumeTimeout"},
		{"throttled", "od", false, []string{"fault", "add", "--throttle", "--action", "CreateFleet", "--times", "3"}, []string{"fault", "clear"}, ""},
		{"unauthorized", "od", true, []string{"fault", "deny", "RunInstances", "CreateFleet"}, []string{"fault", "allow"},
			"the credentials lack the permission ec2:CreateFleet (UnauthorizedOperation)"},
		{"config", "lost", true, nil, nil,
			`the launch template "midair-gpu" of provider east, or that version of it, is not there in us-east-1 (InvalidLaunchTemplateName.NotFoundException)`},
		{"unknown", "od", true, []string{"fault", "add", "--error", "ResourcePoolTired", "--message", "something new", "--type", "c7i.large"}, []string{"fault", "clear"},
			"EC2 answers c7i.large/us-east-1a/on-demand with a code that midair does not know (ResourcePoolTired)"},
	} {
		if len(c.fault) > 0 {
			l.run(append([]string{"midair", "ec2sim"}, c.fault...)...)
		}
		id := l.submit("p1", 1, "sleep 1", "-p", c.pool)
		if c.says == "" {
			l.state(id, "COMPLETED")
			require.NotContains(t, l.job(id, "%k"), "midair:", "throttling is nobody's business but midair's")
		} else {
			l.commented(id, "midair: "+c.class+": ")
			l.within(20*time.Second, "the reason on the node", func() bool {
				return strings.Contains(l.reasons(pools[c.pool]), "Reason=midair: "+c.class+": ")
			})
			if c.held {
				l.within(60*time.Second, "the job to be held", func() bool { return strings.HasPrefix(l.job(id, "%r"), "JobHeld") })
			} else {
				l.state(id, "COMPLETED")
			}
			t.Logf("%s\n%s\n%s", c.class, l.run("scontrol", "show", "job", fmt.Sprint(id)), l.why(id))
			require.Contains(t, l.why(id), c.says)
			require.Contains(t, string(text), c.says, "docs/failures.md does not show it")
		}
		if len(c.heal) > 0 {
			l.run(append([]string{"midair", "ec2sim"}, c.heal...)...)
		}
		_, _ = l.Run(l.ctx, "scancel", fmt.Sprint(id))
		l.within(60*time.Second, "the pools to be off", func() bool {
			return strings.Count(l.run("sinfo", "-h", "-N", "-p", "od,big,lost", "-o", "%T"), "idle~") == 12
		})
	}
	l.settles()
}
