package aws_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func hash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func TestScriptsPassShellcheck(t *testing.T) {
	path, err := exec.LookPath("shellcheck")
	if err != nil {
		t.Skip("needs shellcheck: apt-get install shellcheck")
	}
	out, err := exec.Command(path, "user-data.sh").CombinedOutput()
	require.NoError(t, err, string(out))
}

// node is a machine on which user-data.sh runs: with a folder in place of /,
// and stand-ins for the programs that would change this machine.
type node struct {
	t        *testing.T
	root     string
	bin      string
	log      string
	settings map[string]string
}

// standIns write down how they are called, and fail where a file of their name
// says so. What they print is what the script reads of the real ones.
var standIns = map[string]string{
	"systemctl":   `[ "$1" != is-active ] || [ ! -e "$ROOT/fail/slurmd" ]`,
	"systemd-run": "", "hostnamectl": "", "poweroff": "", "chown": "", "munged": "",
	"munge":      "echo MUNGE:credential",
	"nft":        "cat >/dev/null",
	"slurmd":     `echo "slurm 22.05.8"`,
	"journalctl": `echo "error: Unable to register: Zero Bytes were transmitted"`,
	"nvidia-smi": `echo "GPU 0: NVIDIA A10G (UUID: GPU-1)"`,
}

func newNode(t *testing.T, m *imds) *node {
	t.Helper()
	for _, p := range []string{"bash", "curl", "/usr/bin/python3"} {
		if _, err := exec.LookPath(p); err != nil {
			t.Skip("needs " + p)
		}
	}
	n := &node{t: t, root: t.TempDir(), bin: t.TempDir(), settings: map[string]string{
		"IMDS": m.URL, "CONTROLLER": "ctl.example.com:6817", "PAUSE": "0.05", "SETTLE": "2", "FLUSH": "0", "NAMED_WITHIN": "5", "UNTAGGED": "1",
	}}
	n.settings["ROOT"] = n.root
	n.log = filepath.Join(n.root, "calls")
	for name, does := range standIns {
		n.standIn(name, does)
	}
	// It runs beside munge, so its place among the calls says nothing.
	require.NoError(t, os.WriteFile(filepath.Join(n.bin, "unmunge"), []byte("#!/bin/bash\ncat >/dev/null\n"), 0o755))
	n.file("/etc/hosts", "127.0.0.1 localhost\n10.0.0.9 old-name # midair\n")
	n.file("/etc/munge/munge.key", strings.Repeat("k", 128))
	return n
}

func (n *node) standIn(name, does string) {
	n.t.Helper()
	text := "#!/bin/bash\nROOT=" + n.root + "\necho \"" + name + " $*\" >>" + n.log + "\n[ ! -e " + n.root + "/fail/" + name + " ] || exit 1\n" + does + "\n"
	require.NoError(n.t, os.WriteFile(filepath.Join(n.bin, name), []byte(text), 0o755))
}

