package ec2sim

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// signedRight reports whether a request has the signature that its caller's
// secret key makes (AWS Signature Version 4, in the Authorization header). How
// old it is is not looked at: the stand-in's clock may be another.
func signedRight(r *http.Request, body []byte, c caller, secret string) bool {
	date := r.Header.Get("X-Amz-Date")
	if !strings.HasPrefix(date, c.date+"T") || !slices.Contains(c.signed, "host") {
		return false
	}
	scope := strings.Join([]string{c.date, c.region, c.service, "aws4_request"}, "/")
	text := strings.Join([]string{"AWS4-HMAC-SHA256", date, scope, hexSum([]byte(canonicalRequest(r, body, c.signed)))}, "\n")
	key := []byte("AWS4" + secret)
	for _, part := range []string{c.date, c.region, c.service, "aws4_request"} {
		key = sum(key, part)
	}
	want, err := hex.DecodeString(c.signature)
	return err == nil && hmac.Equal(want, sum(key, text))
}

func canonicalRequest(r *http.Request, body []byte, signed []string) string {
	path := r.URL.EscapedPath()
	if path == "" {
		path = "/"
	}
	var headers strings.Builder
	for _, name := range signed {
		headers.WriteString(name + ":" + headerValue(r, name) + "\n")
	}
	payload := r.Header.Get("X-Amz-Content-Sha256")
	if payload == "" {
		payload = hexSum(body)
	}
	return strings.Join([]string{r.Method, path, canonicalQuery(r.URL.Query()), headers.String(), strings.Join(signed, ";"), payload}, "\n")
}

// headerValue is a header as it was signed. Two of them are no headers any more
// when a server has them.
func headerValue(r *http.Request, name string) string {
	switch name {
	case "host":
		return r.Host
	case "content-length":
		return strconv.FormatInt(r.ContentLength, 10)
	}
	values := r.Header.Values(name)
	list := make([]string, len(values))
	for i, v := range values {
		list[i] = strings.Join(strings.Fields(v), " ")
	}
	return strings.Join(list, ",")
}

func canonicalQuery(q url.Values) string { return strings.ReplaceAll(q.Encode(), "+", "%20") }

func sum(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

func hexSum(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}
