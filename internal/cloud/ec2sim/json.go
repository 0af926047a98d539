package ec2sim

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

// jsonAction answers a call of AWS's JSON 1.1 protocol, under the lock.
type jsonAction struct {
	service string // as requests are signed for it
	do      func(s *Sim, body []byte, now time.Time) (any, *Error)
}

var jsonActions = map[string]jsonAction{
	"GetServiceQuota":             {"servicequotas", (*Sim).getServiceQuota},
	"ListServiceQuotas":           {"servicequotas", (*Sim).listServiceQuotas},
	"GetAWSDefaultServiceQuota":   {"servicequotas", (*Sim).getDefaultQuota},
	"RequestServiceQuotaIncrease": {"servicequotas", (*Sim).requestQuotaIncrease},
	"GetProducts":                 {"pricing", (*Sim).getProducts},
}

// targets are the services by the first part of X-Amz-Target.
var targets = map[string]string{"ServiceQuotasV20190624": "servicequotas", "AWSPriceListService": "pricing"}

func (s *Sim) serveJSON(w http.ResponseWriter, r *http.Request, target string, body []byte) {
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	service, action, _ := strings.Cut(target, ".")
	a, ok := jsonActions[action]
	if !ok || targets[service] != a.service {
		s.answerJSONError(w, fail("UnknownOperationException", "The stand-in has no %s", target))
		return
	}
	f, e := s.admit(r, body, a.service, nil, action)
	if e != nil {
		s.answerJSONError(w, e)
		return
	}
	if f != nil && !f.After && !s.meet(w, r.Context(), f) {
		return
	}
	var reply any
	s.locked(func(now time.Time) {
		reply, e = a.do(s, body, now)
		if err := s.save(); err != nil && e == nil {
			s.log.Error("write the cloud's state", "err", err)
			e = fail("InternalFailure", "An internal error has occurred")
		}
	})
	if f != nil && f.After && !s.meet(w, r.Context(), f) {
		return
	}
	if e != nil {
		s.answerJSONError(w, e)
		return
	}
	w.Header().Set("X-Amzn-Requestid", s.requestID())
	_ = json.NewEncoder(w).Encode(reply)
}

func (s *Sim) answerJSONError(w http.ResponseWriter, e *Error) {
	w.Header().Set("X-Amzn-Requestid", s.requestID())
	w.WriteHeader(e.Status)
	_ = json.NewEncoder(w).Encode(map[string]string{"__type": e.Code, "message": e.Message})
}

// readJSON reads a request of which everything is known.
func readJSON(body []byte, into any) *Error {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fail("SerializationException", "%v", err)
	}
	return nil
}