func (n *node) file(path, text string) {
	n.t.Helper()
	path = filepath.Join(n.root, path)
	require.NoError(n.t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(n.t, os.WriteFile(path, []byte(text), 0o644))
}

func (n *node) read(path string) string {
	n.t.Helper()
	text, err := os.ReadFile(filepath.Join(n.root, path))
	require.NoError(n.t, err)
	return string(text)
}

func (n *node) calls() []string {
	n.t.Helper()
	return strings.Split(strings.TrimSpace(n.read("calls")), "\n")
}

// boot runs the script as cloud-init does, and gives what is on the console.
func (n *node) boot() string {
	n.t.Helper()
	text, err := os.ReadFile("user-data.sh")
	require.NoError(n.t, err)
	script := string(text)
	set := func(name, value string) {
		line := regexp.MustCompile(`(?m)^` + name + `=\S*`)
		require.Len(n.t, line.FindAllString(script, -1), 1, name)
		script = line.ReplaceAllLiteralString(script, name+`="`+value+`"`)
	}
	for name, value := range n.settings {
		set(name, value)
	}
	path := "export PATH="
	require.Equal(n.t, 1, strings.Count(script, path))
	script = strings.Replace(script, path, path+n.bin+":", 1)
	file := filepath.Join(n.root, "part-001")
	require.NoError(n.t, os.WriteFile(file, []byte(script), 0o755))
	out, _ := exec.Command(file).CombinedOutput()
	return string(out)
}

func TestUserDataMakesANode(t *testing.T) {
	n := newNode(t, startIMDS(t))
	n.file("/sys/bus/pci/devices/0000:00:1e.0/vendor", "0x10de\n")
	n.file("/sys/bus/pci/devices/0000:00:1e.0/class", "0x030200\n")
	n.file("/sys/bus/pci/devices/0000:00:05.0/vendor", "0x1d0f\n")
	console := n.boot()
	require.Equal(t, `midair-node: start
midair-node: this is i-0a1b2c3d4e5f60001, g5.xlarge in us-east-1a
midair-node: the image has slurm 22.05.8
midair-node: 1 GPUs
midair-node: waiting for the tag midair:node
midair-node: the node is gpu-spot-7
midair-node: starting slurmd -D -N gpu-spot-7 --conf-server ctl.example.com:6817
midair-node: gpu-spot-7 is up after N s
`, regexp.MustCompile(`after \d+ s`).ReplaceAllString(console, "after N s"))
	require.Equal(t, []string{
		"systemctl stop midair-node-guard.timer",
		`systemd-run --quiet --unit=midair-node-guard --on-active=540s /bin/sh -c echo 'midair-node: FAILED: no node within 540 s; the instance ends itself' >/dev/console; systemctl poweroff`,
		"slurmd -V",
		"systemctl daemon-reload", "systemctl --quiet enable midair-node.service", "systemctl --quiet disable slurmd.service",
		"nvidia-smi -L",
		"nft -f -",
		"hostnamectl set-hostname gpu-spot-7",
		"systemctl daemon-reload", "systemctl restart munge", "munge -n", "systemctl restart slurmd",
		"systemctl is-active --quiet slurmd", "systemctl is-active --quiet slurmd",
		"systemctl stop midair-node-guard.timer",
	}, n.calls())
	require.Equal(t, "127.0.0.1 localhost\n10.0.3.17 gpu-spot-7 # midair\n", n.read("/etc/hosts"))
	require.Equal(t, "preserve_hostname: true\n", n.read("/etc/cloud/cloud.cfg.d/99-midair.cfg"))
	drop := n.read("/etc/systemd/system/slurmd.service.d/midair.conf")
	require.Contains(t, drop, "ConditionPathExists=\n")
	require.Contains(t, drop, "ExecStart=\nExecStart="+n.bin+"/slurmd -D -N gpu-spot-7 --conf-server ctl.example.com:6817\n")
	require.Contains(t, n.read("/etc/systemd/system/midair-node.service"), "ExecStart=/usr/local/sbin/midair-node\nStandardOutput=journal+console\n")
}

// After a stop and a start the service runs the copy, and the node may be
// another one.
func TestAStartedInstanceBecomesTheNodeThatItsTagSays(t *testing.T) {
	m := startIMDS(t)
	n := newNode(t, m)
	n.boot()
	m.items["tags/instance/midair:node"], m.items["local-ipv4"] = "gpu-spot-9", "10.0.3.99"
	out, err := exec.Command(filepath.Join(n.root, "usr/local/sbin/midair-node")).CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "gpu-spot-9 is up")
	require.Equal(t, "127.0.0.1 localhost\n10.0.3.99 gpu-spot-9 # midair\n", n.read("/etc/hosts"))
}

func TestMungesKeyComesFromWhereItIsKept(t *testing.T) {
	text, key := encodedKey(t)
	for service, from := range map[string]string{"ssm": "ssm:/midair/gpu1/munge-key", "secretsmanager": "secretsmanager:midair/gpu1/munge-key"} {
		t.Run(service, func(t *testing.T) {
			_, name, _ := strings.Cut(from, ":")
			s := startSecrets(t, service, map[string]string{name: text + "\n"})
			n := newNode(t, startIMDS(t))
			n.settings["MUNGE_KEY"], n.settings["SECRETS"] = from, s.URL
			console := n.boot()
			require.Contains(t, console, "midair-node: munge's key is from "+from+"\n")
			require.Contains(t, console, "is up after")
			require.True(t, bytes.Equal(key, []byte(n.read("/etc/munge/munge.key"))))
			info, err := os.Stat(filepath.Join(n.root, "/etc/munge/munge.key"))
			require.NoError(t, err)
			require.Equal(t, os.FileMode(0o400), info.Mode().Perm())
			require.Contains(t, n.calls(), "chown munge:munge "+n.root+"/etc/munge/munge.key.new")
		})
	}
}

