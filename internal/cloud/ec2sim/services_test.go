package ec2sim_test

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/cloud/ec2sim"
)

// ask makes a call of the JSON protocol.
func (l *lab) ask(service, target, body string) (int, map[string]any) {
	l.t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
	r.Header.Set("X-Amz-Target", target)
	r.Header.Set("Authorization", authorization(ec2sim.DefaultCredential.AccessKeyID, "us-east-1", service))
	w := httptest.NewRecorder()
	l.ServeHTTP(w, r)
	var reply map[string]any
	require.NoError(l.t, json.Unmarshal(w.Body.Bytes(), &reply), w.Body.String())
	return w.Code, reply
}

func TestServiceQuotas(t *testing.T) {
	const service, prefix = "servicequotas", "ServiceQuotasV20190624."
	l := newLab(t)
	must(t, l.SetQuota("L-417A185B", 384))
	code, r := l.ask(service, prefix+"GetServiceQuota", `{"ServiceCode":"ec2","QuotaCode":"L-417A185B"}`)
	require.Equal(t, 200, code)
	require.Equal(t, 384.0, r["Quota"].(map[string]any)["Value"])
	require.Equal(t, "Running On-Demand P instances", r["Quota"].(map[string]any)["QuotaName"])

	seen, token := 0, ""
	for {
		_, r = l.ask(service, prefix+"ListServiceQuotas", fmt.Sprintf(`{"ServiceCode":"ec2","MaxResults":7,"NextToken":%q}`, token))
		seen += len(r["Quotas"].([]any))
		if token, _ = r["NextToken"].(string); token == "" {
			break
		}
	}
	require.Equal(t, 18, seen)

	code, r = l.ask(service, prefix+"RequestServiceQuotaIncrease", `{"ServiceCode":"ec2","QuotaCode":"L-417A185B","DesiredValue":768}`)
	require.Equal(t, 200, code)
	require.Equal(t, "PENDING", r["RequestedQuota"].(map[string]any)["Status"])
	for _, tt := range []struct{ target, body, want string }{
		{"RequestServiceQuotaIncrease", `{"ServiceCode":"ec2","QuotaCode":"L-417A185B","DesiredValue":768}`, "ResourceAlreadyExistsException"},
		{"RequestServiceQuotaIncrease", `{"ServiceCode":"ec2","QuotaCode":"L-DB2E81BA","DesiredValue":1}`, "IllegalArgumentException"},
		{"GetServiceQuota", `{"ServiceCode":"ec2","QuotaCode":"L-0"}`, "NoSuchResourceException"},
		{"GetServiceQuota", `{"ServiceCode":"ec2","Colour":"red"}`, "SerializationException"},
		{"ListServiceQuotas", `{"ServiceCode":"s3"}`, "NoSuchResourceException"},
		{"ListServiceQuotas", `{"ServiceCode":"ec2","NextToken":"!"}`, "InvalidPaginationTokenException"},
		{"DoSomething", `{}`, "UnknownOperationException"},
	} {
		code, r := l.ask(service, prefix+tt.target, tt.body)
		require.Equal(t, 400, code)
		require.Equal(t, tt.want, r["__type"])
	}
	must(t, l.Deny("GetServiceQuota"))
	_, r = l.ask(service, prefix+"GetServiceQuota", `{}`)
	require.Equal(t, "AccessDeniedException", r["__type"])
	l.fault(ec2sim.Fault{Action: "ListServiceQuotas", Error: "TooManyRequestsException", Status: 429})
	code, r = l.ask(service, prefix+"ListServiceQuotas", `{}`)
	require.Equal(t, 429, code)
	require.Equal(t, "TooManyRequestsException", r["__type"])
	must(t, l.ExpireCredential(ec2sim.DefaultCredential.AccessKeyID))
	_, r = l.ask(service, prefix+"ListServiceQuotas", `{}`)
	require.Equal(t, "ExpiredTokenException", r["__type"])
}

func TestPriceListIsAListOfTexts(t *testing.T) {
	l := newLab(t)
	code, r := l.ask("pricing", "AWSPriceListService.GetProducts", `{"ServiceCode":"AmazonEC2","FormatVersion":"aws_v1","Filters":[
		{"Type":"TERM_MATCH","Field":"instanceType","Value":"p5.48xlarge"},{"Type":"TERM_MATCH","Field":"regionCode","Value":"us-east-1"},
		{"Type":"TERM_MATCH","Field":"operatingSystem","Value":"Linux"},{"Type":"TERM_MATCH","Field":"tenancy","Value":"Shared"},
		{"Type":"TERM_MATCH","Field":"preInstalledSw","Value":"NA"},{"Type":"TERM_MATCH","Field":"capacitystatus","Value":"Used"}]}`)
	require.Equal(t, 200, code)
	list := r["PriceList"].([]any)
	require.Len(t, list, 1)
	var p struct {
		Product struct{ Attributes map[string]string }
		Terms   struct {
			OnDemand map[string]struct {
				PriceDimensions map[string]struct {
					Unit         string
					PricePerUnit map[string]string
				}
			}
		}
	}
	require.NoError(t, json.Unmarshal([]byte(list[0].(string)), &p))
	require.Equal(t, "192", p.Product.Attributes["vcpu"])
	for _, term := range p.Terms.OnDemand {
		for _, d := range term.PriceDimensions {
			require.Equal(t, "Hrs", d.Unit)
			require.Equal(t, "55.0400000000", d.PricePerUnit["USD"])
		}
	}
	seen, token := 0, ""
	for {
		_, r = l.ask("pricing", "AWSPriceListService.GetProducts", fmt.Sprintf(`{"ServiceCode":"AmazonEC2","MaxResults":20,"NextToken":%q}`, token))
		seen += len(r["PriceList"].([]any))
		if token, _ = r["NextToken"].(string); token == "" {
			break
		}
	}
	require.Equal(t, len(ec2sim.DefaultCatalogue().Types), seen)
}

func TestCallerIdentity(t *testing.T) {
	l := newLab(t)
	ask := func(key, region string) (int, string) {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("Action=GetCallerIdentity&Version=2011-06-15"))
		r.Header.Set("Authorization", authorization(key, region, "sts"))
		w := httptest.NewRecorder()
		l.ServeHTTP(w, r)
		var reply struct {
			Account string `xml:"GetCallerIdentityResult>Account"`
			Code    string `xml:"Error>Code"`
		}
		require.NoError(t, xml.Unmarshal(w.Body.Bytes(), &reply))
		return w.Code, reply.Account + reply.Code
	}
	const key = "AKIAEC2SIM0000000000"
	code, what := ask(key, "us-east-1")
	require.Equal(t, 200, code)
	require.Equal(t, "123456789012", what)
	code, what = ask("AKIAOTHER", "us-east-1")
	require.Equal(t, 403, code)
	require.Equal(t, "InvalidClientTokenId", what)
	must(t, l.ExpireCredential(key))
	_, what = ask(key, "us-east-1")
	require.Equal(t, "ExpiredToken", what)
}
