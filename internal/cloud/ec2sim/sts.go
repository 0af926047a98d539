package ec2sim

import (
	"encoding/xml"
	"fmt"
	"net/http"
	"net/url"
)

const stsVersion = "2011-06-15"

// serveSTS has GetCallerIdentity alone: who am I.
func (s *Sim) serveSTS(w http.ResponseWriter, r *http.Request, body []byte, values url.Values) {
	action := values.Get("Action")
	f, e := s.admit(r, body, "sts", nil, action)
	if e == nil && action != "GetCallerIdentity" {
		e = fail("InvalidAction", "Could not find operation %s for version %s", action, stsVersion)
	}
	if e == nil && f != nil && f.Error != "" {
		e = f.failure()
	}
	if e != nil {
		s.answerSTSError(w, e)
		return
	}
	if f != nil && !s.meet(w, r.Context(), f) {
		return
	}
	id := s.requestID()
	xmlHeaders(w, id)
	fmt.Fprintf(w, `<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/%s/"><GetCallerIdentityResult><Arn>%s</Arn><UserId>AIDAEC2SIM000000000</UserId><Account>%s</Account></GetCallerIdentityResult><ResponseMetadata><RequestId>%s</RequestId></ResponseMetadata></GetCallerIdentityResponse>`,
		stsVersion, s.user(), s.cat.Account, id)
}

// user is who holds the access keys.
func (s *Sim) user() string { return s.arn("iam", "user/midair") }

type stsError struct {
	XMLName   xml.Name `xml:"ErrorResponse"`
	Type      string   `xml:"Error>Type"`
	Code      string   `xml:"Error>Code"`
	Message   string   `xml:"Error>Message"`
	RequestID string   `xml:"RequestId"`
}

func (s *Sim) answerSTSError(w http.ResponseWriter, e *Error) {
	id := s.requestID()
	xmlHeaders(w, id)
	w.WriteHeader(e.Status)
	_ = xml.NewEncoder(w).Encode(stsError{Type: "Sender", Code: e.Code, Message: e.Message, RequestID: id})
}
