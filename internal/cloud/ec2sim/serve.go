package ec2sim

import (
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// apiVersion is the version of EC2's API, the only one that SDKs speak.
const apiVersion = "2016-11-15"

// maxBody bounds a request. EC2 takes less.
const maxBody = 4 << 20

// call is one request to EC2 that has been read.
type call struct {
	*form
	params string // all parameters in order, to compare repeats with
	dryRun bool
	caller caller
}

// op carries a call out under the lock. The reply is encoded as
// <ActionResponse>.
type op func(now time.Time) (reply any, err *Error)

// actions are what the stand-in has of EC2. Each reads its parameters and gives
// what to do.
func (s *Sim) actions() map[string]func(*call) op {
	return map[string]func(*call) op{
		"RunInstances":             s.runInstances,
		"CreateFleet":              s.createFleet,
		"DescribeInstances":        s.describeInstances,
		"TerminateInstances":       s.terminateInstances,
		"CreateTags":               s.createTags,
		"DescribeInstanceTypes":    s.describeInstanceTypes,
		"DescribeSpotPriceHistory": s.describeSpotPriceHistory,
		"DescribeSubnets":          s.describeSubnets,
		"DescribeLaunchTemplates":  s.describeLaunchTemplates,
	}
}

func (s *Sim) serveAPI(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		s.answerError(w, fail("InvalidRequest", "The request could not be read: %v", err))
		return
	}
	values, err := url.ParseQuery(string(body))
	if err != nil {
		s.answerError(w, fail("MalformedQueryString", "The query string contains a syntax error"))
		return
	}
	s.serveEC2(w, r, values)
}

func (s *Sim) serveEC2(w http.ResponseWriter, r *http.Request, values url.Values) {
	c, do, e := s.decode(values)
	if e == nil {
		var reply any
		s.locked(func(now time.Time) {
			s.calls[c.action]++
			if c.caller, e = s.authenticate(r, "ec2", now); e == nil {
				reply, e = s.carryOut(c, do, now)
			}
		})
		if e == nil {
			s.answer(w, c.action, reply)
			return
		}
	}
	s.answerError(w, e)
}

// decode reads a request up to the point where the cloud itself is needed.
func (s *Sim) decode(values url.Values) (*call, op, *Error) {
	f, e := parseForm(values)
	if e != nil {
		return nil, nil, e
	}
	read, ok := s.actions()[f.action]
	if !ok {
		return nil, nil, fail("InvalidAction", "The action %s is not valid for this web service", f.action)
	}
	if v := values.Get("Version"); v != apiVersion {
		return nil, nil, fail("InvalidAction", "The API version %s is not valid; this is %s", v, apiVersion)
	}
	c := &call{form: f, params: canonical(values), dryRun: f.bool("DryRun")}
	do := read(c)
	if f.err != nil {
		return nil, nil, f.err
	}
	if unread := f.unread(); len(unread) > 0 {
		return nil, nil, fail("UnknownParameter", "The parameter %s is not recognized", unread[0])
	}
	return c, do, nil
}

// canonical gives a request's parameters in one order. DryRun is no part of
// what is asked for.
func canonical(values url.Values) string {
	if values.Has("DryRun") {
		v := url.Values{}
		for k, vs := range values {
			if k != "DryRun" {
				v[k] = vs
			}
		}
		values = v
	}
	return values.Encode()
}

func (s *Sim) carryOut(c *call, do op, now time.Time) (any, *Error) {
	if c.dryRun {
		return nil, fail("DryRunOperation", "Request would have succeeded, but DryRun flag is set.")
	}
	return do(now)
}

func (s *Sim) requestID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, b := s.rand.Uint64(), s.rand.Uint64()
	return fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", uint32(a>>32), uint16(a>>16), uint16(a), uint16(b>>48), b&(1<<48-1))
}

func (s *Sim) answer(w http.ResponseWriter, action string, reply any) {
	id := s.requestID()
	var b strings.Builder
	b.WriteString(xml.Header)
	fmt.Fprintf(&b, `<%sResponse xmlns="http://ec2.amazonaws.com/doc/%s/"><requestId>%s</requestId>`, action, apiVersion, id)
	if reply != nil {
		text, err := xml.Marshal(reply)
		if err != nil {
			s.log.Error("encode an answer", "action", action, "err", err)
			s.answerError(w, fail("InternalError", "An internal error has occurred"))
			return
		}
		// The reply's own element gives way to the one of the answer.
		b.Write(inner(text))
	}
	fmt.Fprintf(&b, "</%sResponse>", action)
	w.Header().Set("Content-Type", "text/xml;charset=UTF-8")
	w.Header().Set("X-Amzn-Requestid", id)
	_, _ = io.WriteString(w, b.String())
}

// inner gives what is between an element's tags.
func inner(text []byte) []byte {
	t := string(text)
	from, to := strings.IndexByte(t, '>')+1, strings.LastIndexByte(t, '<')
	if to < from {
		return nil
	}
	return text[from:to]
}

type errorReply struct {
	XMLName   xml.Name `xml:"Response"`
	Code      string   `xml:"Errors>Error>Code"`
	Message   string   `xml:"Errors>Error>Message"`
	RequestID string   `xml:"RequestID"`
}

func (s *Sim) answerError(w http.ResponseWriter, e *Error) {
	id := s.requestID()
	w.Header().Set("Content-Type", "text/xml;charset=UTF-8")
	w.Header().Set("X-Amzn-Requestid", id)
	w.WriteHeader(e.Status)
	_, _ = io.WriteString(w, xml.Header)
	_ = xml.NewEncoder(w).Encode(errorReply{Code: e.Code, Message: e.Message, RequestID: id})
}
