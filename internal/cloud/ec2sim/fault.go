package ec2sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/midair-hpc/midair/internal/cloud"
)

// Fault is one way to misbehave, until it has done so Times times or is
// cleared. What it says of Action and of the offering must match; what is empty
// matches all. It has exactly one effect.
//
// With Type, Zone or Market, Error is met where instances are bought from such
// an offering: RunInstances fails with it, CreateFleet goes on with its other
// pools and reports it in its errorSet. Without, the whole call fails.
type Fault struct {
	ID     int          `json:"id"`
	Action string       `json:"action,omitempty"`
	Type   string       `json:"type,omitempty"`
	Zone   string       `json:"zone,omitempty"`
	Market cloud.Market `json:"market,omitempty"`
	Times  int          `json:"times,omitempty"` // 0: until cleared
	// After lets the call take effect before Error, Hang or Cut.
	After bool `json:"after,omitempty"`

	// Error is the code to fail with, with EC2's HTTP status unless Status says
	// another.
	Error   string `json:"error,omitempty"`
	Message string `json:"message,omitempty"`
	Status  int    `json:"status,omitempty"`
	// Hang is how long the answer is kept back. The call takes effect after it,
	// if its caller is still there, or before it with After.
	Hang Duration `json:"hang,omitempty"`
	// Cut ends the connection in place of an answer.
	Cut bool `json:"cut,omitempty"`
	// AtMost bounds how many instances a call gets from an offering.
	AtMost *int `json:"at_most,omitempty"`
	// NoBoot makes instances that run and never become nodes.
	NoBoot bool `json:"no_boot,omitempty"`
	// SlowTerminate keeps instances in shutting-down for that much longer.
	SlowTerminate Duration `json:"slow_terminate,omitempty"`
	// Odd is a field that instances are listed without (an XML name, such as
	// instanceState or placement), or one of the words in Oddities.
	Odd string `json:"odd,omitempty"`
}

// Duration is a time.Duration that JSON has in words, such as "2m".
type Duration time.Duration

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	*d = Duration(v)
	return err
}

// Oddities are fields that DescribeInstances can leave out, or have with
// strange contents.
var Oddities = []string{"instanceState", "placement", "launchTime", "instanceType", "tagSet", "instanceId", "strange-state"}

func (f Fault) check() error {
	effects := 0
	for _, is := range []bool{f.Error != "", f.Hang != 0, f.Cut, f.AtMost != nil, f.NoBoot, f.SlowTerminate != 0, f.Odd != ""} {
		if is {
			effects++
		}
	}
	switch {
	case effects != 1:
		return errors.New("a fault has one effect: error, hang, cut, at_most, no_boot, slow_terminate or odd")
	case f.Times < 0 || f.Hang < 0 || f.SlowTerminate < 0 || (f.AtMost != nil && *f.AtMost < 0):
		return errors.New("numbers and times of a fault are not below 0")
	case f.Market != "" && !slices.Contains(cloud.Markets, f.Market):
		return fmt.Errorf("market %q is none of on-demand, spot, reserved", f.Market)
	case f.Odd != "" && !slices.Contains(Oddities, f.Odd):
		return fmt.Errorf("odd %q is none of %s", f.Odd, strings.Join(Oddities, ", "))
	case f.Action != "" && !known(f.Action):
		return fmt.Errorf("action %q is none that the stand-in has: %s", f.Action, strings.Join(Actions(), ", "))
	case (f.Cut || f.Hang != 0) && f.offered():
		return errors.New("hang and cut are of a call; type, zone and market do not go with them")
	case f.Error != "" && f.offered() && f.Action != "" && f.Action != "RunInstances" && f.Action != "CreateFleet" && f.Action != "StartInstances":
		return fmt.Errorf("type, zone and market of an error are of what is bought; %s buys nothing", f.Action)
	}
	return nil
}

// offered reports whether the fault is of some offerings only.
func (f *Fault) offered() bool { return f.Type != "" || f.Zone != "" || f.Market != "" }

func (f *Fault) meets(action string, o cloud.Offering) bool {
	return (f.Action == "" || f.Action == action) && (f.Type == "" || f.Type == o.Type) && (f.Zone == "" || f.Zone == o.Zone) && (f.Market == "" || f.Market == o.Market)
}

func (f *Fault) failure() *Error {
	e := fail(f.Error, "%s", f.Message)
	if f.Message == "" {
		e.Message = "The stand-in was told to answer so."
	}
	if f.Status != 0 {
		e.Status = f.Status
	}
	return e
}

// AddFault puts a fault in force and gives its id.
func (s *Sim) AddFault(f Fault) (int, error) {
	if err := f.check(); err != nil {
		return 0, fmt.Errorf("add fault: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastFault++
	f.ID = s.lastFault
	s.faults = append(s.faults, &f)
	return f.ID, s.saveAll()
}

// ClearFaults takes faults out of force: those with these ids, or all.
func (s *Sim) ClearFaults(ids ...int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = slices.DeleteFunc(s.faults, func(f *Fault) bool { return len(ids) == 0 || slices.Contains(ids, f.ID) })
	return s.saveAll()
}

// Faults gives the faults in force.
func (s *Sim) Faults() []Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]Fault, 0, len(s.faults))
	for _, f := range s.faults {
		list = append(list, *f)
	}
	return list
}

// use finds a fault and counts it.
func (s *Sim) use(match func(f *Fault) bool) *Fault {
	for k, f := range s.faults {
		if !match(f) {
			continue
		}
		if f.Times > 0 {
			if f.Times--; f.Times == 0 {
				s.faults = slices.Delete(s.faults, k, k+1)
			}
			s.changed = true
		}
		return f
	}
	return nil
}

// callFault is a fault of a whole call.
func (s *Sim) callFault(action string) *Fault {
	return s.use(func(f *Fault) bool {
		return (f.Error != "" || f.Hang != 0 || f.Cut) && !f.offered() && (f.Action == "" || f.Action == action)
	})
}

// offerFault bounds what a call gets from an offering: an error, or a number.
func (s *Sim) offerFault(action string, o cloud.Offering) *Fault {
	return s.use(func(f *Fault) bool {
		return ((f.Error != "" && f.offered()) || f.AtMost != nil) && f.meets(action, o)
	})
}

func (s *Sim) instanceFault(o cloud.Offering, is func(f *Fault) bool) *Fault {
	return s.use(func(f *Fault) bool { return is(f) && f.meets(f.Action, o) })
}

// oddly gives an instance in a listing the oddity that a fault asks for.
func (s *Sim) oddly(x *instanceXML, o cloud.Offering) {
	if len(s.faults) == 0 {
		return
	}
	f := s.instanceFault(o, func(f *Fault) bool { return f.Odd != "" })
	if f == nil {
		return
	}
	switch f.Odd {
	case "instanceState":
		x.State = nil
	case "placement":
		x.Placement = nil
	case "launchTime":
		x.LaunchTime = ""
	case "instanceType":
		x.Type = ""
	case "tagSet":
		x.Tags = nil
	case "instanceId":
		x.ID = ""
	case "strange-state":
		x.State = &stateXML{7, "hovering"}
	}
}

// String says a fault in words, for people.
func (f Fault) String() string {
	b, err := json.Marshal(f)
	if err != nil {
		return err.Error()
	}
	return string(b)
}
