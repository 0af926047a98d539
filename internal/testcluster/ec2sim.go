package testcluster

import (
	"context"
	"fmt"

	"github.com/midair-hpc/midair/internal/cloud/ec2sim"
)

// EC2SimState is the folder in which the cluster's stand-in for AWS keeps its
// cloud.
const EC2SimState = "/mnt/ec2sim"

// StartEC2Sim starts midair's stand-in for AWS on the cluster's machine, with
// instances that boot as nodes of the cluster, and writes a credentials file
// for it. More arguments are those of `midair ec2sim serve`. It may be started
// again after it was stopped.
func (c *Cluster) StartEC2Sim(ctx context.Context, credentials string, args ...string) error {
	text := fmt.Sprintf("[default]\naws_access_key_id = %s\naws_secret_access_key = %s\n", ec2sim.DefaultCredential.AccessKeyID, ec2sim.DefaultCredential.SecretAccessKey)
	// The controller runs as root here, and the file holds a secret.
	if err := c.WriteFile(credentials, text, 0o600); err != nil {
		return err
	}
	argv := append([]string{HooksDir + "/midair", "ec2sim", "serve", "--state", EC2SimState, "--machines", "local", "--slurm-conf", SlurmConf,
		"--pending", "200ms", "--shutting-down", "500ms", "--stopping", "500ms"}, args...)
	d, err := c.StartDaemon("ec2sim", nil, argv...)
	if err != nil {
		return err
	}
	return WaitFor(ctx, "the stand-in for AWS", func(ctx context.Context) (bool, error) {
		select {
		case <-d.done:
			return false, fmt.Errorf("it ended: %w\n%s", d.err, c.Logs(20))
		default:
		}
		_, err := c.Run(ctx, "midair", "ec2sim", "status")
		return err == nil, nil
	})
}
