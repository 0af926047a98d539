package metal_test

import (
	"net/http/httptest"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/cell/celltest"
	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/cloud/cells"
	"github.com/midair-hpc/midair/internal/cloud/ec2sim"
	"github.com/midair-hpc/midair/internal/cloud/ec2sim/metal"
)

func TestMain(m *testing.M) { celltest.Main(m) }

// open makes a stand-in on real cells, or goes on with the one of that folder.
func open(t *testing.T, dir string) *ec2sim.Sim {
	t.Helper()
	cat := ec2sim.DefaultCatalogue()
	m, err := metal.New(metal.Options{
		Root: dir, Network: cat.VPC.CIDR, InitPath: celltest.InitPath(t),
		Slurmd: cells.Slurmd{Argv: []string{"/bin/sh", "-c", "echo up as %n, host $(hostname), $(ls /dev/nvidia* | wc -l) GPUs, $(stat -c %F /dev/nvidia0); test -d /dev/pts && exec sleep 1000"}},
	})
	require.NoError(t, err)
	s, err := ec2sim.New(ec2sim.Options{Catalogue: cat, Machines: m, StateDir: dir, AnySignature: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// call makes a call; args are name, value, name, value…
func call(t *testing.T, s *ec2sim.Sim, action string, args ...string) {
	t.Helper()
	v := url.Values{"Action": {action}, "Version": {"2016-11-15"}}
	for i := 0; i < len(args); i += 2 {
		v.Set(args[i], args[i+1])
	}
	r := httptest.NewRequest("POST", "/", strings.NewReader(v.Encode()))
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+ec2sim.DefaultCredential.AccessKeyID+"/20260301/us-east-1/ec2/aws4_request, Signature=0")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	require.Equal(t, 200, w.Code, w.Body.String())
}

func launch(t *testing.T, s *ec2sim.Sim, node string) ec2sim.Info {
	t.Helper()
	call(t, s, "RunInstances", "LaunchTemplate.LaunchTemplateName", "midair", "InstanceType", "g5.xlarge", "SubnetId", "subnet-0a1b2c3d4e5f6000a", "MinCount", "1", "MaxCount", "1")
	list := s.Instances()
	i := list[len(list)-1]
	call(t, s, "CreateTags", "ResourceId.1", i.ID, "Tag.1.Key", cloud.TagNode, "Tag.1.Value", node)
	return i
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, 20*time.Second, 5*time.Millisecond, what)
}

func consoleHas(t *testing.T, s *ec2sim.Sim, dir, id, text string) {
	t.Helper()
	eventually(t, "the console has "+text, func() bool {
		out, err := exec.Command("cat", filepath.Join(dir, "console", id+".log")).Output()
		return err == nil && strings.Contains(string(out), text)
	})
}

func TestInstanceIsAMachineWithItsAddressAndName(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sim")
	s := open(t, dir)
	i := launch(t, s, "n-1")
	consoleHas(t, s, dir, i.ID, "up as n-1, host n-1, 1 GPUs, character special file")
	require.NoFileExists(t, "/dev/nvidia0", "the device is the machine's own")
	require.Len(t, celltest.Inits(t), 1)
	out, err := exec.Command("/bin/bash", "-c", "exec 3<>/dev/tcp/"+i.Addr+"/9").CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "Connection refused", "its network answers")

	call(t, s, "TerminateInstances", "InstanceId.1", i.ID)
	eventually(t, "it ends", func() bool { return s.Instances()[0].State == cloud.Terminated })
	require.Empty(t, celltest.Inits(t))
	n, err := s.Destroy(t.Context())
	require.NoError(t, err)
	require.Zero(t, n)
	require.NoDirExists(t, dir)
}

func TestMachinesOutliveTheStandInAndEndWithItsDestruction(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sim")
	s := open(t, dir)
	a, b := launch(t, s, "n-1"), launch(t, s, "n-2")
	consoleHas(t, s, dir, a.ID, "up as n-1")
	consoleHas(t, s, dir, b.ID, "up as n-2")
	eventually(t, "both are recorded", func() bool { return s.Instances()[0].Machine && s.Instances()[1].Machine })
	require.NoError(t, s.Close())
	require.Len(t, celltest.Inits(t), 2)

	s = open(t, dir)
	call(t, s, "TerminateInstances", "InstanceId.1", a.ID)
	eventually(t, "it ends", func() bool { return s.Instances()[0].State == cloud.Terminated })
	require.Len(t, celltest.Inits(t), 1)
	n, err := s.Destroy(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.Empty(t, celltest.Inits(t))
	require.NoDirExists(t, dir)
}
