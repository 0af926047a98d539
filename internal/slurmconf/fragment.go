// Package slurmconf writes what a site gives to Slurm so that midair's pools
// exist there: a fragment of slurm.conf, gres.conf, and the tier table of
// contrib/job_submit.lua. It only renders a checked configuration; the same
// configuration gives the same text.
package slurmconf

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/midair-hpc/midair/internal/config"
)

// HooksDir is where the packages install the programs that slurmctld runs:
// /usr/libexec is for programs that other programs call (FHS 3.0, 4.7).
const HooksDir = "/usr/libexec/midair"

// SlurmConf renders the fragment that slurm.conf includes. hooksDir is the
// folder of midair-resume, midair-suspend and midair-slurmctld-hook; empty:
// HooksDir. The parameters and what the comments say of versions were read in
// the sources of Slurm 22.05 to 25.05.
func SlurmConf(cfg *config.Config, hooksDir string) string {
	if hooksDir == "" {
		hooksDir = HooksDir
	}
	var b strings.Builder
	fmt.Fprintf(&b, fragmentHead, cfg.Cluster, cfg.Path)
	programs(&b, cfg, hooksDir)
	resume, suspend := longest(cfg.Pools)
	fmt.Fprintf(&b, powerSaving, seconds(resume), seconds(suspend))
	b.WriteString(jobs)
	if names := gresNames(cfg.Pools); len(names) > 0 {
		fmt.Fprintf(&b, gresTypes, strings.Join(names, ","))
	}
	if len(cfg.Pools) > 0 {
		b.WriteString(weights)
	}
	for i := range cfg.Pools {
		pool(&b, cfg, &cfg.Pools[i])
	}
	return b.String()
}

const fragmentHead = `# midair: cloud nodes of cluster %s, for Slurm 22.05 and later.
# Made from %s by "midair slurmconf --slurm-conf"; make it anew after a change
# there, copy it to every host (not needed with configless), and include it:
#   Include /etc/slurm/midair.conf
# Slurm keeps one value per parameter: where slurm.conf sets one of these too,
# slurmctld takes the last and logs "specified more than once". Leave one line
# then, with both values where the parameter is a list.

`

func programs(b *strings.Builder, cfg *config.Config, dir string) {
	hook := path.Join(dir, "midair-slurmctld-hook")
	own := func(program, key string) {
		if program != "" {
			fmt.Fprintf(b, "# It runs %s as well (hooks.%s of midair.yaml).\n", program, key)
		} else {
			fmt.Fprintf(b, "# A program of your own goes into midair.yaml, hooks.%s, and is run as well.\n", key)
		}
	}
	fmt.Fprintf(b, `# Holds a job until its cloud nodes have registered, at most %s: slurmctld then
# starts the job at once and not at its next sweep, up to 30 s later. Leave
# PrologEpilogTimeout unset, or longer than that.
`, cfg.Hooks.WaitLimit)
	own(cfg.Hooks.PrologSlurmctld, "prolog_slurmctld")
	fmt.Fprintf(b, "PrologSlurmctld=%s\n", hook)
	own(cfg.Hooks.EpilogSlurmctld, "epilog_slurmctld")
	fmt.Fprintf(b, "EpilogSlurmctld=%s\n\n", hook)
	fmt.Fprintf(b, `# They record the request and exit; midair's controller does the work. SlurmUser
# must be able to execute them, and only root to write them.
ResumeProgram=%s
SuspendProgram=%s
ResumeFailProgram=%s

`, path.Join(dir, "midair-resume"), path.Join(dir, "midair-suspend"), hook)
}

