package testcluster

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Users of every cluster. Alice may use every QOS, Bob and Carol too: what a
// QOS may do is the tier's business, not the user's.
var users = []User{{Name: "alice", UID: 2001}, {Name: "bob", UID: 2002}, {Name: "carol", UID: 2003}}

func (c *Cluster) bringUp(ctx context.Context) error {
	steps := []struct {
		what string
		do   func(context.Context) error
	}{
		{"prepare the machine", c.prepare},
		{"start munged", c.startMunge},
		{"start MariaDB", c.startMariaDB},
		{"write Slurm's configuration", c.writeConf},
		{"start slurmdbd", c.startSlurmdbd},
		{"fill the accounting database", c.fillAccounting},
		{"start slurmctld", c.StartSlurmctld},
		{"start the on-premises nodes", c.startOnPrem},
	}
	for _, s := range steps {
		began := time.Now()
		if err := s.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", s.what, err)
		}
		fmt.Fprintf(c.opts.Verbose, "%-32s %5.1f s\n", s.what, time.Since(began).Seconds())
	}
	return nil
}

func (c *Cluster) prepare(ctx context.Context) error {
	if _, err := c.Run(ctx, "/sbin/ip", "addr", "add", ctlAddr+"/32", "dev", "lo"); err != nil {
		return err
	}
	for _, f := range []struct{ file, line string }{
		{"/etc/passwd", "%s:x:%d:%d::/mnt/home/%[1]s:/bin/sh\n"},
		{"/etc/group", "%s:x:%d:\n"},
	} {
		text, err := os.ReadFile(c.Path(f.file))
		if err != nil {
			return err
		}
		var b strings.Builder
		b.Write(text)
		for _, u := range users {
			if f.file == "/etc/group" {
				fmt.Fprintf(&b, f.line, u.Name, u.UID)
			} else {
				fmt.Fprintf(&b, f.line, u.Name, u.UID, u.UID)
			}
		}
		if err := c.WriteFile(f.file, b.String(), 0o644); err != nil {
			return err
		}
	}
	if err := c.WriteFile("/etc/hosts", "127.0.0.1 localhost\n"+ctlAddr+" ctl\n", 0o644); err != nil {
		return err
	}
	// Without a name server, glibc asks 127.0.0.1, which refuses at once. One that
	// cannot be reached costs 10 s a look-up, and slurmd 24.11 makes several.
	if err := c.WriteFile("/etc/resolv.conf", "# none\n", 0o644); err != nil {
		return err
	}
	key := make([]byte, 128)
	if _, err := rand.Read(key); err != nil {
		return err
	}
	if err := c.WriteFile("/etc/munge/munge.key", string(key), 0o400); err != nil {
		return err
	}
	// Only files inside the private mounts are touched.
	script := `set -e
ln -sn /run/mysqld /run/mariadbd # where newer Slurm packages look for the socket
mkdir -p /run/munge /run/mysqld /run/slurm /mnt/slurmd /mnt/mysql /mnt/home
chown munge:munge /run/munge /etc/munge /etc/munge/munge.key; chmod 0700 /etc/munge
chown mysql:mysql /run/mysqld /mnt/mysql
chown -R slurm:slurm /var/lib/slurm /var/log/slurm ` + SpoolDir + ` ` + LedgerDir + ` /var/log/midair /run/slurm
chmod 0750 ` + SpoolDir + ` ` + LedgerDir + `
chmod 0755 /var/log/slurm
`
	for _, u := range users {
		script += fmt.Sprintf("mkdir -p /mnt/home/%[1]s; chown %[2]d:%[2]d /mnt/home/%[1]s\n", u.Name, u.UID)
	}
	_, err := c.Run(ctx, "/bin/sh", "-c", script)
	return err
}

func (c *Cluster) startMunge(ctx context.Context) error {
	if _, err := c.StartDaemon("munged", nil, "/usr/bin/setpriv", "--reuid=munge", "--regid=munge", "--clear-groups", "--",
		"/usr/sbin/munged", "-F", "--force", "--num-threads=4", "--pid-file=/run/munge/munged.pid", "--log-file=/run/munge/munged.log", "--seed-file=/run/munge/seed"); err != nil {
		return err
	}
	return WaitFor(ctx, "munge's socket", c.fileExists("/run/munge/munge.socket.2"))
}

func (c *Cluster) fileExists(p string) func(context.Context) (bool, error) {
	return func(context.Context) (bool, error) {
		_, err := os.Stat(c.Path(p))
		return err == nil, nil
	}
}

