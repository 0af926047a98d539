package ec2sim

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// apiVersion is the version of EC2's API, the only one that SDKs speak.
const apiVersion = "2016-11-15"

// maxBody bounds a request. EC2 takes less.
const maxBody = 4 << 20

// call is one request to EC2.
type call struct {
	*form
	params string // all parameters in order, to compare repeats with
	dryRun bool
	caller caller
}

// op carries a call out under the lock. The reply is encoded as
// <ActionResponse>.
type op func(now time.Time) (reply any, err *Error)

// reader reads the parameters of an action and gives what to do.
type reader func(s *Sim, c *call) op

// readers are what the stand-in has of EC2.
var readers = map[string]reader{
	"RunInstances":                   (*Sim).runInstances,
	"CreateFleet":                    (*Sim).createFleet,
	"DescribeInstances":              (*Sim).describeInstances,
	"TerminateInstances":             (*Sim).terminateInstances,
	"StopInstances":                  (*Sim).stopInstances,
	"StartInstances":                 (*Sim).startInstances,
	"CreateTags":                     (*Sim).createTags,
	"DescribeTags":                   (*Sim).describeTags,
	"GetConsoleOutput":               (*Sim).getConsoleOutput,
	"DescribeInstanceTypes":          (*Sim).describeInstanceTypes,
	"DescribeInstanceTypeOfferings":  (*Sim).describeInstanceTypeOfferings,
	"DescribeSpotPriceHistory":       (*Sim).describeSpotPriceHistory,
	"DescribeSubnets":                (*Sim).describeSubnets,
	"DescribeAvailabilityZones":      (*Sim).describeAvailabilityZones,
	"DescribeRegions":                (*Sim).describeRegions,
	"DescribeLaunchTemplates":        (*Sim).describeLaunchTemplates,
	"DescribeLaunchTemplateVersions": (*Sim).describeLaunchTemplateVersions,
	"DescribeCapacityReservations":   (*Sim).describeCapacityReservations,
}

// Actions are the names of what the stand-in serves, of all services.
func Actions() []string {
	var names []string
	for name := range readers {
		names = append(names, name)
	}
	for name := range jsonActions {
		names = append(names, name)
	}
	names = append(names, "GetCallerIdentity")
	slices.Sort(names)
	return names
}

func known(action string) bool { return slices.Contains(Actions(), action) }

// serveAPI tells by the request's form which service is asked.
func (s *Sim) serveAPI(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		s.answerError(w, fail("InvalidRequest", "The request could not be read: %v", err))
		return
	}
	if target := r.Header.Get("X-Amz-Target"); target != "" {
		s.serveJSON(w, r, target, body)
		return
	}
	values, err := url.ParseQuery(string(body))
	if err != nil {
		s.answerError(w, fail("MalformedQueryString", "The query string contains a syntax error"))
		return
	}
	// Old clients may have the query in the address.
	for name, vs := range r.URL.Query() {
		values[name] = append(values[name], vs...)
	}
	if values.Get("Version") == stsVersion {
		s.serveSTS(w, r, body, values)
		return
	}
	s.serveEC2(w, r, body, values)
}

func (s *Sim) serveEC2(w http.ResponseWriter, r *http.Request, body []byte, values url.Values) {
	var reply any
	c, do, e := s.decode(values)
	f, refused := s.admit(r, body, "ec2", c, values.Get("Action"))
	if refused != nil {
		s.answerError(w, refused)
		return
	}
	if f != nil && !f.After && !s.meet(w, r.Context(), f) {
		return
	}
	if e == nil {
		s.locked(func(now time.Time) { reply, e = s.carryOut(c, do, now) })
	}
	if f != nil && f.After && !s.meet(w, r.Context(), f) {
		return
	}
	if e != nil {
		s.answerError(w, e)
		return
	}
	s.answer(w, c.action, reply)
}

// admit counts a call and lets it in: by who asks, what they may, and how often.
// It gives the fault that the call is to meet.
func (s *Sim) admit(r *http.Request, body []byte, service string, c *call, action string) (f *Fault, e *Error) {
	s.locked(func(now time.Time) {
		s.calls[action]++
		var who caller
		if who, e = s.authenticate(r, body, service, now); e != nil {
			return
		}
		if s.denied[action] {
			e = s.unauthorized(service, who, action)
			return
		}
		if c != nil {
			c.caller = who
			if s.throttled(c, now) {
				e = fail("RequestLimitExceeded", "Request limit exceeded. Account %s has been throttled on ec2:%s because it exceeded its request rate limit.", s.cat.Account, action)
				return
			}
		}
		f = s.callFault(action)
	})
	return f, e
}

// meet lets a call meet a fault. It reports whether the call goes on.
func (s *Sim) meet(w http.ResponseWriter, ctx context.Context, f *Fault) bool {
	switch {
	case f.Cut:
		panic(http.ErrAbortHandler)
	case f.Error != "":
		e := f.failure()
		if strings.Contains(w.Header().Get("Content-Type"), "json") {
			s.answerJSONError(w, e)
		} else {
			s.answerError(w, e)
		}
		return false
	}
	t := time.NewTimer(time.Duration(f.Hang))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
	case <-s.closed:
	}
	panic(http.ErrAbortHandler)
}

// decode reads a request up to the point where the cloud itself is needed.
func (s *Sim) decode(values url.Values) (*call, op, *Error) {
	f, e := parseForm(values)
	if e != nil {
		return nil, nil, e
	}
	read, ok := readers[f.action]
	if !ok {
		return nil, nil, fail("InvalidAction", "The action %s is not valid for this web service", f.action)
	}
	if v := values.Get("Version"); v != apiVersion {
		return nil, nil, fail("InvalidAction", "The API version %s is not valid; this is %s", v, apiVersion)
	}
	c := &call{form: f, params: canonical(values), dryRun: f.bool("DryRun")}
	do := read(s, c)
	if unread := f.unread(); len(unread) > 0 {
		return c, nil, fail("UnknownParameter", "The parameter %s is not recognized", unread[0])
	}
	return c, do, f.err
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
	s.action = c.action
	reply, e := do(now)
	if err := s.save(); err != nil {
		s.log.Error("write the cloud's state", "err", err)
		return nil, fail("InternalError", "An internal error has occurred")
	}
	return reply, e
}
