package aws_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/stretchr/testify/require"
)

// imds is the instance metadata of one instance, IMDSv2 only.
type imds struct {
	*httptest.Server
	mu    sync.Mutex
	items map[string]string
	asked map[string]int
	// namedAfter is how often the name is asked for before it is there.
	namedAfter int
	untagged   bool
}

func startIMDS(t *testing.T) *imds {
	t.Helper()
	m := &imds{asked: map[string]int{}, namedAfter: 2, items: map[string]string{
		"instance-id": "i-0a1b2c3d4e5f60001", "instance-type": "g5.xlarge", "placement/availability-zone": "us-east-1a", "placement/region": "us-east-1",
		"services/domain": "amazonaws.com", "local-ipv4": "10.0.3.17", "tags/instance": "midair:cluster\nmidair:node", "tags/instance/midair:node": "gpu-spot-7",
		"iam/security-credentials/":            "midair-node\n",
		"iam/security-credentials/midair-node": `{"AccessKeyId": "` + access.AccessKeyID + `", "SecretAccessKey": "` + access.SecretAccessKey + `", "Token": "` + access.SessionToken + `"}`,
	}}
	m.Server = httptest.NewServer(m)
	t.Cleanup(m.Close)
	return m
}

var access = aws.Credentials{AccessKeyID: "ASIAIOSFODNN7EXAMPLE", SecretAccessKey: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", SessionToken: "FwoGZXIvYXdzEXAMPLE=="}

func (m *imds) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r.Method == http.MethodPut && r.URL.Path == "/latest/api/token" && r.Header.Get("X-aws-ec2-metadata-token-ttl-seconds") != "" {
		_, _ = io.WriteString(w, "AQAEAtoken")
		return
	}
	if r.Header.Get("X-aws-ec2-metadata-token") != "AQAEAtoken" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	item := strings.TrimPrefix(r.URL.Path, "/latest/meta-data/")
	m.asked[item]++
	v, ok := m.items[item]
	if !ok || m.untagged && strings.HasPrefix(item, "tags/") || item == "tags/instance/midair:node" && m.asked[item] <= m.namedAfter {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	_, _ = io.WriteString(w, v)
}

// secrets is the part of the Parameter Store and of Secrets Manager that gives a
// secret. It verifies signatures with the SDK's own signer.
type secrets struct {
	*httptest.Server
	t       *testing.T
	service string
	values  map[string]string
	denied  bool
}

func startSecrets(t *testing.T, service string, values map[string]string) *secrets {
	t.Helper()
	s := &secrets{t: t, service: service, values: values}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *secrets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = s.verify(r, body)
	}
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = fmt.Fprintf(w, `{"__type":"InvalidSignatureException","message":%q}`, err.Error())
		return
	}
	if s.denied {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"__type":"AccessDeniedException","Message":"User: arn:aws:sts::111122223333:assumed-role/midair-node/i-0a1b is not authorized to perform: ssm:GetParameter"}`)
		return
	}
	var ask struct {
		Name, SecretId string
		WithDecryption bool
	}
	if err := json.Unmarshal(body, &ask); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	switch r.Header.Get("X-Amz-Target") {
	case "AmazonSSM.GetParameter":
		v := s.values[ask.Name]
		if !ask.WithDecryption {
			v = "AQICAHencrypted"
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"Parameter": map[string]string{"Value": v}})
	case "secretsmanager.GetSecretValue":
		_ = json.NewEncoder(w).Encode(map[string]string{"SecretString": s.values[ask.SecretId]})
	}
}

// verify signs the same request anew and compares.
func (s *secrets) verify(r *http.Request, body []byte) error {
	at, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
	if err != nil {
		return err
	}
	again, err := http.NewRequest(r.Method, "http://"+r.Host+r.URL.Path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	again.ContentLength = 0 // not among the signed headers
	for _, h := range []string{"Content-Type", "X-Amz-Target"} {
		again.Header.Set(h, r.Header.Get(h))
	}
	if err := v4.NewSigner().SignHTTP(r.Context(), access, again, hash(body), s.service, "us-east-1", at); err != nil {
		return err
	}
	if got, want := r.Header.Get("Authorization"), again.Header.Get("Authorization"); got != want {
		return fmt.Errorf("got %s, want %s", got, want)
	}
	return nil
}

func encodedKey(t *testing.T) (text string, key []byte) {
	t.Helper()
	key = bytes.Repeat([]byte{0, 1, 0xfe, '\n'}, 32)
	text = base64.StdEncoding.EncodeToString(key)
	require.NotEmpty(t, text)
	return text, key
}
