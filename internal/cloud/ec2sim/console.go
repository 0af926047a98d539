package ec2sim

import (
	"encoding/base64"
	"time"

	"github.com/midair-hpc/midair/internal/cloud"
)

// consoleSize is how much of its console EC2 gives.
const consoleSize = 64 << 10

type consoleReply struct {
	ID     string `xml:"instanceId"`
	At     string `xml:"timestamp"`
	Output string `xml:"output"` // base64
}

func (s *Sim) getConsoleOutput(c *call) op {
	id := c.str("InstanceId")
	c.ignore("Latest")
	if id == "" {
		c.bad(fail("MissingParameter", "The request must contain the parameter InstanceId"))
	}
	return func(now time.Time) (any, *Error) {
		found, e := s.find([]string{id}, now)
		if e != nil {
			return nil, e
		}
		i := found[0]
		text := ""
		if i.State != cloud.Pending {
			text = s.console(i)
		}
		if len(text) > consoleSize {
			text = text[len(text)-consoleSize:]
		}
		return &consoleReply{i.ID, stamp(now), base64.StdEncoding.EncodeToString([]byte(text))}, nil
	}
}
