package ec2sim

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/midair-hpc/midair/internal/cloud"
)

// The control API is for whoever runs the stand-in: JSON below /_sim/, without
// credentials.
//
//	GET    /_sim/status
//	GET    /_sim/instances
//	GET    /_sim/faults, POST one, DELETE all or /_sim/faults/ID
//	POST   /_sim/capacity      {"type/zone/market": n}
//	POST   /_sim/quotas        {"L-…": vcpus}
//	POST   /_sim/prices        {"type/zone": usd}
//	POST   /_sim/lag           {"id": "2s", "address": …, "tags": …}
//	POST   /_sim/interrupt     {"instance": "i-… or node", "notice": "2m"}
//	POST   /_sim/vanish        {"instance": …}
//	POST   /_sim/deny          {"actions": […]}, /_sim/allow the same
//	POST   /_sim/expire        {"access_key": …}, /_sim/renew
//	DELETE /_sim/calls         sets the counters to zero
//	POST   /_sim/stop          ends all instances and the stand-in

// control adds the control API.
func (s *Sim) control(mux *http.ServeMux) {
	mux.HandleFunc("GET /_sim/status", func(w http.ResponseWriter, _ *http.Request) { give(w, s.Status()) })
	mux.HandleFunc("GET /_sim/instances", func(w http.ResponseWriter, _ *http.Request) { give(w, s.Instances()) })
	mux.HandleFunc("GET /_sim/faults", func(w http.ResponseWriter, _ *http.Request) { give(w, s.Faults()) })
	mux.HandleFunc("POST /_sim/faults", take(func(f Fault) (any, error) {
		id, err := s.AddFault(f)
		return map[string]int{"id": id}, err
	}))
	mux.HandleFunc("DELETE /_sim/faults", func(w http.ResponseWriter, _ *http.Request) { done(w, s.ClearFaults()) })
	mux.HandleFunc("DELETE /_sim/faults/{id}", func(w http.ResponseWriter, r *http.Request) {
		id, err := strconv.Atoi(r.PathValue("id"))
		if err == nil && !slices.ContainsFunc(s.Faults(), func(f Fault) bool { return f.ID == id }) {
			err = fmt.Errorf("there is no fault %d", id)
		}
		if err == nil {
			err = s.ClearFaults(id)
		}
		done(w, err)
	})
	mux.HandleFunc("POST /_sim/capacity", take(func(m map[string]int) (any, error) {
		for key, n := range m {
			o, err := cloud.ParseOffering(key)
			if err == nil {
				err = s.SetCapacity(o, n)
			}
			if err != nil {
				return nil, err
			}
		}
		return nil, nil
	}))
	mux.HandleFunc("POST /_sim/quotas", take(func(m map[string]int) (any, error) {
		for code, n := range m {
			if err := s.SetQuota(code, n); err != nil {
				return nil, err
			}
		}
		return nil, nil
	}))
	mux.HandleFunc("POST /_sim/prices", take(s.takePrices))
	mux.HandleFunc("POST /_sim/lag", take(func(l lagJSON) (any, error) {
		return nil, s.SetLag(Lag{time.Duration(l.ID), time.Duration(l.Address), time.Duration(l.Tags)})
	}))
	mux.HandleFunc("POST /_sim/interrupt", take(func(r onInstance) (any, error) {
		notice := spotNotice
		if r.Notice != nil {
			notice = time.Duration(*r.Notice)
		}
		return nil, s.Interrupt(r.Instance, notice)
	}))
	mux.HandleFunc("POST /_sim/vanish", take(func(r onInstance) (any, error) { return nil, s.Vanish(r.Instance) }))
	mux.HandleFunc("POST /_sim/deny", take(func(r onActions) (any, error) { return nil, s.Deny(r.Actions...) }))
	mux.HandleFunc("POST /_sim/allow", take(func(r onActions) (any, error) { return nil, s.Allow(r.Actions...) }))
	mux.HandleFunc("POST /_sim/expire", take(func(r onKey) (any, error) { return nil, s.ExpireCredential(r.AccessKey) }))
	mux.HandleFunc("POST /_sim/renew", func(w http.ResponseWriter, _ *http.Request) { done(w, s.RenewCredentials()) })
	mux.HandleFunc("DELETE /_sim/calls", func(w http.ResponseWriter, _ *http.Request) { s.ResetCalls(); done(w, nil) })
	mux.HandleFunc("POST /_sim/stop", func(w http.ResponseWriter, r *http.Request) {
		ended, err := s.Destroy(r.Context())
		if err != nil {
			done(w, err)
			return
		}
		give(w, map[string]int{"ended": ended})
	})
	mux.HandleFunc("/_sim/", func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "the control API has no "+r.Method+" "+r.URL.Path, http.StatusNotFound)
	})
}

type lagJSON struct {
	ID      Duration `json:"id"`
	Address Duration `json:"address"`
	Tags    Duration `json:"tags"`
}

type onInstance struct {
	Instance string    `json:"instance"`
	Notice   *Duration `json:"notice,omitempty"`
}

type onActions struct {
	Actions []string `json:"actions"`
}

type onKey struct {
	AccessKey string `json:"access_key"`
}

func (s *Sim) takePrices(m map[string]float64) (any, error) {
	for key, price := range m {
		typ, zone, _ := strings.Cut(key, "/")
		if err := s.SetSpotPrice(typ, zone, price); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// take reads a JSON request, strictly, and answers with what do gives.
func take[T any](do func(T) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var req T
		d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody))
		d.DisallowUnknownFields()
		if err := d.Decode(&req); err != nil {
			done(w, fmt.Errorf("read the request: %w", err))
			return
		}
		reply, err := do(req)
		if err != nil || reply == nil {
			done(w, err)
			return
		}
		give(w, reply)
	}
}

func give(w http.ResponseWriter, reply any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(reply)
}

// done answers with an error, if there is one, as plain text.
func done(w http.ResponseWriter, err error) {
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
