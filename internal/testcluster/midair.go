package testcluster

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// StartController starts midair's controller, also again after it was
// stopped, and waits until it takes questions. env, such as
// MIDAIR_CRASH_AT=point, is added to its environment; with it the controller
// may end before it is up, which is no error.
func (c *Cluster) StartController(ctx context.Context, env ...string) (*Daemon, error) {
	// A killed controller leaves its socket behind; the new one's is awaited.
	if err := os.Remove(c.Path(SpoolDir + "/controller.sock")); err != nil && !os.IsNotExist(err) {
		return nil, fmt.Errorf("start the controller: %w", err)
	}
	d, err := c.StartDaemon("controller", env, HooksDir+"/midair", "controller")
	if err != nil {
		return nil, err
	}
	err = WaitFor(ctx, "the controller", func(context.Context) (bool, error) {
		select {
		case <-d.done:
			if len(env) > 0 {
				return true, nil
			}
			return false, fmt.Errorf("the controller ended: %w\n%s", d.err, c.Logs(20))
		default:
		}
		_, err := os.Stat(c.Path(SpoolDir + "/controller.sock"))
		return err == nil, nil
	})
	return d, err
}

// Sbatch submits a batch job as a user and gives its id.
func (c *Cluster) Sbatch(ctx context.Context, user string, args ...string) (int, error) {
	out, err := c.RunAs(ctx, user, append([]string{"sbatch", "--parsable"}, args...)...)
	if err != nil {
		return 0, err
	}
	id, err := strconv.Atoi(strings.TrimSpace(strings.Split(out, ";")[0]))
	if err != nil {
		return 0, fmt.Errorf("read sbatch's answer %q: %w", out, err)
	}
	return id, nil
}