func (c *Cluster) startMariaDB(ctx context.Context) error {
	if _, err := c.Run(ctx, "/usr/bin/mariadb-install-db", "--no-defaults", "--user=mysql", "--datadir=/mnt/mysql",
		"--auth-root-authentication-method=socket", "--skip-test-db", "--skip-log-bin",
		"--innodb-log-file-size=4M", "--innodb-buffer-pool-size=16M"); err != nil {
		return err
	}
	if _, err := c.StartDaemon("mariadbd", nil, "/usr/sbin/mariadbd", "--no-defaults", "--user=mysql", "--datadir=/mnt/mysql",
		"--socket=/run/mysqld/mysqld.sock", "--pid-file=/run/mysqld/mysqld.pid", "--skip-networking", "--skip-log-bin",
		"--innodb-log-file-size=4M", "--innodb-buffer-pool-size=32M", "--innodb-flush-log-at-trx-commit=0", "--innodb-lock-wait-timeout=900",
		"--performance-schema=OFF"); err != nil {
		return err
	}
	if err := WaitFor(ctx, "MariaDB's socket", c.fileExists("/run/mysqld/mysqld.sock")); err != nil {
		return err
	}
	_, err := c.Run(ctx, "/usr/bin/mariadb", "--no-defaults", "--socket=/run/mysqld/mysqld.sock", "-e",
		"CREATE DATABASE slurm_acct_db; CREATE USER slurm@localhost IDENTIFIED VIA unix_socket; GRANT ALL ON slurm_acct_db.* TO slurm@localhost;")
	return err
}

func (c *Cluster) writeConf(ctx context.Context) error {
	o := c.opts
	var b strings.Builder
	fmt.Fprintf(&b, `ClusterName=%s
SlurmctldHost=ctl(%s)
SlurmUser=slurm
AuthType=auth/munge
CredType=cred/munge
StateSaveLocation=/var/lib/slurm
SlurmctldPidFile=/run/slurm/slurmctld.pid
SlurmdPidFile=/run/slurm/slurmd-%%n.pid
SlurmdSpoolDir=/mnt/slurmd/%%n
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdLogFile=/var/log/slurm/slurmd-%%n.log
SlurmctldDebug=verbose
DebugFlags=Power
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
GresTypes=gpu
SchedulerType=sched/backfill
KillWait=5
MinJobAge=3600
SlurmdParameters=config_overrides
SlurmdTimeout=300
MessageTimeout=30
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=ctl
AccountingStorageEnforce=associations,qos
`, o.Name, ctlAddr)
	for i := 1; i <= o.OnPrem; i++ {
		fmt.Fprintf(&b, "NodeName=onprem-%d NodeAddr=%s Port=%d CPUs=%d RealMemory=1000 Weight=1\n", i, ctlAddr, 17000+i, o.OnPremCPUs)
	}
	major, err := c.slurmVersion(ctx)
	if err != nil {
		return err
	}
	cgroup := "CgroupAutomount=no\n"
	if major < 23 {
		// Or powered-down cloud nodes are not shown; from 23.02 they are hidden by it.
		b.WriteString("PrivateData=cloud\n")
	} else {
		cgroup = "CgroupPlugin=disabled\n"
	}
	fmt.Fprintf(&b, "PartitionName=onprem Nodes=onprem-[1-%d] Default=YES MaxTime=1-00:00:00\n", o.OnPrem)
	b.WriteString(o.Fragment)
	if o.Midair != "" {
		if err := c.WriteFile(ConfigPath, o.Midair, 0o644); err != nil {
			return err
		}
		for flag, file := range map[string]string{"--slurm-conf": "midair.conf", "--gres-conf": "gres.conf", "--tiers": "midair_tiers.lua"} {
			text, err := c.Run(ctx, HooksDir+"/midair", "slurmconf", flag, "--hooks-dir", HooksDir)
			if err != nil {
				return err
			}
			if err := c.WriteFile("/etc/slurm/"+file, text, 0o644); err != nil {
				return err
			}
		}
		b.WriteString("Include /etc/slurm/midair.conf\n")
		lua, err := os.ReadFile(filepath.Join(o.Programs, "contrib", "job_submit.lua"))
		if err != nil {
			return err
		}
		if err := c.WriteFile("/etc/slurm/job_submit.lua", string(lua), 0o644); err != nil {
			return err
		}
	}
	if err := c.WriteFile(SlurmConf, b.String(), 0o644); err != nil {
		return err
	}
	if err := c.WriteFile("/etc/slurm/cgroup.conf", cgroup, 0o644); err != nil {
		return err
	}
	if err := c.WriteFile("/etc/slurm/slurmdbd.conf", `AuthType=auth/munge
DbdHost=ctl
DbdAddr=`+ctlAddr+`
SlurmUser=slurm
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=slurm
StorageLoc=slurm_acct_db
PidFile=/run/slurm/slurmdbd.pid
LogFile=/var/log/slurm/slurmdbd.log
`, 0o600); err != nil {
		return err
	}
	_, err = c.Run(ctx, "/bin/chown", "slurm:slurm", "/etc/slurm/slurmdbd.conf")
	return err
}

