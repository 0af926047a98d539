package aws_test

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// maxUserData is EC2's limit before base64.
const maxUserData = 16 << 10

type launchTemplate struct {
	LaunchTemplateName string
	LaunchTemplateData struct {
		InstanceInitiatedShutdownBehavior string
		IamInstanceProfile                struct{ Name string }
		MetadataOptions                   struct{ HttpEndpoint, HttpTokens, InstanceMetadataTags string }
		BlockDeviceMappings               []struct{ Ebs map[string]any }
		NetworkInterfaces                 []struct {
			NetworkCardIndex, DeviceIndex int
			InterfaceType                 string
			Groups                        []string
		}
		SecurityGroupIds      []string
		InstanceMarketOptions any
		InstanceType          string
	}
}

func templates(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("launch-template/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	return files
}

// fillTemplate does what README.md's sed does.
func fillTemplate(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	script, err := os.ReadFile("user-data.sh")
	require.NoError(t, err)
	require.LessOrEqual(t, len(script), maxUserData)
	return strings.NewReplacer("AMI_ID", "ami-0a1b2c3d4e5f60001", "SECURITY_GROUP_ID", "sg-0a1b2c3d4e5f60001", "ROOT_DEVICE", "/dev/sda1",
		"NODE_ROLE", "midair-node", "PLACEMENT_GROUP", "midair", "USER_DATA", base64.StdEncoding.EncodeToString(script)).Replace(string(text))
}

func TestLaunchTemplatesHaveWhatMidairReliesOn(t *testing.T) {
	for _, file := range templates(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			var lt launchTemplate
			require.NoError(t, json.Unmarshal([]byte(fillTemplate(t, file)), &lt))
			d := lt.LaunchTemplateData
			require.Equal(t, strings.TrimSuffix(filepath.Base(file), ".json"), lt.LaunchTemplateName)
			require.Equal(t, "terminate", d.InstanceInitiatedShutdownBehavior, "an instance that gives up must end")
			require.Equal(t, "required", d.MetadataOptions.HttpTokens)
			require.Equal(t, "enabled", d.MetadataOptions.InstanceMetadataTags, "the node's name comes by a tag")
			require.NotEmpty(t, d.IamInstanceProfile.Name)
			require.Nil(t, d.InstanceMarketOptions, "midair chooses the market")
			require.Empty(t, d.InstanceType, "midair chooses the type")
			for _, b := range d.BlockDeviceMappings {
				require.Equal(t, "gp3", b.Ebs["VolumeType"])
				require.Equal(t, true, b.Ebs["Encrypted"])
				require.Equal(t, true, b.Ebs["DeleteOnTermination"], "disks are billed")
			}
			// EC2 refuses groups beside interfaces.
			require.NotEqual(t, len(d.NetworkInterfaces) > 0, len(d.SecurityGroupIds) > 0)
			for i, n := range d.NetworkInterfaces {
				require.Equal(t, i, n.NetworkCardIndex)
				require.Equal(t, min(i, 1), n.DeviceIndex)
				require.Equal(t, "efa", n.InterfaceType)
				require.NotEmpty(t, n.Groups)
			}
		})
	}
}

// Debian's botocore has EC2's own description of the call.
func TestLaunchTemplatesAreWhatCreateLaunchTemplateTakes(t *testing.T) {
	if exec.Command("/usr/bin/python3", "-c", "import botocore").Run() != nil {
		t.Skip("needs python3-botocore: apt-get install python3-boto3")
	}
	const check = `
import json, sys, botocore.session, botocore.validate
shape = botocore.session.get_session().get_service_model("ec2").operation_model("CreateLaunchTemplate").input_shape
report = botocore.validate.ParamValidator().validate(json.load(sys.stdin), shape)
sys.exit(report.generate_report() if report.has_errors() else 0)
`
	for _, file := range templates(t) {
		cmd := exec.Command("/usr/bin/python3", "-c", check)
		cmd.Stdin = strings.NewReader(fillTemplate(t, file))
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s: %s", file, out)
	}
}
