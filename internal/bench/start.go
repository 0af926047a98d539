package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/midair-hpc/midair/internal/testcluster"
)

const bootDelay = 2 * time.Second

const startYAML = `cluster: lab
providers:
  lab:
    kind: local
    boot_delay: 2s
    types:
      g1: {cpus: 1, memory: 1G, prices: {spot: 0.40 USD}}
pools:
  - name: spot
    nodes: spot-[01-60]
    provider: lab
    node: {cpus: 1, memory: 500M}
    offerings: [{types: [g1], zones: [za], markets: [spot]}]
    suspend_time: 2s
    resume_timeout: 120s
    suspend_timeout: 2s
tiers:
  - {name: p2, qos: [p2], partitions: [spot]}
retry: {first: 1s, max: 20s, rounds: 5}
capacity_memory: {first: 1s, max: 10s}
`

// sweep is how often slurmctld tests again whether configuring jobs' nodes are
// ready: what a job waits for when no PrologSlurmctld ends.
const sweep = 30 * time.Second

// submitToStart measures from sbatch to the first line of the job's script,
// minus the boot delay, on one cluster, in turn with midair's PrologSlurmctld
// (which holds the job until its nodes have registered) and with one that
// returns at once (what Slurm does by itself). Runs start at moments spread
// evenly over slurmctld's sweep, since that is what the peer waits for.
func submitToStart(nodes int) func(context.Context, environment) ([]Line, error) {
	return func(ctx context.Context, env environment) ([]Line, error) {
		c, err := testcluster.Start(ctx, testcluster.Options{Programs: env.programs, Midair: startYAML})
		if err != nil {
			return nil, err
		}
		defer c.Stop()
		began := time.Now()
		if _, err := c.StartController(ctx); err != nil {
			return nil, err
		}
		const runs = 5
		var ours, theirs []float64
		for i := range runs {
			for _, stock := range []bool{false, true} {
				x, err := oneStart(ctx, c, nodes, stock, began, sweep*time.Duration(i)/runs)
				if err != nil {
					return nil, fmt.Errorf("%w\n%s", err, c.Logs(20))
				}
				if stock {
					theirs = append(theirs, x)
				} else {
					ours = append(ours, x)
				}
			}
		}
		med, span := summary(ours)
		_, pspan := summary(theirs)
		return []Line{
			{Name: fmt.Sprintf("submit-to-start-%d", nodes), Ours: med, OursRange: span, Runs: len(ours), Unit: "s median, minus the boot delay"},
			{Name: fmt.Sprintf("submit-to-start-%d-mean", nodes), Ours: mean(ours), OursRange: span, Peers: mean(theirs), PeersRange: pspan, Runs: len(ours),
				Unit: "s mean, minus the boot delay", Peer: "the same cluster, PrologSlurmctld returns at once"},
		}, nil
	}
}

// oneStart submits a job at a moment of the sweep, counted from began.
func oneStart(ctx context.Context, c *testcluster.Cluster, nodes int, stock bool, began time.Time, phase time.Duration) (float64, error) {
	prolog := testcluster.HooksDir + "/midair-slurmctld-hook"
	if stock {
		prolog = "/bin/true"
	}
	if err := setProlog(ctx, c, prolog); err != nil {
		return 0, err
	}
	if err := allOff(ctx, c); err != nil {
		return 0, err
	}
	select {
	case <-time.After((phase - time.Since(began)%sweep + sweep) % sweep):
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	submitted := time.Now()
	id, err := c.Sbatch(ctx, "alice", "--qos=p2", fmt.Sprintf("--nodes=%d", nodes), "--ntasks-per-node=1", "--mem=100", "--time=5", "--output=/dev/null", "--wrap=date +%s.%N >start")
	if err != nil {
		return 0, err
	}
	err = testcluster.WaitFor(ctx, fmt.Sprintf("job %d to end", id), func(ctx context.Context) (bool, error) {
		out, err := c.Run(ctx, "squeue", "-h", "-t", "all", "-j", strconv.Itoa(id), "-o", "%T")
		return strings.TrimSpace(out) == "COMPLETED", err
	})
	if err != nil {
		return 0, err
	}
	text, err := os.ReadFile(c.Path("/mnt/home/alice/start"))
	if err != nil {
		return 0, err
	}
	at, err := strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
	if err != nil {
		return 0, err
	}
	return at - float64(submitted.UnixMicro())/1e6 - bootDelay.Seconds(), nil
}

func setProlog(ctx context.Context, c *testcluster.Cluster, path string) error {
	file := "/etc/slurm/midair.conf"
	text, err := os.ReadFile(c.Path(file))
	if err != nil {
		return err
	}
	lines := strings.Split(string(text), "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, "PrologSlurmctld=") {
			lines[i] = "PrologSlurmctld=" + path
		}
	}
	if err := c.WriteFile(file, strings.Join(lines, "\n"), 0o644); err != nil {
		return err
	}
	if _, err := c.Run(ctx, "scontrol", "reconfigure"); err != nil {
		return err
	}
	return testcluster.WaitFor(ctx, "slurmctld to take the prolog", func(ctx context.Context) (bool, error) {
		out, err := c.Run(ctx, "scontrol", "show", "config")
		if err != nil {
			return false, nil
		}
		for _, l := range strings.Split(out, "\n") {
			if k, v, ok := strings.Cut(l, "="); ok && strings.TrimSpace(k) == "PrologSlurmctld" {
				return strings.TrimSpace(v) == path, nil
			}
		}
		return false, nil
	})
}

