package aws_test

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// words is one word or a list of them, as policies have it.
type words []string

func (w *words) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*w = words{one}
		return nil
	}
	return json.Unmarshal(b, (*[]string)(w))
}

type statement struct {
	Sid, Effect string
	Principal   map[string]words
	Action      words
	Resource    words
	Condition   map[string]map[string]words
}

type policy struct {
	Version   string
	Statement []statement
}

var filled = strings.NewReplacer("REGION", "us-east-1", "ACCOUNT_ID", "111122223333", "CLUSTER", "gpu1",
	"LAUNCH_TEMPLATE_ID", "lt-0a1b2c3d4e5f60001", "NODE_ROLE", "midair-node")

func load(t *testing.T, file string) policy {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("iam", file))
	require.NoError(t, err)
	d := json.NewDecoder(strings.NewReader(filled.Replace(string(text))))
	d.DisallowUnknownFields()
	var p policy
	require.NoError(t, d.Decode(&p), file)
	return p
}

func policyFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("iam/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for i := range files {
		files[i] = filepath.Base(files[i])
	}
	return files
}

func TestEveryPolicyIsWellFormedAndNamesResources(t *testing.T) {
	arn := regexp.MustCompile(`^arn:aws:[a-z0-9]+:(us-east-1)?:(111122223333)?:[^:].*$`)
	for _, file := range policyFiles(t) {
		p := load(t, file)
		require.Equal(t, "2012-10-17", p.Version, file)
		sids := map[string]bool{}
		for _, s := range p.Statement {
			require.Equal(t, "Allow", s.Effect)
			require.NotEmpty(t, s.Action)
			require.False(t, sids[s.Sid], "%s: Sid %s twice", file, s.Sid)
			sids[s.Sid] = true
			for _, a := range s.Action {
				require.NotContains(t, a, "*", "%s: %s", file, s.Sid)
			}
			for _, r := range s.Resource {
				if r == "*" {
					for _, a := range s.Action {
						require.Regexp(t, `:(Describe|Get|List)`, a, "%s: %s on all resources", file, s.Sid)
					}
					continue
				}
				require.Regexp(t, arn, r, "%s: %s", file, s.Sid)
			}
		}
	}
}

func actions(p policy) []string {
	var all []string
	for _, s := range p.Statement {
		all = append(all, s.Action...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// sdkOperations gives a service's operations from the SDK's sources.
func sdkOperations(t *testing.T, service string) map[string]bool {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/aws/aws-sdk-go-v2/service/"+service).Output()
	require.NoError(t, err)
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "api_op_*.go"))
	require.NoError(t, err)
	require.NotEmpty(t, files, service)
	ops := map[string]bool{}
	for _, f := range files {
		ops[strings.TrimSuffix(strings.TrimPrefix(filepath.Base(f), "api_op_"), ".go")] = true
	}
	return ops
}

// botocoreOperations gives them from Debian's python3-botocore; nil: it is not
// installed.
func botocoreOperations(t *testing.T, service string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob("/usr/lib/python3/dist-packages/botocore/data/" + service + "/*/service-2.json")
	require.NoError(t, err)
	if len(files) == 0 {
		return nil
	}
	text, err := os.ReadFile(files[len(files)-1])
	require.NoError(t, err)
	var model struct{ Operations map[string]json.RawMessage }
	require.NoError(t, json.Unmarshal(text, &model))
	ops := map[string]bool{}
	for op := range maps.Keys(model.Operations) {
		ops[op] = true
	}
	return ops
}

func TestEveryActionIsOneThatAWSHas(t *testing.T) {
	known := map[string]map[string]bool{}
	for _, s := range []string{"ec2", "servicequotas", "pricing"} {
		known[s] = sdkOperations(t, s)
	}
	for _, s := range []string{"iam", "ssm", "secretsmanager", "sts"} {
		known[s] = botocoreOperations(t, s)
	}
	for _, file := range policyFiles(t) {
		for _, a := range actions(load(t, file)) {
			service, op, ok := strings.Cut(a, ":")
			require.True(t, ok, a)
			ops, ours := known[service]
			require.True(t, ours, "%s: %s", file, a)
			if ops == nil {
				t.Logf("%s is not checked: needs python3-botocore", a)
				continue
			}
			// A permission without a call of its own.
			if a != "iam:PassRole" {
				require.True(t, ops[op], "%s: %s", file, a)
			}
		}
	}
}

// called gives the permissions of the calls in internal/cloud/aws: every call
// of the SDK takes an Input named after its operation.
func called(t *testing.T) map[string]bool {
	t.Helper()
	files, err := filepath.Glob("../../internal/cloud/aws/*.go")
	require.NoError(t, err)
	ops := map[string]map[string]bool{}
	for _, s := range []string{"ec2", "servicequotas", "pricing", "sts"} {
		ops[s] = sdkOperations(t, s)
	}
	all := map[string]bool{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		require.NoError(t, err)
		ast.Inspect(f, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if pkg, ok := sel.X.(*ast.Ident); ok {
				if op := strings.TrimSuffix(sel.Sel.Name, "Input"); op != sel.Sel.Name && ops[pkg.Name][op] {
					all[pkg.Name+":"+op] = true
				}
			}
			return true
		})
	}
	delete(all, "sts:GetCallerIdentity") // everybody may
	return all
}

