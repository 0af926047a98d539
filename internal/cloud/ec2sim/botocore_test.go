package ec2sim_test

import (
	"net/http/httptest"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/cloud/ec2sim"
)

// python finds a Python that has botocore; Debian's is preferred.
func python(t *testing.T) string {
	t.Helper()
	for _, p := range []string{"/usr/bin/python3", "python3"} {
		if exec.Command(p, "-c", "import botocore").Run() == nil {
			return p
		}
	}
	t.Skip("no Python with botocore; install python3-botocore")
	return ""
}

func TestSecondClientAgrees(t *testing.T) {
	sim, err := ec2sim.New(ec2sim.Options{Seed: 3})
	require.NoError(t, err)
	defer sim.Close()
	server := httptest.NewServer(sim)
	defer server.Close()
	c := ec2sim.DefaultCredential
	cmd := exec.Command(python(t), append([]string{"testdata/second_client.py", server.URL, c.AccessKeyID, c.SecretAccessKey}, ec2sim.Actions()...)...)
	cmd.Env = append(os.Environ(), "AWS_CONFIG_FILE=/nonexistent", "AWS_SHARED_CREDENTIALS_FILE=/nonexistent", "AWS_EC2_METADATA_DISABLED=true", "NO_PROXY=*")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}