func allOff(ctx context.Context, c *testcluster.Cluster) error {
	return testcluster.WaitFor(ctx, "all nodes to be powered down", func(ctx context.Context) (bool, error) {
		out, err := c.Run(ctx, "sinfo", "-h", "-N", "-p", "spot", "-o", "%T")
		if err != nil {
			return false, nil
		}
		for _, s := range strings.Fields(out) {
			if s != "idle~" {
				return false, nil
			}
		}
		return true, nil
	})
}

// requeueAfterFailure measures from a launch's failure to the moment from which
// Slurm may start the job again, ours and Slurm's own for a node that is set
// down while it powers up.
func requeueAfterFailure(ctx context.Context, env environment) ([]Line, error) {
	c, err := testcluster.Start(ctx, testcluster.Options{Programs: env.programs, Midair: startYAML})
	if err != nil {
		return nil, err
	}
	defer c.Stop()
	var ours, theirs []float64
	for range 3 {
		d, err := c.StartController(ctx)
		if err != nil {
			return nil, err
		}
		x, err := ourRequeue(ctx, c)
		if err != nil {
			return nil, fmt.Errorf("%w\n%s", err, c.Logs(20))
		}
		ours = append(ours, x)
		if err := c.Signal(ctx, d, "TERM"); err != nil {
			return nil, err
		}
		if x, err = stockRequeue(ctx, c); err != nil {
			return nil, fmt.Errorf("stock: %w\n%s", err, c.Logs(20))
		}
		theirs = append(theirs, x)
	}
	med, span := summary(ours)
	pmed, pspan := summary(theirs)
	return []Line{{Name: "requeue-after-failure", Ours: med, OursRange: span, Peers: pmed, PeersRange: pspan, Runs: len(ours), Unit: "s from failure to eligible",
		Peer: "Slurm by itself: node set down while powering up"}}, nil
}

func ourRequeue(ctx context.Context, c *testcluster.Cluster) (float64, error) {
	if err := allOff(ctx, c); err != nil {
		return 0, err
	}
	if _, err := c.Run(ctx, "midair", "local", "fault", "set", "--unknown", "1"); err != nil {
		return 0, err
	}
	id, err := submitOne(ctx, c)
	if err != nil {
		return 0, err
	}
	err = testcluster.WaitFor(ctx, fmt.Sprintf("midair's word on job %d", id), func(ctx context.Context) (bool, error) {
		out, err := c.Run(ctx, "squeue", "-h", "-j", strconv.Itoa(id), "-o", "%k")
		return strings.HasPrefix(out, "midair: "), err
	})
	if err != nil {
		return 0, err
	}
	eligible, err := eligibleAgain(ctx, c, id)
	if err != nil {
		return 0, err
	}
	out, err := c.Run(ctx, "midair", "why", "--json", strconv.Itoa(id))
	if err != nil {
		return 0, err
	}
	failed, err := firstFailure(out)
	if err != nil {
		return 0, err
	}
	if _, err := c.RunAs(ctx, "alice", "scancel", strconv.Itoa(id)); err != nil {
		return 0, err
	}
	return max(eligible.Sub(failed).Seconds(), 0), nil
}

func stockRequeue(ctx context.Context, c *testcluster.Cluster) (float64, error) {
	id, err := submitOne(ctx, c)
	if err != nil {
		return 0, err
	}
	var node string
	err = testcluster.WaitFor(ctx, "the job's node to power up", func(ctx context.Context) (bool, error) {
		out, err := c.Run(ctx, "squeue", "-h", "-j", strconv.Itoa(id), "-t", "configuring", "-o", "%N")
		node = strings.TrimSpace(out)
		return node != "", err
	})
	if err != nil {
		return 0, err
	}
	failed := time.Now()
	if _, err := c.Run(ctx, "scontrol", "update", "nodename="+node, "state=down", "reason=bench"); err != nil {
		return 0, err
	}
	eligible, err := eligibleAgain(ctx, c, id)
	if err != nil {
		return 0, err
	}
	if _, err := c.RunAs(ctx, "alice", "scancel", strconv.Itoa(id)); err != nil {
		return 0, err
	}
	if _, err := c.Run(ctx, "scontrol", "update", "nodename="+node, "state=power_down"); err != nil {
		return 0, err
	}
	return eligible.Sub(failed).Seconds(), nil
}

func submitOne(ctx context.Context, c *testcluster.Cluster) (int, error) {
	return c.Sbatch(ctx, "alice", "--qos=p2", "--nodes=1", "--mem=100", "--time=5", "--output=/dev/null", "--wrap=sleep 30")
}

// eligibleAgain waits until a job has been requeued and gives the time from
// which Slurm may start it.
func eligibleAgain(ctx context.Context, c *testcluster.Cluster, id int) (time.Time, error) {
	var at time.Time
	err := testcluster.WaitFor(ctx, fmt.Sprintf("job %d to be requeued", id), func(ctx context.Context) (bool, error) {
		out, err := c.Run(ctx, "scontrol", "show", "job", "-o", strconv.Itoa(id))
		if err != nil {
			return false, err
		}
		f := map[string]string{}
		for _, kv := range strings.Fields(out) {
			if k, v, ok := strings.Cut(kv, "="); ok {
				if _, dup := f[k]; !dup {
					f[k] = v
				}
			}
		}
		if f["Restarts"] == "0" || f["JobState"] != "PENDING" {
			return false, nil
		}
		at, err = time.ParseInLocation("2006-01-02T15:04:05", f["EligibleTime"], time.Local)
		return err == nil, nil
	})
	return at, err
}
