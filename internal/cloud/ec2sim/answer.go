package ec2sim

import (
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"strings"
)

func (s *Sim) requestID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.newUUID()
}

func (s *Sim) newUUID() string {
	a, b := s.rand.Uint64(), s.rand.Uint64()
	return fmt.Sprintf("%08x-%04x-%04x-%04x-%012x", uint32(a>>32), uint16(a>>16), uint16(a), uint16(b>>48), b&(1<<48-1))
}

// answer writes a reply of EC2's shape.
func (s *Sim) answer(w http.ResponseWriter, action string, reply any) {
	text, err := xml.Marshal(reply)
	if err != nil {
		s.log.Error("encode an answer", "action", action, "err", err)
		s.answerError(w, fail("InternalError", "An internal error has occurred"))
		return
	}
	id := s.requestID()
	xmlHeaders(w, id)
	// The reply's own element gives way to the one of the answer.
	fmt.Fprintf(w, `%s<%sResponse xmlns="http://ec2.amazonaws.com/doc/%s/"><requestId>%s</requestId>%s</%sResponse>`,
		xml.Header, action, apiVersion, id, inner(string(text)), action)
}

// inner gives what is between an element's tags.
func inner(text string) string {
	from, to := strings.IndexByte(text, '>')+1, strings.LastIndexByte(text, '<')
	if to < from {
		return ""
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
	xmlHeaders(w, id)
	w.WriteHeader(e.Status)
	_, _ = io.WriteString(w, xml.Header)
	_ = xml.NewEncoder(w).Encode(errorReply{Code: e.Code, Message: e.Message, RequestID: id})
}

func xmlHeaders(w http.ResponseWriter, id string) {
	w.Header().Set("Content-Type", "text/xml;charset=UTF-8")
	w.Header().Set("X-Amzn-Requestid", id)
}