// Whatever is wrong, the console says what, and the instance ends itself.
func TestAnInstanceThatCannotBecomeANodeSaysWhyAndEnds(t *testing.T) {
	for _, c := range []struct {
		name, says string
		wrong      func(n *node, m *imds)
	}{
		{"never named", "there is no tag midair:node after 1 s", func(n *node, m *imds) { n.settings["NAMED_WITHIN"], m.namedAfter = "1", 1000 }},
		{"tags not in the metadata", "the launch template must have InstanceMetadataTags enabled", func(_ *node, m *imds) { m.untagged = true }},
		{"a name that is none", `the tag midair:node is "gpu;reboot"`, func(_ *node, m *imds) { m.items["tags/instance/midair:node"] = "gpu;reboot" }},
		{"no metadata", "the instance metadata service does not answer", func(n *node, m *imds) { m.Close(); n.settings["PAUSE"] = "0" }},
		{"no key in the image", "the image has no ", func(n *node, _ *imds) { require.NoError(n.t, os.Remove(filepath.Join(n.root, "/etc/munge/munge.key"))) }},
		{"a key from nowhere", `MUNGE_KEY is "s3"`, func(n *node, _ *imds) { n.settings["MUNGE_KEY"] = "s3" }},
		{"no role", "the instance has no role", func(n *node, m *imds) {
			n.settings["MUNGE_KEY"] = "ssm:/k"
			delete(m.items, "iam/security-credentials/")
		}},
		{"no permission", "ssm refuses /k: ", func(n *node, _ *imds) {
			s := startSecrets(n.t, "ssm", nil)
			s.denied = true
			n.settings["MUNGE_KEY"], n.settings["SECRETS"] = "ssm:/k", s.URL
		}},
		{"a key that is not base64", "/k is not base64", func(n *node, _ *imds) {
			n.settings["MUNGE_KEY"], n.settings["SECRETS"] = "ssm:/k", startSecrets(n.t, "ssm", map[string]string{"/k": "k€y"}).URL
		}},
		{"a short key", "/k has 3 bytes", func(n *node, _ *imds) {
			n.settings["MUNGE_KEY"], n.settings["SECRETS"] = "ssm:/k", startSecrets(n.t, "ssm", map[string]string{"/k": "a2V5"}).URL
		}},
		{"jobs could read the role", "the instance metadata cannot be kept from jobs", func(n *node, _ *imds) { n.file("fail/nft", "") }},
		{"no driver", "the instance has 1 NVIDIA GPUs and the image no driver", func(n *node, _ *imds) {
			n.file("/sys/bus/pci/devices/0/vendor", "0x10de\n")
			n.file("/sys/bus/pci/devices/0/class", "0x030200\n")
			require.NoError(n.t, os.Remove(filepath.Join(n.bin, "nvidia-smi")))
		}},
		{"a GPU is missing", "the driver sees 1 of 2 GPUs", func(n *node, _ *imds) {
			for _, d := range []string{"0", "1"} {
				n.file("/sys/bus/pci/devices/"+d+"/vendor", "0x10de\n")
				n.file("/sys/bus/pci/devices/"+d+"/class", "0x030200\n")
			}
		}},
		{"munge is broken", "munge does not work", func(n *node, _ *imds) { n.file("fail/munge", "") }},
		{"slurmd ends", "slurmd has ended: error: Unable to register: Zero Bytes were transmitted", func(n *node, _ *imds) { n.file("fail/slurmd", "") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := startIMDS(t)
			n := newNode(t, m)
			c.wrong(n, m)
			console := n.boot()
			require.Contains(t, console, c.says)
			require.Contains(t, console, "midair-node: FAILED: ")
			require.Contains(t, console, "midair-node: the instance ends itself\n")
			calls := n.calls()
			require.Equal(t, "systemctl poweroff", calls[len(calls)-1])
		})
	}
}

func TestAnInstanceIsKeptOnlyWhereTheAdminSaysSo(t *testing.T) {
	n := newNode(t, startIMDS(t))
	n.file("fail/munge", "")
	n.settings["KEEP_FAILED"] = "yes"
	require.Contains(t, n.boot(), "the instance is kept, and billed")
	require.NotContains(t, n.calls(), "systemctl poweroff")
}

// With the real nft, in a network of its own.
func TestJobsCannotReadTheInstanceMetadata(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, for a network namespace")
	}
	for _, p := range []string{"nft", "unshare", "setpriv", "ip", "curl"} {
		if _, err := exec.LookPath(p); err != nil {
			t.Skip("needs " + p + ": apt-get install nftables util-linux iproute2 curl")
		}
	}
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "role"), []byte("secret"), 0o644))
	script := `set -e
ip link set lo up
ip addr add 169.254.169.254/32 dev lo
/usr/bin/python3 -m http.server --bind 169.254.169.254 --directory "$1" 80 >/dev/null 2>&1 &
server=$!
trap 'kill $server' EXIT
get() { "$@" curl --silent --show-error --max-time 5 http://169.254.169.254/role 2>&1; }
for n in $(seq 100); do get >/dev/null && break; sleep 0.05; done
user() { get setpriv --reuid=65534 --regid=65534 --clear-groups; }
echo "before: user $(user), root $(get)"
. ./user-data.sh
keep_metadata
keep_metadata
set +e
echo "after: user $(user), root $(get)"
`
	out, err := exec.Command("unshare", "--net", "bash", "-c", script, "test", dir).CombinedOutput()
	require.NoError(t, err, string(out))
	require.Contains(t, string(out), "before: user secret, root secret\n")
	require.Regexp(t, `after: user curl: \(7\).*, root secret\n`, string(out))
}
