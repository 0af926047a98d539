package local

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"time"

	"github.com/midair-hpc/midair/internal/cloud"
)

// tokenRecord is what a token has bought. Writing it commits a launch: records
// of instances that no token names are leftovers of a process that was killed.
type tokenRecord struct {
	Token      string      `json:"token"`
	Digest     string      `json:"digest"` // of the request
	CreatedAt  time.Time   `json:"created_at"`
	IDs        []string    `json:"ids"`
	Shortfalls []shortfall `json:"shortfalls"`
}

// shortfall is cloud.Shortfall as it is kept on disk, so that a repeated
// request gets the same answer.
type shortfall struct {
	Offering cloud.Offering `json:"offering"`
	Nodes    int            `json:"nodes"`
	Class    cloud.Class    `json:"class"`
	Code     string         `json:"code,omitempty"`
	Message  string         `json:"message"`
}

func short(o cloud.Offering, nodes int, e *cloud.Error) shortfall {
	return shortfall{Offering: o, Nodes: nodes, Class: e.Class, Code: e.Code, Message: e.Message}
}

func (s shortfall) cloud() cloud.Shortfall {
	return cloud.Shortfall{Offering: s.Offering, Nodes: s.Nodes, Err: &cloud.Error{Class: s.Class, Code: s.Code, Message: s.Message}}
}

// digest identifies what a request asks for: nodes, their generations and
// launches, and the offerings. Tags are not part of it: a restarted controller
// may know less about a job than before.
func digest(r cloud.LaunchRequest) (string, error) {
	type node struct {
		Name       string
		Generation int
		Launch     string
	}
	asked := struct {
		Cluster      string
		Nodes        []node
		Offerings    []cloud.Offering
		AllOrNothing bool
	}{Cluster: r.Cluster, Offerings: r.Offerings, AllOrNothing: r.AllOrNothing}
	for _, n := range r.Nodes {
		asked.Nodes = append(asked.Nodes, node{n.Name, n.Generation, n.Launch})
	}
	b, err := json.Marshal(asked)
	if err != nil {
		return "", fmt.Errorf("digest request %s: %w", r.Token, err)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}

var plainToken = regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}$`)

// fileName gives the name of a token's file. Tokens are the caller's text, so
// one that is no plain word is replaced by its hash.
func fileName(token string) string {
	if plainToken.MatchString(token) {
		return token + ".json"
	}
	sum := sha256.Sum256([]byte(token))
	return "sha256." + hex.EncodeToString(sum[:]) + ".json"
}
