package ec2sim

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Credential is an access key that the cloud knows.
type Credential struct {
	AccessKeyID     string
	SecretAccessKey string
	// SessionToken must come with the key, if there is one.
	SessionToken string
	// Expires is when the session ends; zero: never.
	Expires time.Time
}

// DefaultCredential is the key pair that is known if no other is named.
var DefaultCredential = Credential{AccessKeyID: "AKIAEC2SIM0000000000", SecretAccessKey: "ec2sim"}

// caller is who asks, by the Authorization header.
type caller struct {
	key       string
	date      string // 20060102
	region    string
	service   string
	signed    []string // names of headers
	signature string
}

// authenticate checks the Authorization header of Signature Version 4: that it
// is there, that its key is known and has not expired, that its scope is of the
// service and region, and that the secret key has made it.
func (s *Sim) authenticate(r *http.Request, body []byte, service string, now time.Time) (caller, *Error) {
	c, ok := parseAuthorization(r.Header.Get("Authorization"))
	if !ok {
		return c, fail("MissingAuthenticationToken", "Request is missing Authentication Token")
	}
	known, ok := s.creds[c.key]
	switch {
	case !ok, known.SessionToken != r.Header.Get("X-Amz-Security-Token"):
		return c, unknownKey(service)
	case c.service != service:
		return c, badScope(service, "Credential should be scoped to correct service: '"+service+"'.")
	case service != "pricing" && service != "sts" && c.region != s.cat.Region:
		return c, badScope(service, "Credential should be scoped to a valid region, not '"+c.region+"'.")
	case !s.anySignature && !signedRight(r, body, c, known.SecretAccessKey):
		return c, wrongSecret(service)
	case s.expired[c.key], !known.Expires.IsZero() && !now.Before(known.Expires):
		return c, expired(service)
	}
	return c, nil
}

func parseAuthorization(h string) (caller, bool) {
	rest, ok := strings.CutPrefix(h, "AWS4-HMAC-SHA256 ")
	if !ok {
		return caller{}, false
	}
	var c caller
	for _, part := range strings.Split(rest, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch name {
		case "Credential":
			f := strings.Split(value, "/")
			if len(f) != 5 || f[4] != "aws4_request" {
				return caller{}, false
			}
			c.key, c.date, c.region, c.service = f[0], f[1], f[2], f[3]
		case "SignedHeaders":
			c.signed = strings.Split(value, ";")
		case "Signature":
			c.signature = value
		}
	}
	return c, c.key != "" && c.signature != ""
}

func unknownKey(service string) *Error {
	switch service {
	case "ec2":
		return fail("AuthFailure", "AWS was not able to validate the provided access credentials")
	case "sts":
		return fail("InvalidClientTokenId", "The security token included in the request is invalid.")
	}
	return fail("UnrecognizedClientException", "The security token included in the request is invalid.")
}

func wrongSecret(service string) *Error {
	const message = "The request signature we calculated does not match the signature you provided. Check your AWS Secret Access Key and signing method. Consult the service documentation for details."
	switch service {
	case "ec2":
		return unknownKey(service)
	case "sts":
		return fail("SignatureDoesNotMatch", message)
	}
	return fail("InvalidSignatureException", message)
}

func badScope(service, message string) *Error {
	switch service {
	case "ec2":
		return fail("AuthFailure", "%s", message)
	case "sts":
		return fail("SignatureDoesNotMatch", "%s", message)
	}
	return fail("InvalidSignatureException", "%s", message)
}

func expired(service string) *Error {
	switch service {
	case "ec2":
		return fail("RequestExpired", "Request has expired.")
	case "sts":
		return fail("ExpiredToken", "The security token included in the request is expired")
	}
	return fail("ExpiredTokenException", "The security token included in the request is expired")
}

// unauthorized is what IAM says of an action that is denied.
func (s *Sim) unauthorized(service string, who caller, action string) *Error {
	message := fmt.Sprintf("User: %s is not authorized to perform: %s:%s because no identity-based policy allows the %s:%s action", s.user(), service, action, service, action)
	switch service {
	case "ec2":
		return fail("UnauthorizedOperation", "You are not authorized to perform this operation. %s", message)
	case "sts":
		return fail("AccessDenied", "%s", message)
	}
	return fail("AccessDeniedException", "%s", message)
}

// ExpireCredential makes a session end now.
func (s *Sim) ExpireCredential(accessKeyID string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.creds[accessKeyID]; !ok {
		return fmt.Errorf("expire credential: the access key %q is not known", accessKeyID)
	}
	s.expired[accessKeyID] = true
	return s.saveAll()
}

// RenewCredentials takes ExpireCredential back.
func (s *Sim) RenewCredentials() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.expired)
	return s.saveAll()
}

// Deny has actions refused to everybody, as by a policy; Allow takes it back.
func (s *Sim) Deny(actions ...string) error {
	for _, a := range actions {
		if !known(a) {
			return fmt.Errorf("deny %s: the stand-in has no such action; it has %s", a, strings.Join(Actions(), ", "))
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range actions {
		s.denied[a] = true
	}
	return s.saveAll()
}

// Allow lets denied actions pass again: these, or all.
func (s *Sim) Allow(actions ...string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(actions) == 0 {
		clear(s.denied)
	}
	for _, a := range actions {
		delete(s.denied, a)
	}
	return s.saveAll()
}
