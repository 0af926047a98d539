package ec2sim

import (
	"time"

	"github.com/midair-hpc/midair/internal/cloud"
)

func (s *Sim) stopInstances(c *call) op {
	ids, hibernate := c.strs("InstanceId"), c.bool("Hibernate")
	c.ignore("Force", "SkipOsShutdown")
	needIDs(c, ids)
	return func(now time.Time) (any, *Error) {
		found, e := s.find(ids, now)
		if e != nil {
			return nil, e
		}
		for _, i := range found {
			if e := stoppable(i, hibernate); e != nil {
				return nil, e
			}
		}
		reply := &stateChangeReply{}
		for _, i := range found {
			before := stateOf(i.State)
			if i.State == cloud.Running || i.State == cloud.Pending {
				i.Transition = "User initiated (" + now.Format("2006-01-02 15:04:05 GMT") + ")"
				i.ReasonCode, i.Reason = userShutdown, userShutdown+": User initiated shutdown"
				if hibernate {
					i.ReasonCode, i.Reason = "Client.UserInitiatedHibernate", "Client.UserInitiatedHibernate: User initiated hibernate"
				}
				s.move(i, cloud.Stopping, now)
			}
			reply.Instances = append(reply.Instances, stateChangeXML{i.ID, stateOf(i.State), before})
		}
		return reply, nil
	}
}

func stoppable(i *instance, hibernate bool) *Error {
	switch {
	case i.State == cloud.ShuttingDown || i.State == cloud.Terminated:
		return fail("IncorrectInstanceState", "This instance '%s' is not in a state from which it can be stopped.", i.ID)
	case i.Offering.Market == cloud.Spot:
		// Only persistent spot requests can be stopped; here all are one-time.
		return fail("UnsupportedOperation", "You can't stop the Spot Instance '%s' because it is associated with a one-time Spot Instance request. You can only stop Spot Instances associated with persistent Spot Instance requests.", i.ID)
	case hibernate && !i.Data.Hibernation:
		return fail("UnsupportedHibernationConfiguration", "The instance '%s' is not enabled for hibernation.", i.ID)
	case hibernate && i.State == cloud.Pending:
		return fail("UnsupportedOperation", "Instance '%s' is not ready to hibernate yet, retry in a few minutes.", i.ID)
	}
	return nil
}

func (s *Sim) startInstances(c *call) op {
	ids := c.strs("InstanceId")
	c.ignore("AdditionalInfo")
	needIDs(c, ids)
	return func(now time.Time) (any, *Error) {
		found, e := s.find(ids, now)
		if e != nil {
			return nil, e
		}
		// All or none: what the first ones take the later ones do not have.
		taken := map[cloud.Offering]int{}
		for _, i := range found {
			switch i.State {
			case cloud.Running, cloud.Pending:
				continue
			case cloud.Stopped:
			default:
				return nil, fail("IncorrectInstanceState", "The instance '%s' is not in a state from which it can be started.", i.ID)
			}
			taken[i.Offering]++
			if n, e := s.room(s.again(i), taken[i.Offering], now); n < taken[i.Offering] {
				return nil, e
			}
		}
		reply := &stateChangeReply{}
		for _, i := range found {
			before := stateOf(i.State)
			if i.State == cloud.Stopped {
				i.ReasonCode, i.Reason, i.Transition = "", "", ""
				i.LaunchedAt = now
				s.move(i, cloud.Pending, now)
			}
			reply.Instances = append(reply.Instances, stateChangeXML{i.ID, stateOf(i.State), before})
		}
		return reply, nil
	}
}

// again is the wish to have a stopped instance back. It has its address still.
func (s *Sim) again(i *instance) wish {
	return wish{offering: i.Offering, reservation: s.reservation(i.CapacityID)}
}
