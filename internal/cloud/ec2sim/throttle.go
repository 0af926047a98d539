package ec2sim

import (
	"strings"
	"time"
)

// bucket is a token bucket: EC2 gives each action one, and some actions another
// one for the instances that they touch.
type bucket struct {
	size   float64
	refill float64 // a second
	have   float64
	at     time.Time
}

func (b *bucket) take(n float64, now time.Time) bool {
	if b.at.IsZero() {
		b.have = b.size
	} else {
		b.have = min(b.size, b.have+now.Sub(b.at).Seconds()*b.refill)
	}
	b.at = now
	if b.have < n {
		return false
	}
	b.have -= n
	return true
}

// Request buckets of EC2's documentation ("Request throttling for the Amazon
// EC2 API") for what is served here; the default ones of an account.
func requestBucket(action string, plain bool) bucket {
	switch {
	case action == "RunInstances" || action == "StartInstances":
		return bucket{size: 5, refill: 2}
	case action == "CreateTags":
		return bucket{size: 100, refill: 10}
	case action == "TerminateInstances":
		return bucket{size: 100, refill: 5}
	case !strings.HasPrefix(action, "Describe") && !strings.HasPrefix(action, "Get"):
		return bucket{size: 50, refill: 5}
	case plain:
		return bucket{size: 50, refill: 10}
	}
	return bucket{size: 100, refill: 20}
}

// resourceBucket is of the instances that an action touches; size 0: none.
func resourceBucket(action string) bucket {
	switch action {
	case "RunInstances", "StartInstances":
		return bucket{size: 1000, refill: 2}
	case "TerminateInstances", "StopInstances":
		return bucket{size: 1000, refill: 20}
	}
	return bucket{}
}

// throttled reports whether a call is one too many.
func (s *Sim) throttled(c *call, now time.Time) bool {
	if !s.throttle {
		return false
	}
	plain := strings.HasPrefix(c.action, "Describe") && !c.sub("Filter").there() && !c.sub("MaxResults").set && !c.sub("InstanceId").there()
	key := c.action
	if plain {
		key += " unfiltered"
	}
	if !s.bucketOf(key, requestBucket(c.action, plain)).take(1, now) {
		return true
	}
	r := resourceBucket(c.action)
	if r.size == 0 {
		return false
	}
	n := len(c.sub("InstanceId").kids)
	if c.action == "RunInstances" {
		n = c.int("MaxCount", 1)
	}
	return !s.bucketOf(c.action+" resources", r).take(min(float64(n), r.size), now)
}

func (s *Sim) bucketOf(key string, b bucket) *bucket {
	if s.buckets[key] == nil {
		s.buckets[key] = &b
	}
	return s.buckets[key]
}
