package ec2sim

import (
	"time"
)

type quotaJSON struct {
	ServiceCode string
	ServiceName string
	QuotaArn    string
	QuotaCode   string
	QuotaName   string
	Value       float64
	Unit        string
	Adjustable  bool
	GlobalQuota bool
	UsageMetric *metricJSON `json:",omitempty"`
	Level       string      `json:"QuotaAppliedAtLevel"`
}

type metricJSON struct {
	MetricNamespace               string
	MetricName                    string
	MetricDimensions              map[string]string
	MetricStatisticRecommendation string
}

func (s *Sim) quotaJSON(q Quota, value int) quotaJSON {
	class := map[string]string{"standard": "Standard", "g": "G", "p": "P", "p5": "P5", "f": "F", "inf": "Inf", "trn": "Trn", "dl": "DL", "x": "X", "hpc": "HPC"}[q.Family] + "/OnDemand"
	if q.Spot {
		class = class[:len(class)-len("OnDemand")] + "Spot"
	}
	return quotaJSON{
		ServiceCode: "ec2", ServiceName: "Amazon Elastic Compute Cloud (Amazon EC2)",
		QuotaArn:  "arn:aws:servicequotas:" + s.cat.Region + ":" + s.cat.Account + ":ec2/" + q.Code,
		QuotaCode: q.Code, QuotaName: q.Name, Value: float64(value), Unit: "None", Adjustable: true, Level: "ACCOUNT",
		UsageMetric: &metricJSON{"AWS/Usage", "ResourceCount", map[string]string{"Class": class, "Resource": "vCPU", "Service": "EC2", "Type": "Resource"}, "Maximum"},
	}
}

func noQuota() *Error {
	return fail("NoSuchResourceException", "The request failed because the specified quota does not exist.")
}

func (s *Sim) readQuota(body []byte) (Quota, *Error) {
	var r struct{ ServiceCode, QuotaCode, ContextId string }
	if e := readJSON(body, &r); e != nil {
		return Quota{}, e
	}
	q, ok := quotaNamed(r.QuotaCode)
	if !ok || r.ServiceCode != "ec2" {
		return q, noQuota()
	}
	return q, nil
}

func (s *Sim) getServiceQuota(body []byte, _ time.Time) (any, *Error) {
	q, e := s.readQuota(body)
	if e != nil {
		return nil, e
	}
	return map[string]any{"Quota": s.quotaJSON(q, s.quota(q.Code))}, nil
}

// getDefaultQuota is what a new account has.
func (s *Sim) getDefaultQuota(body []byte, _ time.Time) (any, *Error) {
	q, e := s.readQuota(body)
	if e != nil {
		return nil, e
	}
	n := 0
	if q.Family == "standard" {
		n = 5
	}
	return map[string]any{"Quota": s.quotaJSON(q, n)}, nil
}

func (s *Sim) listServiceQuotas(body []byte, _ time.Time) (any, *Error) {
	var r struct {
		ServiceCode, NextToken, QuotaCode, QuotaAppliedAtLevel string
		MaxResults                                             int
	}
	if e := readJSON(body, &r); e != nil {
		return nil, e
	}
	if r.ServiceCode != "ec2" {
		return nil, fail("NoSuchResourceException", "The request failed because the specified service does not exist.")
	}
	list := []quotaJSON{}
	for _, q := range quotas {
		if r.QuotaCode == "" || q.Code == r.QuotaCode {
			list = append(list, s.quotaJSON(q, s.quota(q.Code)))
		}
	}
	list, next, e := jsonPage(list, r.MaxResults, r.NextToken, "InvalidPaginationTokenException")
	if e != nil {
		return nil, e
	}
	reply := map[string]any{"Quotas": list}
	if next != "" {
		reply["NextToken"] = next
	}
	return reply, nil
}

// requestQuotaIncrease takes the request down; nobody decides about it.
func (s *Sim) requestQuotaIncrease(body []byte, now time.Time) (any, *Error) {
	var r struct {
		ServiceCode, QuotaCode, ContextId string
		DesiredValue                      float64
		SupportCaseAllowed                bool
	}
	if e := readJSON(body, &r); e != nil {
		return nil, e
	}
	q, ok := quotaNamed(r.QuotaCode)
	switch {
	case !ok || r.ServiceCode != "ec2":
		return nil, noQuota()
	case r.DesiredValue <= float64(s.quota(q.Code)):
		return nil, fail("IllegalArgumentException", "You must provide a quota value greater than the current quota value.")
	case s.asked[q.Code]:
		return nil, fail("ResourceAlreadyExistsException", "Only one open service quota increase request is allowed per quota.")
	}
	s.asked[q.Code] = true
	at := float64(now.UnixMilli()) / 1000
	return map[string]any{"RequestedQuota": map[string]any{
		"Id": s.newUUID(), "ServiceCode": "ec2", "ServiceName": "Amazon Elastic Compute Cloud (Amazon EC2)", "QuotaCode": q.Code, "QuotaName": q.Name,
		"DesiredValue": r.DesiredValue, "Status": "PENDING", "Created": at, "LastUpdated": at, "Requester": `{"accountId":"` + s.cat.Account + `"}`,
		"QuotaArn": "arn:aws:servicequotas:" + s.cat.Region + ":" + s.cat.Account + ":ec2/" + q.Code, "GlobalQuota": false, "Unit": "None",
	}}, nil
}

// jsonPage gives a page of a list of the JSON services.
func jsonPage[T any](list []T, most int, token, code string) ([]T, string, *Error) {
	p := page{max: most}
	if p.max <= 0 {
		p.max = 100
	}
	if token != "" {
		var ok bool
		if p.from, ok = readToken(token); !ok {
			return nil, "", fail(code, "The pagination token is invalid.")
		}
	}
	return cut(p, list)
}