func TestTheControllersPolicyIsWhatTheCodeCalls(t *testing.T) {
	calls := called(t)
	if len(calls) == 0 {
		t.Skip("internal/cloud/aws calls nothing yet")
	}
	granted := actions(load(t, "controller.json"))
	for _, a := range slices.Sorted(maps.Keys(calls)) {
		require.Contains(t, granted, a, "internal/cloud/aws calls it")
	}
	// What other calls need beside their own permission.
	implied := []string{"ec2:CreateTags", "iam:CreateServiceLinkedRole", "iam:PassRole"}
	for _, a := range granted {
		require.True(t, calls[a] || slices.Contains(implied, a), "%s is granted, and internal/cloud/aws does not call it", a)
	}
}

// request is one question to a policy: AWS asks it for every resource that a
// call touches.
type request struct {
	action, resource string
	context          map[string]words
}

// match is IAM's: * is any text, ? any character.
func match(pattern, s string) bool {
	quoted := regexp.QuoteMeta(pattern)
	quoted = strings.NewReplacer(`\*`, `.*`, `\?`, `.`).Replace(quoted)
	return regexp.MustCompile("^" + quoted + "$").MatchString(s)
}

// allows evaluates a policy of Allow statements, with the condition operators
// that ours use.
func (p policy) allows(r request) bool {
	return slices.ContainsFunc(p.Statement, func(s statement) bool {
		if !slices.Contains(s.Action, r.action) || !slices.ContainsFunc(s.Resource, func(x string) bool { return match(x, r.resource) }) {
			return false
		}
		for operator, conditions := range s.Condition {
			for key, want := range conditions {
				have, there := r.context[key]
				switch operator {
				case "StringEquals":
					if !there || !slices.Contains(want, have[0]) {
						return false
					}
				case "ForAllValues:StringNotEquals":
					if slices.ContainsFunc(have, func(v string) bool { return slices.Contains(want, v) }) {
						return false
					}
				default:
					panic("no such operator here: " + operator)
				}
			}
		}
		return true
	})
}

const ours = "arn:aws:ec2:us-east-1:111122223333:"

