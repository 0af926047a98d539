package ec2sim_test

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/cloud/ec2sim"
)

func TestSignatureIsTheOneOfTheSecretKey(t *testing.T) {
	session := ec2sim.Credential{AccessKeyID: "ASIASESSION", SecretAccessKey: "s", SessionToken: "tok"}
	l := newLab(t, func(o *ec2sim.Options) {
		o.AnySignature, o.Credentials = false, []ec2sim.Credential{ec2sim.DefaultCredential, session}
	})
	server := httptest.NewServer(l)
	defer server.Close()
	for _, tt := range []struct {
		name   string
		cred   aws.Credentials
		change func(r *http.Request)
		status int
	}{
		{"right", aws.Credentials{AccessKeyID: ec2sim.DefaultCredential.AccessKeyID, SecretAccessKey: ec2sim.DefaultCredential.SecretAccessKey}, nil, 200},
		{"session", aws.Credentials{AccessKeyID: "ASIASESSION", SecretAccessKey: "s", SessionToken: "tok"}, nil, 200},
		{"wrong secret", aws.Credentials{AccessKeyID: ec2sim.DefaultCredential.AccessKeyID, SecretAccessKey: "x"}, nil, 401},
		{"changed body", aws.Credentials{AccessKeyID: "ASIASESSION", SecretAccessKey: "s", SessionToken: "tok"}, func(r *http.Request) {
			r.Body = http.NoBody
			r.ContentLength = 0
		}, 401},
		{"changed header", aws.Credentials{AccessKeyID: "ASIASESSION", SecretAccessKey: "s", SessionToken: "tok"}, func(r *http.Request) {
			r.Header.Set("Content-Type", "text/plain")
		}, 401},
		{"changed date", aws.Credentials{AccessKeyID: "ASIASESSION", SecretAccessKey: "s", SessionToken: "tok"}, func(r *http.Request) {
			r.Header.Set("X-Amz-Date", "20260301T120001Z")
		}, 401},
	} {
		t.Run(tt.name, func(t *testing.T) {
			const body = "Action=DescribeRegions&Version=2016-11-15&RegionName.1=us-east-1"
			r, err := http.NewRequest(http.MethodPost, server.URL+"/", strings.NewReader(body))
			require.NoError(t, err)
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
			r.Header.Set("X-Two", "a   b")
			sum := sha256.Sum256([]byte(body))
			require.NoError(t, v4.NewSigner().SignHTTP(t.Context(), tt.cred, r, hex.EncodeToString(sum[:]), "ec2", "us-east-1", time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)))
			if tt.change != nil {
				tt.change(r)
			}
			resp, err := http.DefaultClient.Do(r)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			require.Equal(t, tt.status, resp.StatusCode)
		})
	}
}
