package aws

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/midair-hpc/midair/internal/cloud"
)

// services says which permission an action needs where it is not one of EC2.
var services = map[string]string{
	"ListServiceQuotas": "servicequotas", "GetServiceQuota": "servicequotas", "GetProducts": "pricing", "GetCallerIdentity": "sts",
}

// permission is an action in the words of a policy.
func permission(action string) string {
	if s := services[action]; s != "" {
		return s + ":" + action
	}
	return "ec2:" + action
}

// classify says what a failed call means. what is the offering concerned;
// empty: none.
func (p *Provider) classify(action, what string, err error) *cloud.Error {
	var done *cloud.Error
	if errors.As(err, &done) {
		return done
	}
	if errors.Is(err, errNoCredentials) {
		return &cloud.Error{
			Class: cloud.Unauthorized, Err: err,
			Message: "there are no credentials for AWS: set profile or credentials_file of provider " + p.name + ", or give the controller host an instance role",
		}
	}
	var api smithy.APIError
	if errors.As(err, &api) {
		return p.classifyCode(action, what, api.ErrorCode(), api.ErrorMessage(), err)
	}
	return p.unreachable(action, err)
}

// classifyCode says what an answer with a code means. err is nil for an error
// of a fleet's pool, which comes with status 200.
func (p *Provider) classifyCode(action, what, code, text string, err error) *cloud.Error {
	m, known := meaningOf(code)
	status, date := response(err)
	if !known {
		p.report(action, code, text, status)
		m = meaning{class: cloud.Unknown, says: "EC2 answers {what} with a code that midair does not know", ambiguous: status >= 500}
	}
	if what == "" {
		what = action
	}
	if wrongRegion(code, text) {
		m = meaning{class: cloud.Config, says: "the endpoint is of another region than {where}: correct region or endpoint of provider " + p.name}
	}
	says := strings.NewReplacer("{what}", what, "{where}", p.conf.Region, "{action}", denied(action, text)).Replace(m.says)
	if m.class == cloud.Unauthorized {
		says += p.skew(code, date)
	}
	if m.class == cloud.Config && text != "" && strings.Contains(m.says, badCall) {
		says += ": " + sentence(text)
	}
	return &cloud.Error{Class: m.class, Code: code, Message: says, Ambiguous: m.ambiguous && err != nil, Err: err}
}

// report asks, once for each code, to be told of it.
func (p *Provider) report(action, code, text string, status int) {
	p.mu.Lock()
	before := p.reported[code]
	p.reported[code] = true
	p.mu.Unlock()
	if !before {
		p.log.Warn("AWS answers with a code that midair does not know; please report this line", "action", action, "code", code, "status", status, "message", text)
	}
}

// response gives the HTTP status and AWS's time of an answer; 0: none came.
func response(err error) (int, time.Time) {
	var r *smithyhttp.ResponseError
	if !errors.As(err, &r) || r.Response == nil || r.Response.Response == nil {
		return 0, time.Time{}
	}
	date, err := http.ParseTime(r.Response.Header.Get("Date"))
	if err != nil {
		date = time.Time{}
	}
	return r.HTTPStatusCode(), date
}

var (
	performs = regexp.MustCompile(`perform: ([a-z0-9-]+:[A-Za-z]+)`)
	encoded  = regexp.MustCompile(`(?i)encoded authorization failure message`)
)

// denied names the permission that is missing. EC2 encodes the details where it
// refuses a launch, which also needs the permission to pass the instances' role
// and to tag.
func denied(action, text string) string {
	if m := performs.FindStringSubmatch(text); m != nil {
		return m[1]
	}
	name := permission(action)
	if (action == "RunInstances" || action == "CreateFleet") && encoded.MatchString(text) {
		name += ", or ec2:CreateTags or iam:PassRole for it"
	}
	return name
}

func wrongRegion(code, text string) bool {
	return (code == "AuthFailure" || code == "SignatureDoesNotMatch" || code == "InvalidSignatureException") && strings.Contains(text, "valid region")
}

// Signatures are good for about five minutes.
const skewAllowed = 2 * time.Minute

// skew says how wrong this machine's clock is, if it is.
func (p *Provider) skew(code string, date time.Time) string {
	if date.IsZero() || !strings.Contains(code, "Expired") && !strings.Contains(code, "Signature") && !strings.Contains(code, "Skewed") && code != "AuthFailure" {
		return ""
	}
	off := p.now().Sub(date).Round(time.Second)
	switch {
	case off > skewAllowed:
		return fmt.Sprintf("; this machine's clock is %s ahead of AWS's", off)
	case off < -skewAllowed:
		return fmt.Sprintf("; this machine's clock is %s behind AWS's", -off)
	}
	return ""
}

// unreachable is for a call that got no answer.
func (p *Provider) unreachable(action string, err error) *cloud.Error {
	e := &cloud.Error{Class: cloud.Unknown, Ambiguous: true, Err: err}
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		e.Class, e.Ambiguous = cloud.Config, false
		e.Message = fmt.Sprintf("there is no host %s: is region %q of provider %s right?", dns.Name, p.conf.Region, p.name)
	case errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled):
		e.Message = "AWS did not answer " + action + " in time"
	default:
		e.Message = "AWS cannot be reached for " + action + ": " + sentence(cause(err))
	}
	return e
}

// cause is the innermost text of an error, which is what people need of the
// SDK's long chains.
func cause(err error) string {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err.Error()
		}
		err = next
	}
}

// maxSentence bounds foreign text in a sentence; it goes to a node's Reason.
const maxSentence = 200

// sentence makes foreign text fit into a sentence: one line, no final stop.
func sentence(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > maxSentence {
		s = string(r[:maxSentence-1]) + "…"
	}
	return strings.TrimRight(s, ". ")
}
