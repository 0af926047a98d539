package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/urfave/cli/v2"
)

func TestMain(m *testing.M) {
	cli.HelpFlag = helpFlag() // as main does
	os.Exit(m.Run())
}

// run runs midair as a whole.
func run(args ...string) (string, error) {
	var out bytes.Buffer
	a := app()
	a.Writer, a.ErrWriter, a.ExitErrHandler = &out, &out, func(*cli.Context, error) {}
	err := a.Run(append([]string{"midair"}, args...))
	return out.String(), err
}

// site is a midair.yaml whose Slurm is two shell scripts that answer from files.
type site struct {
	t    *testing.T
	dir  string
	yaml string
}

const fakeScontrol = `#!/bin/sh
cd "$(/usr/bin/dirname "$0")" || exit 1
if [ -e down ]; then echo "slurm_load_node error: Unable to contact slurm controller (connect failure)" >&2; exit 1; fi
case "$*" in
-V) echo "slurm-wlm 22.05.8" ;;
"-a -o show node"*) /bin/cat nodes ;;
*) echo "unexpected: scontrol $*" >&2; exit 1 ;;
esac
`

// fakeSqueue writes the table that -O asks for. A job is a line Field=value|….
const fakeSqueue = `#!/bin/sh
cd "$(/usr/bin/dirname "$0")" || exit 1
if [ -e down ]; then echo "slurm_load_jobs error: Unable to contact slurm controller (connect failure)" >&2; exit 1; fi
for a in "$@"; do
  case "$before" in -O) format=$a ;; -j) ids=$a ;; esac
  before=$a
done
/usr/bin/awk -v format="$format" -v ids=",$ids," '
{ n = split($0, pair, "|"); split("", value)
  for (i = 1; i <= n; i++) { k = index(pair[i], "="); value[substr(pair[i], 1, k-1)] = substr(pair[i], k+1) }
  if (ids != ",," && index(ids, "," value["JobID"] ",") == 0) next
  found = 1; m = split(format, column, ",")
  for (i = 1; i <= m; i++) { split(column[i], c, ":"); v = value[c[1]]; if (c[2] == 0) printf "%s", v; else printf "%s", substr(sprintf("%-" c[2] "s", v), 1, c[2]) }
  print "" }
END { if (!found && ids != ",,") { print "slurm_load_jobs error: Invalid job id specified" > "/dev/stderr"; exit 1 } }
' jobs
`

func newSite(t *testing.T, nodes, jobs []string) site {
	t.Helper()
	dir := t.TempDir()
	s := site{t, dir, filepath.Join(dir, "midair.yaml")}
	yaml := strings.Replace(midairYAML, "{kind: local,", "{kind: local, root: "+dir+"/cloud, slurmd: /bin/true,", 1)
	yaml += fmt.Sprintf("ledger: sqlite://%s/ledger.db\nslurm: {bin_dir: %s}\n", dir, dir)
	for name, text := range map[string]string{
		"midair.yaml": yaml, "nodes": strings.Join(append(nodes, ""), "\n"), "jobs": strings.Join(append(jobs, ""), "\n"),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	for name, text := range map[string]string{"scontrol": fakeScontrol, "squeue": fakeSqueue, "sinfo": "#!/bin/sh\n", "sacct": "#!/bin/sh\n"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755))
	}
	return s
}

func (s site) run(args ...string) (string, error) {
	s.t.Helper()
	return run(append([]string{"-f", s.yaml}, args...)...)
}

func (s site) slurmctldDies() {
	require.NoError(s.t, os.WriteFile(filepath.Join(s.dir, "down"), nil, 0o644))
}

func aNode(name, state string) string {
	return "NodeName=" + name + " Arch=x86_64 CoresPerSocket=1 CPUAlloc=0 CPUTot=1 NodeAddr=10.0.0.1 NodeHostName=" + name + " RealMemory=1024 State=" + state + " ThreadsPerCore=1 Partitions=p "
}

func aJob(id int, state, reason, comment, nodes string) string {
	return fmt.Sprintf("JobID=%d|State=%s|RestartCnt=0|BatchFlag=1|NumNodes=1|TimeLimit=1:00:00|SubmitTime=N/A|EligibleTime=N/A|StartTime=N/A|ArrayTaskID=N/A|UserName=ada|Account=ml|QOS=p2|Partition=p|Feature=(null)|Reason=%s|Name=train|Comment=%s|admin_comment=(null)|NodeList=%s", id, state, reason, comment, nodes)
}

func TestVersionIsWrittenThreeWays(t *testing.T) {
	for _, arg := range []string{"-V", "--version", "version"} {
		out, err := run(arg)
		require.NoError(t, err)
		require.Equal(t, "midair devel\n", out)
	}
	s := newSite(t, nil, nil)
	out, err := s.run("version", "-v")
	require.NoError(t, err)
	require.Contains(t, out, "Slurm 22.05.8\n")
	require.Contains(t, out, "scontrol "+s.dir+"/scontrol\n")
}

