// Package testcluster runs a complete private Slurm on this machine: munged,
// slurmctld, slurmdbd on MariaDB, on-premises slurmds and, if asked, midair's
// hooks and controller. The demo and the end-to-end tests use it.
//
// Everything runs in one cell (package cell) that looks like a machine of its
// own: private /etc, /var and /run over the real ones, private network, users
// alice, bob and carol, and files only in memory. So programs use their
// installed paths, several clusters run side by side, the Slurm that is already
// on the machine is not touched, and when the cell ends (also because the
// program that started it was killed) nothing is left.
package testcluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/midair-hpc/midair/internal/cell"
)

// Paths inside the cluster's machine.
const (
	HooksDir   = "/usr/libexec/midair" // the built programs
	SpoolDir   = "/var/spool/midair"
	LedgerDir  = "/var/lib/midair"
	ConfigPath = "/etc/midair/midair.yaml"
	SlurmConf  = "/etc/slurm/slurm.conf"
	store      = "/mnt" // a tmpfs that holds every file
	ctlAddr    = "10.212.0.1"
)

// User is a researcher of the cluster.
type User struct {
	Name string
	UID  int
	QOS  []string
}

// Options says what cluster to start. The zero value of a field means its
// default.
type Options struct {
	Name string // ClusterName; default lab
	// Programs is the folder with midair's built programs, cell init included.
	Programs string
	// Root is where Slurm's binaries live: "/" or a chroot that holds another
	// Slurm version with munge and MariaDB.
	Root string
	// OnPrem is the number of on-premises nodes, onprem-1…; default 2.
	OnPrem int
	// OnPremCPUs per node; default 4.
	OnPremCPUs int
	// QOS are made in the accounting database; default p0, p1, p2.
	QOS []string
	// Midair is the text of midair.yaml; empty: no midair.yaml.
	Midair string
	// Fragment is appended to slurm.conf; with Midair, what `midair slurmconf`
	// prints is included as well.
	Fragment string
	// Verbose receives the output of daemons' starts; nil: discarded.
	Verbose io.Writer
}

// Cluster is a running private Slurm.
type Cluster struct {
	opts Options
	cell cell.Handle

	mu      sync.Mutex
	daemons map[string]*Daemon
}

// Daemon is a program that the cluster keeps running.
type Daemon struct {
	Name string
	cmd  *exec.Cmd
	done chan struct{}
	err  error
}

// Start makes the machine and brings Slurm up; it returns when slurmctld
// answers and the on-premises nodes are idle. On error nothing is left.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	o = withDefaults(o)
	if os.Geteuid() != 0 {
		return nil, errors.New("start test cluster: namespaces and slurmd need root")
	}
	programs, err := filepath.Abs(o.Programs)
	if err != nil {
		return nil, fmt.Errorf("start test cluster: %w", err)
	}
	o.Programs = programs
	h, err := cell.Start(ctx, filepath.Join(o.Programs, cell.InitName), machine(o))
	if err != nil {
		return nil, fmt.Errorf("start test cluster: %w", err)
	}
	c := &Cluster{opts: o, cell: h, daemons: map[string]*Daemon{}}
	if err := c.bringUp(ctx); err != nil {
		logs := c.Logs(40)
		c.Stop()
		return nil, fmt.Errorf("start test cluster: %w\n%s", err, logs)
	}
	return c, nil
}

func withDefaults(o Options) Options {
	if o.Name == "" {
		o.Name = "lab"
	}
	if o.Root == "" {
		o.Root = "/"
	}
	if o.OnPrem == 0 {
		o.OnPrem = 2
	}
	if o.OnPremCPUs == 0 {
		o.OnPremCPUs = 4
	}
	if o.QOS == nil {
		o.QOS = []string{"p0", "p1", "p2"}
	}
	if o.Verbose == nil {
		o.Verbose = io.Discard
	}
	return o
}

// machine describes the cell: overlays hide the machine's own configuration
// and state, so nothing that runs inside can reach it.
func machine(o Options) cell.Spec {
	at := func(p string) string { return path.Join(o.Root, p) }
	s := at(store)
	overlay := func(target, name string) cell.Mount {
		up, work := s+"/over/"+name+"/up", s+"/over/"+name+"/work"
		return cell.Mount{Source: "overlay", Target: at(target), Type: "overlay",
			Data:     "lowerdir=" + at(target) + ",upperdir=" + up + ",workdir=" + work,
			MakeDirs: []string{up, work}}
	}
	bind := func(name, target string) cell.Mount {
		return cell.Mount{Source: s + "/" + name, Target: at(target), Bind: true, MakeDirs: []string{s + "/" + name, at(target)}}
	}
	var root []cell.Mount
	if o.Root != "/" {
		// A root must be a mount point of its own, or mounts cannot be made
		// private below it.
		root = []cell.Mount{{Source: o.Root, Target: o.Root, Bind: true}}
	}
	return cell.Spec{
		Hostname: "ctl",
		Lifeline: true,
		Root:     o.Root,
		Mounts: append(root, []cell.Mount{
			{Source: "tmpfs", Target: s, Type: "tmpfs", Data: "mode=755"},
			{Source: "tmpfs", Target: at("/run"), Type: "tmpfs", Data: "mode=755"},
			overlay("/etc", "etc"),
			overlay("/var", "var"),
			overlay("/usr/libexec", "libexec"),
			bind("slurm.etc", "/etc/slurm"),
			bind("munge.etc", "/etc/munge"),
			bind("midair.etc", "/etc/midair"),
			bind("midair.spool", SpoolDir),
			bind("midair.lib", LedgerDir),
			bind("midair.log", "/var/log/midair"),
			bind("slurm.log", "/var/log/slurm"),
			bind("slurm.lib", "/var/lib/slurm"),
			{Source: o.Programs, Target: at(HooksDir), Bind: true, MakeDirs: []string{at(HooksDir)}},
		}...),
	}
}

