package ec2sim

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// moduleDir finds the source of a module that the build has, without importing
// it: the EC2 client alone takes a minute to compile.
func moduleDir(t *testing.T, module string) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil || strings.TrimSpace(string(out)) == "" {
		t.Skipf("the source of %s is not here: %v", module, err)
	}
	return strings.TrimSpace(string(out))
}

// The SDK has one frozen request for each action, with every parameter in it.
func TestEveryParameterOfTheSDKIsKnown(t *testing.T) {
	dir := moduleDir(t, "github.com/aws/aws-sdk-go-v2/service/ec2")
	s, err := New(Options{})
	require.NoError(t, err)
	for action := range readers {
		t.Run(action, func(t *testing.T) {
			b, err := os.ReadFile(filepath.Join(dir, "request_snapshot", action+".request.snap"))
			require.NoError(t, err)
			parts := strings.Split(string(b), "\n\n")
			values, err := url.ParseQuery(strings.TrimSpace(strings.ReplaceAll(parts[len(parts)-1], "\n", "")))
			require.NoError(t, err)
			require.Equal(t, action, values.Get("Action"))
			f, e := parseForm(values)
			require.Nil(t, e)
			c := &call{form: f, params: canonical(values), dryRun: f.bool("DryRun")}
			readers[action](s, c)
			require.Empty(t, f.unread())
		})
	}
}

func FuzzParseForm(f *testing.F) {
	f.Add("Action=RunInstances&MinCount=1&MaxCount=2&TagSpecification.1.Tag.1.Key=a")
	f.Add("Action=CreateFleet&LaunchTemplateConfigs.1.Overrides.2.InstanceType=p5.48xlarge&Type=instant")
	f.Add("Action=DescribeInstances&Filter.1.Name=tag:a&Filter.1.Value.1=*&InstanceId.1.1=x&InstanceId.=")
	f.Add("Action=DescribeSpotPriceHistory&StartTime=x&MaxResults=99999999999&NextToken=LTE")
	s, err := New(Options{})
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, query string) {
		values, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		form, e := parseForm(values)
		if e != nil {
			return
		}
		for _, name := range form.unread() {
			require.Contains(t, values, name)
		}
		for _, read := range readers {
			form, e := parseForm(values)
			require.Nil(t, e)
			read(s, &call{form: form})
			for _, name := range form.unread() {
				require.Contains(t, values, name)
			}
		}
	})
}

func TestPatternsOfFilters(t *testing.T) {
	for _, tt := range []struct {
		pattern, s string
		want       bool
	}{
		{"a", "a", true}, {"a", "ab", false}, {"a*", "ab", true}, {"*b", "ab", true}, {"a?c", "abc", true}, {"a?c", "ac", false},
		{"*", "", true}, {"*a*a*", "banana", true}, {"*x*", "banana", false}, {`\*`, "*", true}, {`\*`, "a", false}, {"a**", "a", true}, {"p5.*", "p5.48xlarge", true},
	} {
		require.Equal(t, tt.want, wild(tt.pattern, tt.s), "%s ~ %s", tt.pattern, tt.s)
	}
}

func TestBuiltinCatalogueIsGood(t *testing.T) {
	c := DefaultCatalogue()
	for _, typ := range c.Types {
		for _, spot := range []bool{false, true} {
			require.NotEmpty(t, quotaOf(typ.Name, spot).Code, typ.Name)
		}
	}
}
