package main

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/urfave/cli/v2"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/cloud/ec2sim"
)

// runEC2Sim runs midair ec2sim against a stand-in.
func runEC2Sim(t *testing.T, at string, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	a := &cli.App{Name: "midair", Commands: []*cli.Command{ec2simCommand()}, Writer: &out, ErrWriter: &out, ExitErrHandler: func(*cli.Context, error) {}}
	err := a.Run(append([]string{"midair", "ec2sim", "--url", at}, args...))
	return out.String(), err
}

// serveEC2Sim serves a stand-in until the test ends, or it is stopped.
func serveEC2Sim(t *testing.T) (sim *ec2sim.Sim, at string, stopped <-chan error) {
	t.Helper()
	sim, err := ec2sim.New(ec2sim.Options{Seed: 1, AnySignature: true})
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- serveSim(ctx, l, sim, slog.New(slog.DiscardHandler)); close(done) }()
	t.Cleanup(func() { cancel(); <-done })
	return sim, "http://" + l.Addr().String(), done
}

func buyEC2Sim(t *testing.T, at, typ string) {
	t.Helper()
	v := url.Values{"Action": {"RunInstances"}, "Version": {"2016-11-15"}, "LaunchTemplate.LaunchTemplateName": {"midair"}, "InstanceType": {typ},
		"MinCount": {"1"}, "MaxCount": {"1"}, "InstanceMarketOptions.MarketType": {"spot"},
		"TagSpecification.1.ResourceType": {"instance"}, "TagSpecification.1.Tag.1.Key": {cloud.TagNode}, "TagSpecification.1.Tag.1.Value": {"n-1"}}
	r, err := http.NewRequest(http.MethodPost, at, strings.NewReader(v.Encode()))
	require.NoError(t, err)
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+ec2sim.DefaultCredential.AccessKeyID+"/20260301/us-east-1/ec2/aws4_request, Signature=0")
	resp, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, 200, resp.StatusCode)
}

func TestEC2SimIsLookedIntoAndMadeToFail(t *testing.T) {
	sim, at, stopped := serveEC2Sim(t)
	do := func(args ...string) string {
		t.Helper()
		out, err := runEC2Sim(t, at, args...)
		require.NoError(t, err)
		return out
	}
	require.Equal(t, "no faults\n", do("fault", "ls"))
	require.Equal(t, "fault 1\n", do("fault", "add", "--throttle", "--action", "CreateFleet", "--times", "3"))
	require.Equal(t, "fault 2\n", do("fault", "add", "--at-most", "0", "--type", "p5.48xlarge", "--market", "spot"))
	do("fault", "add", "--hang", "1m", "--after")
	require.Equal(t, `{"id":1,"action":"CreateFleet","times":3,"error":"RequestLimitExceeded","message":"Request limit exceeded."}
{"id":2,"type":"p5.48xlarge","market":"spot","at_most":0}
{"id":3,"after":true,"hang":"1m0s"}
`, do("fault", "ls"))
	do("fault", "clear", "3")
	require.Len(t, sim.Faults(), 2)
	do("fault", "clear")
	require.Empty(t, sim.Faults())

	do("set", "--capacity", "g5.xlarge/us-east-1a/spot=1", "--quota", "L-3819A6DF=8", "--price", "g5.xlarge/us-east-1a=0.5", "--tag-lag", "1ms")
	buyEC2Sim(t, at, "g5.xlarge")
	require.Equal(t, `region     us-east-1
instances  1 running
vCPUs      4 L-3819A6DF
calls      1 RunInstances
`, do("status"))
	require.Regexp(t, `^INSTANCE +NODE +STATE +OFFERING +ADDRESS +AGE +ENDED *
i-[0-9a-f]{17} +n-1 +running +g5.xlarge/us-east-1a/spot +10.214.0.4 +\d+s +\n$`, do("ls"))
	do("fault", "interrupt", "--notice", "1h", "n-1")
	require.Contains(t, do("ls"), "in 59m")
	do("fault", "vanish", "n-1")
	require.Contains(t, do("ls"), "Server.InternalError")
	require.Contains(t, do("ls", "--json"), `"state": "terminated"`)
	do("fault", "deny", "RunInstances")
	do("fault", "expire")
	require.Contains(t, do("status"), "denied     RunInstances\nexpired    AKIAEC2SIM0000000000\n")
	do("fault", "allow")
	do("fault", "renew")
	require.NotContains(t, do("status"), "denied")

	require.Equal(t, "ended 0 instances\n", do("stop"))
	select {
	case err := <-stopped:
		require.NoError(t, err)
	case <-time.After(10 * time.Second):
		t.Fatal("it serves on")
	}
}

func TestEC2SimSaysWhatItCannotDo(t *testing.T) {
	_, at, _ := serveEC2Sim(t)
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"fault", "add"}, "one effect"},
		{[]string{"fault", "add", "--error", "X", "--throttle"}, "leave --error out"},
		{[]string{"fault", "add", "--error", "X", "--action", "RunInstance"}, `action "RunInstance" is none`},
		{[]string{"fault", "clear", "x"}, `"x" is no id`},
		{[]string{"fault", "clear", "7"}, "there is no fault 7"},
		{[]string{"fault", "interrupt"}, "want one instance id or node name"},
		{[]string{"fault", "vanish", "n-1"}, `no live instance or node is named "n-1"`},
		{[]string{"fault", "deny"}, "which action?"},
		{[]string{"set"}, "say what to set"},
		{[]string{"set", "--capacity", "g5.xlarge"}, "want TYPE/ZONE/MARKET=N"},
		{[]string{"set", "--quota", "L-1=5"}, `"L-1" is no vCPU quota`},
		{[]string{"set", "--price", "g5.xlarge=1"}, "want TYPE/ZONE=USD"},
		{[]string{"serve", "--machines", "lunar"}, `no machines of kind "lunar"`},
		{[]string{"serve", "--machines", "local"}, "say with --state"},
		{[]string{"serve", "--catalogue", "/nonexistent"}, "read catalogue"},
		{[]string{"serve", "--listen", "nowhere"}, "serve:"},
	} {
		_, err := runEC2Sim(t, at, tt.args...)
		require.ErrorContains(t, err, tt.want)
	}
	_, err := runEC2Sim(t, "http://127.0.0.1:1", "status")
	require.ErrorContains(t, err, "is midair ec2sim serve running there?")
}

func TestEC2SimPrintsItsCatalogueAndSettings(t *testing.T) {
	out, err := runEC2Sim(t, "http://127.0.0.1:4747", "catalogue")
	require.NoError(t, err)
	_, err = ec2sim.ParseCatalogue("printed", []byte(out))
	require.NoError(t, err)
	out, err = runEC2Sim(t, "http://127.0.0.1:4747", "env")
	require.NoError(t, err)
	require.Equal(t, `export AWS_ENDPOINT_URL=http://127.0.0.1:4747
export AWS_REGION=us-east-1
export AWS_DEFAULT_REGION=us-east-1
export AWS_ACCESS_KEY_ID=AKIAEC2SIM0000000000
export AWS_SECRET_ACCESS_KEY=ec2sim
export AWS_EC2_METADATA_DISABLED=true
`, out)
}
