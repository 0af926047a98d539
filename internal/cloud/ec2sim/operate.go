package ec2sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/midair-hpc/midair/internal/cloud"
)

// Status is what the control API says of the cloud.
type Status struct {
	Region    string                      `json:"region"`
	Instances map[cloud.InstanceState]int `json:"instances"`
	VCPUs     map[string]int              `json:"vcpus"` // in use, by quota code
	Calls     map[string]int              `json:"calls"`
	Faults    []Fault                     `json:"faults"`
	Denied    []string                    `json:"denied"`
	Expired   []string                    `json:"expired"`
}

// Info is an instance as whoever runs the cloud sees it: no lag, no faults.
type Info struct {
	ID          string              `json:"id"`
	Offering    cloud.Offering      `json:"offering"`
	State       cloud.InstanceState `json:"state"`
	Reason      string              `json:"reason,omitempty"`
	Addr        string              `json:"addr"`
	Token       string              `json:"token,omitempty"`
	Reservation string              `json:"capacity_reservation,omitempty"`
	CreatedAt   time.Time           `json:"created_at"`
	EndedAt     time.Time           `json:"ended_at,omitzero"`
	InterruptAt time.Time           `json:"interrupt_at,omitzero"`
	Machine     bool                `json:"machine"` // one runs for it
	Tags        map[string]string   `json:"tags"`
}

// Status gives what goes on.
func (s *Sim) Status() Status {
	st := Status{Region: s.cat.Region, Instances: map[cloud.InstanceState]int{}, VCPUs: map[string]int{}, Calls: map[string]int{}, Faults: []Fault{}, Denied: []string{}, Expired: []string{}}
	s.locked(func(time.Time) {
		for _, i := range s.order {
			st.Instances[i.State]++
		}
		for code, n := range s.vcpus {
			if n != 0 {
				st.VCPUs[code] = n
			}
		}
		for a, n := range s.calls {
			st.Calls[a] = n
		}
		for _, f := range s.faults {
			st.Faults = append(st.Faults, *f)
		}
		for a := range s.denied {
			st.Denied = append(st.Denied, a)
		}
		for k := range s.expired {
			st.Expired = append(st.Expired, k)
		}
	})
	slices.Sort(st.Denied)
	slices.Sort(st.Expired)
	return st
}

// Instances gives all instances that the cloud remembers, the oldest first.
func (s *Sim) Instances() []Info {
	list := []Info{}
	s.locked(func(now time.Time) {
		for _, i := range s.order {
			list = append(list, i.info())
		}
	})
	return list
}

func (i *instance) info() Info {
	tags := map[string]string{}
	for k, v := range i.Tags {
		tags[k] = v
	}
	for _, w := range i.Pending {
		tags[w.Key] = w.Value
	}
	return Info{
		ID: i.ID, Offering: i.Offering, State: i.State, Reason: i.Reason, Addr: i.Addr.String(), Token: i.Token, Reservation: i.CapacityID,
		CreatedAt: i.CreatedAt, EndedAt: i.EndedAt, InterruptAt: i.InterruptAt, Machine: i.machine.Running, Tags: tags,
	}
}

// SetLag changes the eventual consistency.
func (s *Sim) SetLag(l Lag) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lag = l
	return s.saveAll()
}

// ResetCalls sets the counters of calls to zero.
func (s *Sim) ResetCalls() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.calls)
}

// Interrupt has the cloud take a spot instance back after a notice, which at
// EC2 is two minutes.
func (s *Sim) Interrupt(name string, notice time.Duration) error {
	return s.onLive("interrupt", name, func(i *instance, now time.Time) error {
		if i.Offering.Market != cloud.Spot {
			return fmt.Errorf("interrupt %s: it is %s; only spot instances are interrupted", i.ID, i.Offering.Market)
		}
		i.InterruptAt = now.Add(notice)
		s.schedule(i)
		s.touch(i)
		return nil
	})
}

// Vanish ends an instance at once and without notice, as when its host fails.
func (s *Sim) Vanish(name string) error {
	return s.onLive("vanish", name, func(i *instance, now time.Time) error {
		s.end(i, now, hostFailed, "Internal error")
		i.NextAt = now
		s.schedule(i)
		return nil
	})
}

// onLive does something to a live instance, by its id or the node that it is.
func (s *Sim) onLive(verb, name string, do func(i *instance, now time.Time) error) (err error) {
	s.locked(func(now time.Time) {
		for _, i := range s.order {
			live := i.State == cloud.Pending || i.State == cloud.Running
			if live && (i.ID == name || i.tags(now)[cloud.TagNode] == name) {
				err = do(i, now)
				return
			}
		}
		err = fmt.Errorf("%s: no live instance or node is named %q", verb, name)
	})
	s.Settle()
	return err
}
