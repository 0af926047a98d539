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
  - name: lost
    nodes: lost-[1-2]
    provider: east
    node: {cpus: 1, memory: 500M}
    offerings: [{types: [c7i.large], zones: [us-east-1a], markets: [on-demand]}]
    aws: {launch_template: midair-gpu}
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
	for _, c := range []struct {
		class string
		pool  string
		held  bool
		fault []string // words of midair ec2sim
		heal  []string
	}{
		{"out-of-stock", "od", true, []string{"fault", "add", "--error", "InsufficientInstanceCapacity"}, []string{"fault", "clear"}},
		{"quota", "od", true, []string{"set", "--quota", "L-1216C47A=0"}, []string{"set", "--quota", "L-1216C47A=100"}},
		{"spec-mismatch", "big", true, nil, nil},
		{"init-failed", "od", false, []string{"fault", "add", "--no-boot", "--times", "1"}, []string{"fault", "clear"}},
		{"throttled", "od", false, []string{"fault", "add", "--throttle", "--times", "3"}, []string{"fault", "clear"}},
		{"unauthorized", "od", true, []string{"fault", "deny", "RunInstances", "CreateFleet"}, []string{"fault", "allow"}},
		{"config", "lost", true, nil, nil},
		{"unknown", "od", true, []string{"fault", "add", "--error", "ResourcePoolTired", "--message", "something new"}, []string{"fault", "clear"}},
	} {
		if len(c.fault) > 0 {
			l.run(append([]string{"midair", "ec2sim"}, c.fault...)...)
		}
		id := l.submit("p1", 1, "sleep 1", "-p", c.pool)
		if c.class == "throttled" {
			l.state(id, "COMPLETED")
			require.Empty(t, l.job(id, "%k"), "throttling is nobody's business but midair's")
		} else {
			l.commented(id, "midair: "+c.class+": ")
			comment := l.job(id, "%k")
			reason := ""
			l.within(20*time.Second, "the reason on the node", func() bool {
				reason = l.reasons(c.pool + "-1")
				return strings.Contains(reason, "Reason=midair: "+c.class+": ")
			})
			if c.held {
				l.within(60*time.Second, "the job to be held", func() bool { return strings.HasPrefix(l.job(id, "%r"), "JobHeld") })
			} else {
				l.state(id, "COMPLETED")
			}
			t.Logf("%s\ncomment %s\nsqueue %s\n%s\nsinfo -R\n%s\nwhy\n%s", c.class, comment, l.job(id, "%i %T %r"),
				l.run("scontrol", "show", "job", fmt.Sprint(id)), l.run("sinfo", "-R"), l.why(id))
			require.Contains(t, string(text), comment, "docs/failures.md does not show it")
			require.Contains(t, l.why(id), c.class)
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