func TestTheControllerMayDoItsWorkAndNothingElse(t *testing.T) {
	p := load(t, "controller.json")
	tag := func(kind, cluster string) map[string]words {
		return map[string]words{kind + "/midair:cluster": {cluster}, "aws:RequestedRegion": {"us-east-1"}}
	}
	with := func(c map[string]words, more map[string]words) map[string]words {
		c = maps.Clone(c)
		maps.Copy(c, more)
		return c
	}
	mine, theirs := tag("aws:ResourceTag", "gpu1"), tag("aws:ResourceTag", "gpu2")
	asked, askedOther := tag("aws:RequestTag", "gpu1"), tag("aws:RequestTag", "gpu2")
	const instance = ours + "instance/i-0a1b2c3d4e5f60001"
	for _, c := range []struct {
		name    string
		allowed bool
		request
	}{
		{"launch from the template", true, request{"ec2:RunInstances", ours + "launch-template/lt-0a1b2c3d4e5f60001", nil}},
		{"launch from another template", false, request{"ec2:RunInstances", ours + "launch-template/lt-0a1b2c3d4e5f60002", nil}},
		{"fleet from another template", false, request{"ec2:CreateFleet", ours + "launch-template/lt-0a1b2c3d4e5f60002", nil}},
		{"launch with the tag", true, request{"ec2:RunInstances", ours + "instance/*", asked}},
		{"launch with another cluster's tag", false, request{"ec2:RunInstances", ours + "instance/*", askedOther}},
		{"launch without the tag", false, request{"ec2:RunInstances", ours + "instance/*", nil}},
		{"fleet with the tag", true, request{"ec2:CreateFleet", ours + "instance/*", asked}},
		{"fleet without the tag", false, request{"ec2:CreateFleet", ours + "instance/*", nil}},
		{"disk without the tag", false, request{"ec2:RunInstances", ours + "volume/*", nil}},
		{"launch in another region", false, request{"ec2:RunInstances", "arn:aws:ec2:eu-west-1:111122223333:instance/*", asked}},
		{"launch of a public image", true, request{"ec2:RunInstances", "arn:aws:ec2:us-east-1::image/ami-0a1b2c3d4e5f60001", nil}},
		{"launch into a reservation", true, request{"ec2:RunInstances", ours + "capacity-reservation/cr-0a1b2c3d4e5f60001", nil}},
		{"tag in RunInstances", true, request{"ec2:CreateTags", ours + "instance/*", with(asked, map[string]words{"ec2:CreateAction": {"RunInstances"}, "aws:TagKeys": {"midair:cluster"}})}},
		{"tag in CreateFleet", true, request{"ec2:CreateTags", ours + "volume/*", with(asked, map[string]words{"ec2:CreateAction": {"CreateFleet"}, "aws:TagKeys": {"midair:cluster"}})}},
		{"tag as another cluster in RunInstances", false, request{"ec2:CreateTags", ours + "instance/*", with(askedOther, map[string]words{"ec2:CreateAction": {"RunInstances"}})}},
		{"name an instance", true, request{"ec2:CreateTags", instance, with(mine, map[string]words{"aws:TagKeys": {"Name", "midair:node", "midair:job"}})}},
		{"name another cluster's instance", false, request{"ec2:CreateTags", instance, with(theirs, map[string]words{"aws:TagKeys": {"Name"}})}},
		{"take an instance over by its tag", false, request{"ec2:CreateTags", instance, with(asked, map[string]words{"aws:TagKeys": {"midair:cluster"}})}},
		{"give an instance away by its tag", false, request{"ec2:CreateTags", instance, with(mine, map[string]words{"aws:TagKeys": {"Name", "midair:cluster"}})}},
		{"tag a subnet", false, request{"ec2:CreateTags", ours + "subnet/subnet-0a1b2c3d4e5f6000a", mine}},
		{"terminate", true, request{"ec2:TerminateInstances", instance, mine}},
		{"terminate another cluster's", false, request{"ec2:TerminateInstances", instance, theirs}},
		{"terminate what has no tag", false, request{"ec2:TerminateInstances", instance, nil}},
		{"stop", true, request{"ec2:StopInstances", instance, mine}},
		{"start another cluster's", false, request{"ec2:StartInstances", instance, theirs}},
		{"read a console", true, request{"ec2:GetConsoleOutput", instance, mine}},
		{"read another's console", false, request{"ec2:GetConsoleOutput", instance, theirs}},
		{"list", true, request{"ec2:DescribeInstances", "*", mine}},
		{"list elsewhere", false, request{"ec2:DescribeInstances", "*", map[string]words{"aws:RequestedRegion": {"eu-west-1"}}}},
		{"ask the price list, which is elsewhere", true, request{"pricing:GetProducts", "*", map[string]words{"aws:RequestedRegion": {"us-east-1"}}}},
		{"pass the nodes' role to EC2", true, request{"iam:PassRole", "arn:aws:iam::111122223333:role/midair-node", map[string]words{"iam:PassedToService": {"ec2.amazonaws.com"}}}},
		{"pass it to another service", false, request{"iam:PassRole", "arn:aws:iam::111122223333:role/midair-node", map[string]words{"iam:PassedToService": {"lambda.amazonaws.com"}}}},
		{"pass another role", false, request{"iam:PassRole", "arn:aws:iam::111122223333:role/admin", map[string]words{"iam:PassedToService": {"ec2.amazonaws.com"}}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.allowed, p.allows(c.request), fmt.Sprint(c.request))
		})
	}
}

func TestNodesMayReadOneSecretAtMost(t *testing.T) {
	for _, file := range policyFiles(t) {
		if ok, _ := path.Match("node-munge-*.json", file); !ok {
			continue
		}
		p := load(t, file)
		require.Len(t, p.Statement, 1)
		require.Len(t, p.Statement[0].Action, 1)
		require.Len(t, p.Statement[0].Resource, 1)
		require.Contains(t, p.Statement[0].Resource[0], "midair/gpu1/munge-key")
	}
}