func TestHelpOfEveryCommandIsWrittenThreeWays(t *testing.T) {
	var walk func(path []string, commands []*cli.Command)
	walk = func(path []string, commands []*cli.Command) {
		for _, c := range commands {
			path := append(path[:len(path):len(path)], c.Name)
			want := "midair " + strings.Join(path, " ") + " - " + c.Usage
			if c.Name == "help" {
				continue
			}
			ways := [][]string{append(path, "--help"), append([]string{"help"}, path...)}
			if c.Name != "status" {
				ways = append(ways, append(path, "-h"))
			}
			for _, way := range ways {
				out, err := run(way...)
				require.NoError(t, err, way)
				require.Contains(t, out, want, way)
			}
			walk(path, c.Subcommands)
		}
	}
	walk(nil, app().Commands)
	for _, way := range [][]string{{}, {"-h"}, {"--help"}, {"help"}} {
		out, err := run(way...)
		require.NoError(t, err, way)
		require.Contains(t, out, "in-flight refuelling for Slurm", way)
	}
}

func TestWrongCommandLinesAreOneLineThatSaysWhatToDo(t *testing.T) {
	s := newSite(t, []string{aNode("n-1", "IDLE+CLOUD")}, nil)
	for args, want := range map[string]string{
		"stat":                         `no command "stat"; did you mean "status"? midair help lists them all`,
		"xyzzy":                        `no command "xyzzy"; midair help lists them all`,
		"help xyzzy":                   `no command "xyzzy"; midair help lists them all`,
		"help local fault st":          `no command "st"; did you mean "set"? midair help local fault lists them all`,
		"local xyzzy":                  `no command "xyzzy"; midair local lists them all`,
		"config chek":                  `no command "chek"; did you mean "check"? midair config lists them all`,
		"-x":                           `no option -x; see midair --help`,
		"status --frmat node":          `no option --frmat; did you mean "format"? see midair status --help`,
		"local fault set --xyzzy":      `no option --xyzzy; see midair local fault set --help`,
		"status -n":                    `flag needs an argument: -n; see midair status --help`,
		"status nodes --json":          `option --json comes too late: write options before the arguments, as in midair status --json …`,
		"why 5 --json":                 `option --json comes too late: write options before the arguments, as in midair why --json …`,
		"status knodes":                `status: no section "knodes": there are pools, nodes, launches, jobs, passed-over`,
		"status -o node":               `status: columns are chosen for one section: name one of pools, nodes, launches, jobs, passed-over`,
		"status -o nod nodes":          `status: no column "nod": nodes has node, pool, state, instance, offering, address, age, reason`,
		"status --json nodes":          `status: --json gives everything; leave out sections, -o and -h`,
		"status -n n-[1":               `status: hostlist "n-[1": position 3: [ without ]; add the ]`,
		"status -n other":              `status: node "other" is in no pool of ` + s.yaml + `; sinfo -n other shows what Slurm has`,
		"why":                          `why: want one job id, such as midair why 4711, of an array's task its own (squeue -O JobID); got ""`,
		"why 5_1":                      `why: want one job id, such as midair why 4711, of an array's task its own (squeue -O JobID); got "5_1"`,
		"why 4711":                     `job 4711: neither Slurm nor midair's ledger knows this job`,
		"reconcile":                    `reconcile: only --dry-run is done by hand; the controller reconciles every reconcile.every of midair.yaml`,
		"version 2":                    `midair version takes no arguments, got "2"`,
		"controller now":               `midair controller takes no arguments, got "now"`,
		"reconcile --dry-run node-001": `midair reconcile takes no arguments, got "node-001"`,
	} {
		out, err := s.run(strings.Fields(args)...)
		require.EqualError(t, err, want, "midair "+args)
		require.Empty(t, out, "midair "+args)
	}
}

func TestFileThatIsNotThereIsNamed(t *testing.T) {
	for _, args := range []string{"status", "why 5", "reconcile --dry-run", "controller", "version -v"} {
		_, err := run(append([]string{"-f", "/nowhere/midair.yaml"}, strings.Fields(args)...)...)
		require.EqualError(t, err, "read configuration: open /nowhere/midair.yaml: no such file or directory; create it, or name another with --config or MIDAIR_CONFIG", args)
	}
}

func TestSlurmctldThatIsDownIsSaidInOneLine(t *testing.T) {
	s := newSite(t, nil, nil)
	s.slurmctldDies()
	for args, want := range map[string]string{
		"status":              "ask Slurm for the pools' nodes: show nodes: run scontrol -a -o show node n-[1-3]: slurm_load_node error: Unable to contact slurm controller (connect failure)",
		"reconcile --dry-run": "ask Slurm for the pools' nodes: show nodes: run scontrol",
		"why 5":               "ask Slurm for job 5: show jobs: run squeue",
	} {
		out, err := s.run(strings.Fields(args)...)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, "Unable to contact slurm controller")
		require.NotContains(t, err.Error(), "\n")
		require.Empty(t, out)
	}
}
