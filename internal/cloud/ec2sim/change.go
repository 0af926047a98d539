package ec2sim

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/midair-hpc/midair/internal/cloud"
)

type stateChangeXML struct {
	ID       string   `xml:"instanceId"`
	Current  stateXML `xml:"currentState"`
	Previous stateXML `xml:"previousState"`
}

type stateChangeReply struct {
	Instances []stateChangeXML `xml:"instancesSet>item"`
}

func (s *Sim) terminateInstances(c *call) op {
	ids := c.strs("InstanceId")
	c.ignore("Force", "SkipOsShutdown")
	needIDs(c, ids)
	return func(now time.Time) (any, *Error) {
		found, e := s.find(ids, now)
		if e != nil {
			return nil, e
		}
		reply := &stateChangeReply{}
		for _, i := range found {
			before := stateOf(i.State)
			if i.State != cloud.ShuttingDown && i.State != cloud.Terminated {
				s.end(i, now, userShutdown, "User initiated shutdown")
			}
			reply.Instances = append(reply.Instances, stateChangeXML{i.ID, stateOf(i.State), before})
		}
		return reply, nil
	}
}

func needIDs(c *call, ids []string) {
	if len(ids) == 0 {
		c.bad(fail("MissingParameter", "The request must contain the parameter InstanceId"))
	}
}

// maxTagged is how many resources one CreateTags may name.
const maxTagged = 1000

type createTagsReply struct {
	Return bool `xml:"return"`
}

func (s *Sim) createTags(c *call) op {
	ids, list := c.strs("ResourceId"), tags(&c.node)
	switch {
	case len(ids) == 0:
		c.bad(fail("MissingParameter", "The request must contain the parameter resourceIdSet"))
	case len(list) == 0:
		c.bad(fail("MissingParameter", "The request must contain the parameter tagSet"))
	case len(ids) > maxTagged:
		c.bad(fail("InvalidParameterValue", "The request names more than %d resources", maxTagged))
	}
	return func(now time.Time) (any, *Error) {
		for _, id := range ids {
			if !strings.HasPrefix(id, "i-") {
				return nil, fail("InvalidID", "The ID '%s' is not valid; only instances can be tagged here", id)
			}
		}
		found, e := s.find(ids, now)
		if e != nil {
			return nil, e
		}
		for _, i := range found {
			if i.State == cloud.Terminated {
				return nil, fail("InvalidInstanceID.NotFound", "The instance ID '%s' does not exist", i.ID)
			}
			all := map[string]bool{}
			for key := range i.tags(now) {
				all[key] = !strings.HasPrefix(key, "aws:")
			}
			for _, w := range i.Pending {
				all[w.Key] = true
			}
			for key := range list {
				all[key] = true
			}
			n := 0
			for _, own := range all {
				n += (sign(own) + 1) / 2
			}
			if n > maxTags {
				return nil, tooManyTags()
			}
		}
		for _, i := range found {
			for _, key := range slices.Sorted(maps.Keys(list)) {
				i.Pending = append(i.Pending, tagWrite{now.Add(s.lag.Tags), key, list[key]})
			}
			s.planBoot(i, now)
			s.touch(i)
		}
		return &createTagsReply{true}, nil
	}
}