const powerSaving = `# 0 is no limit: all nodes of a job must come in one call to be bought together.
ResumeRate=0
SuspendRate=0
# The longest of the pools. Slurm kills the programs after that time (23.02 on).
ResumeTimeout=%d
SuspendTimeout=%d
# Nodes on the premises stay up; the pools' partitions below set their own time.
SuspendTime=INFINITE

# idle_on_node_suspend: a node that failed is usable again after power-down.
# cloud_reg_addrs: a node's old address is forgotten at power-down. Built in from
#   23.11 on, where slurmctld asks you to remove the word.
# power_save_interval, power_save_min_interval: look for nodes to start or stop
#   every 2 s and not every 10 s.
SlurmctldParameters=idle_on_node_suspend,cloud_reg_addrs,power_save_interval=2,power_save_min_interval=0
# Addresses change with every start of a node. From 23.11 on: remove the line.
CommunicationParameters=NoAddrCache
# slurmctld talks to each node itself, as nodes do not know each other's changing
# addresses. Built in for cloud nodes from 23.11 on: remove the line there.
TreeWidth=65533
# A node that registers after it was set down for being late is used.
ReturnToService=2
# Up to 22.05 sinfo and scontrol hide powered-down cloud nodes, even from root. To
# see them there, add "cloud" to your PrivateData, which is a list and whose
# other words hide things; from 23.02 on they are always shown.
#PrivateData=cloud

`

const jobs = `# A job that loses its node goes back into the queue (Slurm's default; needed).
JobRequeue=1
# Reads job_submit.lua beside slurm.conf, which gives a job the partitions of its
# QOS's tier.
JobSubmitPlugins=lua
`

const gresTypes = `# The pools have Gres, so your GresTypes must list: %s
`

const weights = `
# Weight: Slurm takes the lowest first. Up to 22.05 it has no effect among nodes
# that are powered down; there the order of a job's partitions decides.
`

func pool(b *strings.Builder, cfg *config.Config, p *config.Pool) {
	nodes := nodeList(p)
	fmt.Fprintf(b, "\n# Pool %s, bought from %s: %d nodes.\n", p.Name, p.Provider, len(p.NodeNames))
	fmt.Fprintf(b, "NodeName=%s CPUs=%d RealMemory=%d", nodes, p.Node.CPUs, p.Node.MemoryMiB)
	if len(p.Node.Gres) > 0 {
		list := make([]string, len(p.Node.Gres))
		for i, g := range p.Node.Gres {
			list[i] = gresText(g)
		}
		fmt.Fprintf(b, " Gres=%s", strings.Join(list, ","))
	}
	if len(p.Node.Features) > 0 {
		fmt.Fprintf(b, " Feature=%s", strings.Join(p.Node.Features, ","))
	}
	fmt.Fprintf(b, " Weight=%d State=CLOUD\n", p.Weight)
	if qos := buyers(cfg, p.Name); len(qos) > 0 {
		fmt.Fprintf(b, "# Tiers bring QOS %s here. AllowQos=%s would keep every other QOS out.\n", strings.Join(qos, ", "), strings.Join(qos, ","))
	} else {
		b.WriteString("# No tier of midair.yaml brings jobs here.\n")
	}
	fmt.Fprintf(b, "PartitionName=%s Nodes=%s State=UP SuspendTime=%d ResumeTimeout=%d SuspendTimeout=%d\n",
		p.Name, nodes, seconds(p.SuspendTime), seconds(p.ResumeTimeout), seconds(p.SuspendTimeout))
}

// nodeList gives the pool's hostlist as written, without blanks, at which a
// line of slurm.conf would be cut.
func nodeList(p *config.Pool) string {
	return strings.Join(strings.FieldsFunc(p.Nodes, func(r rune) bool { return r == ',' || unicode.IsSpace(r) }), ",")
}

// buyers gives the QOSes whose tier lists the partition, in file order.
func buyers(cfg *config.Config, partition string) []string {
	var qos []string
	for _, t := range cfg.Tiers {
		if slices.Contains(t.Partitions, partition) {
			qos = append(qos, t.QOS...)
		}
	}
	return qos
}

// longest gives the longest time-outs of the pools, or Slurm's defaults where
// there is no pool.
func longest(pools []config.Pool) (resume, suspend time.Duration) {
	resume, suspend = 60*time.Second, 30*time.Second
	for i, p := range pools {
		if i == 0 {
			resume, suspend = p.ResumeTimeout, p.SuspendTimeout
		}
		resume, suspend = max(resume, p.ResumeTimeout), max(suspend, p.SuspendTimeout)
	}
	return resume, suspend
}

// seconds rounds up: a time-out that is a little long is harmless, one that is
// short is not.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }
