package ec2sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/midair-hpc/midair/internal/cloud"
)

// The state folder has one file for each instance and one for the rest. A call
// is answered when what it changed is there, so that a cloud that is killed and
// started again knows all it has promised.
//
//	cloud.json         tokens, faults, capacity, quotas, prices
//	instances/ID.json

// state is cloud.json.
type state struct {
	Version      int                     `json:"version"`
	Seq          uint64                  `json:"seq"`
	PriceSeed    uint64                  `json:"price_seed"`
	Lag          Lag                     `json:"lag"`
	Capacity     map[string]int          `json:"capacity"`
	Quotas       map[string]int          `json:"quotas"`
	Prices       map[string][]pricePoint `json:"prices"`
	Tokens       map[string]*token       `json:"tokens"`
	Reservations []Reservation           `json:"reservations"`
	Faults       []*Fault                `json:"faults"`
	LastFault    int                     `json:"last_fault"`
	Denied       map[string]bool         `json:"denied"`
	Expired      map[string]bool         `json:"expired"`
	Asked        map[string]bool         `json:"asked"`
}

const stateVersion = 1

// touch marks an instance to be written.
func (s *Sim) touch(i *instance) {
	if s.dir != "" {
		s.touched[i.ID] = true
	}
}

// saveAll writes what has changed, all but instances included.
func (s *Sim) saveAll() error {
	s.changed = true
	return s.save()
}

// save writes what has changed.
func (s *Sim) save() error {
	if s.dir == "" {
		s.changed = false
		return nil
	}
	for id := range s.touched {
		path := filepath.Join(s.dir, "instances", id+".json")
		i := s.instances[id]
		var err error
		if i == nil {
			if err = os.Remove(path); errors.Is(err, os.ErrNotExist) {
				err = nil
			}
		} else {
			err = writeJSON(path, i)
		}
		if err != nil {
			return fmt.Errorf("write instance %s: %w", id, err)
		}
		delete(s.touched, id)
	}
	if !s.changed {
		return nil
	}
	err := writeJSON(filepath.Join(s.dir, "cloud.json"), state{
		stateVersion, s.seq, s.priceSeed, s.lag, s.capacity, s.quotas, s.prices, s.tokens, s.reservations, s.faults, s.lastFault, s.denied, s.expired, s.asked,
	})
	if err != nil {
		return fmt.Errorf("write the cloud's state: %w", err)
	}
	s.changed = false
	return nil
}

func writeJSON(path string, what any) error {
	b, err := json.Marshal(what)
	if err != nil {
		return err
	}
	tmp := path + ".tmp"
	if err := os.WriteFile(tmp, append(b, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

// load reads the state folder, which may be new.
func (s *Sim) load() error {
	if err := os.MkdirAll(filepath.Join(s.dir, "instances"), 0o755); err != nil {
		return fmt.Errorf("make the state folder: %w", err)
	}
	path := filepath.Join(s.dir, "cloud.json")
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return s.saveAll()
	}
	if err != nil {
		return fmt.Errorf("read the cloud's state: %w", err)
	}
	st := state{Capacity: s.capacity, Quotas: s.quotas, Prices: s.prices, Tokens: s.tokens, Denied: s.denied, Expired: s.expired, Asked: s.asked}
	if err := json.Unmarshal(b, &st); err != nil {
		return fmt.Errorf("read the cloud's state %s: %w", path, err)
	}
	if st.Version != stateVersion {
		return fmt.Errorf("read the cloud's state %s: version %d is not %d; end this cloud with the midair that made it", path, st.Version, stateVersion)
	}
	s.seq, s.priceSeed, s.lag, s.capacity, s.quotas, s.prices, s.tokens = st.Seq, st.PriceSeed, st.Lag, st.Capacity, st.Quotas, st.Prices, st.Tokens
	s.reservations, s.faults, s.lastFault, s.denied, s.expired, s.asked = st.Reservations, st.Faults, st.LastFault, st.Denied, st.Expired, st.Asked
	return s.loadInstances()
}

func (s *Sim) loadInstances() error {
	files, err := os.ReadDir(filepath.Join(s.dir, "instances"))
	if err != nil {
		return fmt.Errorf("list instances: %w", err)
	}
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".json") {
			continue
		}
		path := filepath.Join(s.dir, "instances", f.Name())
		b, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("read instance: %w", err)
		}
		i := &instance{place: -1}
		if err := json.Unmarshal(b, i); err != nil {
			return fmt.Errorf("read instance %s: %w", path, err)
		}
		if s.types[i.Offering.Type] == nil || s.subnets[i.Subnet] == nil {
			return fmt.Errorf("read instance %s: its type %s or subnet %s is not in the catalogue; use the catalogue it was bought from", path, i.Offering.Type, i.Subnet)
		}
		s.instances[i.ID] = i
		s.order = append(s.order, i)
		s.seq = max(s.seq, i.Seq)
		s.adopt(i)
	}
	sortBySeq(s.order)
	return nil
}

// adopt enters a loaded instance in the books.
func (s *Sim) adopt(i *instance) {
	if i.holdsCapacity() {
		s.inUse[i.Offering]++
		if i.CapacityID != "" {
			s.reserved[i.CapacityID]++
		}
	}
	if i.counts() {
		s.count(i, 1)
	}
	if i.State != cloud.Terminated {
		s.subnets[i.Subnet].used[i.Addr] = true
	}
	s.schedule(i)
}

// resume takes up the work on machines that an earlier process left.
func (s *Sim) resume(now time.Time) {
	for _, i := range s.order {
		if i.Next != "" && i.NextAt.IsZero() {
			// It may have been started without being recorded.
			i.Running = true
		}
		if i.Booted != i.Running {
			s.power(i, i.Booted)
		}
	}
}