// slurmVersion gives the year of the release, such as 22 for 22.05.
func (c *Cluster) slurmVersion(ctx context.Context) (int, error) {
	out, err := c.Run(ctx, "/usr/sbin/slurmctld", "-V") // needs no slurm.conf, as scontrol does
	if err != nil {
		return 0, err
	}
	var major, minor int
	if _, err := fmt.Sscanf(strings.TrimSpace(out[strings.LastIndex(strings.TrimSpace(out), " ")+1:]), "%d.%d", &major, &minor); err != nil {
		return 0, fmt.Errorf("read slurmctld's version %q: %w", out, err)
	}
	return major, nil
}

func (c *Cluster) startSlurmdbd(ctx context.Context) error {
	if _, err := c.StartDaemon("slurmdbd", nil, "/usr/bin/setpriv", "--reuid=slurm", "--regid=slurm", "--init-groups", "--", "/usr/sbin/slurmdbd", "-D"); err != nil {
		return err
	}
	return WaitFor(ctx, "slurmdbd", func(ctx context.Context) (bool, error) {
		_, err := c.Run(ctx, "/usr/bin/sacctmgr", "-n", "show", "cluster")
		return err == nil, nil
	})
}

func (c *Cluster) fillAccounting(ctx context.Context) error {
	qos := strings.Join(c.opts.QOS, ",")
	cmds := [][]string{
		{"add", "cluster", c.opts.Name},
		{"add", "account", "research", "cluster=" + c.opts.Name},
	}
	if qos != "" {
		cmds = append(cmds, []string{"add", "qos", qos})
	}
	names := make([]string, len(users))
	for i, u := range users {
		names[i] = u.Name
	}
	user := []string{"add", "user", strings.Join(names, ","), "account=research", "cluster=" + c.opts.Name}
	if qos != "" {
		user = append(user, "qos="+qos+",normal")
	}
	for _, args := range append(cmds, user) {
		if _, err := c.Run(ctx, append([]string{"/usr/bin/sacctmgr", "-i"}, args...)...); err != nil {
			return err
		}
	}
	return nil
}

// StartSlurmctld starts slurmctld, also again after it was stopped, and waits
// until it answers.
func (c *Cluster) StartSlurmctld(ctx context.Context) error {
	if _, err := c.StartDaemon("slurmctld", nil, "/usr/sbin/slurmctld", "-D"); err != nil {
		return err
	}
	return WaitFor(ctx, "slurmctld", func(ctx context.Context) (bool, error) {
		_, err := c.Run(ctx, "/usr/bin/scontrol", "ping")
		if err != nil {
			select {
			case <-c.Daemon("slurmctld").Done():
				return false, fmt.Errorf("slurmctld ended: %w", c.Daemon("slurmctld").err)
			default:
			}
		}
		return err == nil, nil
	})
}

// Daemon gives a daemon by its name; nil if it was never started.
func (c *Cluster) Daemon(name string) *Daemon {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.daemons[name]
}

func (c *Cluster) startOnPrem(ctx context.Context) error {
	for i := 1; i <= c.opts.OnPrem; i++ {
		name := fmt.Sprintf("onprem-%d", i)
		if _, err := c.StartDaemon("slurmd-"+name, nil, "/usr/sbin/slurmd", "-D", "-N", name); err != nil {
			return err
		}
	}
	return WaitFor(ctx, "the on-premises nodes to be idle", func(ctx context.Context) (bool, error) {
		out, err := c.Run(ctx, "/usr/bin/sinfo", "-h", "-p", "onprem", "-t", "idle", "-o", "%D")
		return err == nil && strings.TrimSpace(out) == fmt.Sprint(c.opts.OnPrem), nil
	})
}