// Stop ends the cluster: killing the cell's init takes every process, mount,
// interface and file with it.
func (c *Cluster) Stop() {
	_ = c.cell.Kill()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	_ = c.cell.Wait(ctx)
	c.mu.Lock()
	daemons := make([]*Daemon, 0, len(c.daemons))
	for _, d := range c.daemons {
		daemons = append(daemons, d)
	}
	c.mu.Unlock()
	for _, d := range daemons {
		<-d.done
	}
}

// Command prepares a command on the cluster's machine, as root.
func (c *Cluster) Command(ctx context.Context, argv ...string) *exec.Cmd {
	cmd := c.cell.Command(ctx, argv...)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin:" + HooksDir, "LC_ALL=C.UTF-8", "HOME=/root"}
	return cmd
}

// Run runs a command on the cluster's machine and gives its standard output.
func (c *Cluster) Run(ctx context.Context, argv ...string) (string, error) {
	return capture(c.Command(ctx, argv...), argv)
}

// RunAs runs a command as one of the cluster's users, in their home folder.
func (c *Cluster) RunAs(ctx context.Context, user string, argv ...string) (string, error) {
	full := append([]string{"/usr/bin/setpriv", "--reuid=" + user, "--regid=" + user, "--init-groups", "--", "/usr/bin/env", "-C", "/mnt/home/" + user, "HOME=/mnt/home/" + user, "USER=" + user}, argv...)
	return capture(c.Command(ctx, full...), argv)
}

func capture(cmd *exec.Cmd, argv []string) (string, error) {
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("run %s: %w: %s", strings.Join(argv, " "), err, strings.TrimSpace(errs.String()))
	}
	return out.String(), nil
}

// StartDaemon starts a program that stays in the foreground; its output goes
// to /run/NAME.log.
func (c *Cluster) StartDaemon(name string, env []string, argv ...string) (*Daemon, error) {
	log, err := os.OpenFile(c.Path("/run/"+name+".log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	defer log.Close()
	// The kernel does not pass a kill of nsenter on to the command it runs, so
	// the command's own PID is what Kill needs: the shell writes it and execs.
	cmd := c.Command(context.Background(), append([]string{"/bin/sh", "-c", `echo $$ >"$0"; exec "$@"`, "/run/" + name + ".testpid"}, argv...)...)
	cmd.Env = append(cmd.Env, env...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	d := &Daemon{Name: name, cmd: cmd, done: make(chan struct{})}
	go func() {
		d.err = cmd.Wait()
		close(d.done)
	}()
	c.mu.Lock()
	c.daemons[name] = d
	c.mu.Unlock()
	return d, nil
}

// Done is closed when the daemon has ended.
func (d *Daemon) Done() <-chan struct{} { return d.done }

// Signal sends a signal, such as KILL or TERM, to a daemon and waits until it
// has ended.
func (c *Cluster) Signal(ctx context.Context, d *Daemon, sig string) error {
	select {
	case <-d.done:
		return nil
	default:
	}
	if _, err := c.Run(ctx, "/bin/sh", "-c", `kill -`+sig+` "$(cat /run/`+d.Name+`.testpid)"`); err != nil {
		return fmt.Errorf("signal %s: %w", d.Name, err)
	}
	select {
	case <-d.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the end of %s: %w", d.Name, ctx.Err())
	}
}

// Path gives the path by which a file of the cluster's machine can be read and
// written from outside it.
func (c *Cluster) Path(p string) string { return c.cell.Path(p) }

// WriteFile writes a file on the cluster's machine.
func (c *Cluster) WriteFile(p, text string, mode os.FileMode) error {
	if err := os.WriteFile(c.Path(p), []byte(text), mode); err != nil {
		return fmt.Errorf("write %s: %w", p, err)
	}
	return nil
}

// WaitFor asks every 100 ms until ok says yes, ctx is done, or ok fails.
func WaitFor(ctx context.Context, what string, ok func(context.Context) (bool, error)) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		yes, err := ok(ctx)
		if err != nil {
			return fmt.Errorf("wait for %s: %w", what, err)
		}
		if yes {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", what, ctx.Err())
		case <-tick.C:
		}
	}
}

// Logs gives the last n lines of every log, for a failed test's output.
func (c *Cluster) Logs(n int) string {
	var b strings.Builder
	for _, pattern := range []string{"/run/*.log", "/var/log/slurm/*.log", "/var/log/midair/*.log"} {
		files, _ := filepath.Glob(c.Path(pattern))
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil || len(text) == 0 {
				continue
			}
			lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
			if len(lines) > n {
				lines = lines[len(lines)-n:]
			}
			fmt.Fprintf(&b, "== %s\n%s\n", filepath.Base(f), strings.Join(lines, "\n"))
		}
	}
	return b.String()
}
