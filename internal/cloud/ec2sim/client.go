package ec2sim

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/midair-hpc/midair/internal/cloud"
)

// Client speaks to the control API of a stand-in that another process serves.
type Client struct {
	URL string // such as http://127.0.0.1:4747
}

func (c Client) do(ctx context.Context, method, path string, body, reply any) error {
	var r io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return err
		}
		r = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(c.URL, "/")+"/_sim/"+path, r)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("reach the stand-in at %s (is midair ec2sim serve running there?): %w", c.URL, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("read the stand-in's answer: %w", err)
	}
	if resp.StatusCode >= 300 {
		return fmt.Errorf("%s", strings.TrimSpace(string(b)))
	}
	if reply == nil {
		return nil
	}
	if err := json.Unmarshal(b, reply); err != nil {
		return fmt.Errorf("read the stand-in's answer: %w", err)
	}
	return nil
}

// Status asks what goes on.
func (c Client) Status(ctx context.Context) (Status, error) {
	var st Status
	err := c.do(ctx, http.MethodGet, "status", nil, &st)
	return st, err
}

// Instances asks for all instances.
func (c Client) Instances(ctx context.Context) ([]Info, error) {
	var list []Info
	err := c.do(ctx, http.MethodGet, "instances", nil, &list)
	return list, err
}

// AddFault puts a fault in force and gives its id.
func (c Client) AddFault(ctx context.Context, f Fault) (int, error) {
	var reply struct{ ID int }
	err := c.do(ctx, http.MethodPost, "faults", f, &reply)
	return reply.ID, err
}

// Faults asks for the faults in force.
func (c Client) Faults(ctx context.Context) ([]Fault, error) {
	var list []Fault
	err := c.do(ctx, http.MethodGet, "faults", nil, &list)
	return list, err
}

// ClearFaults takes faults out of force: those with these ids, or all.
func (c Client) ClearFaults(ctx context.Context, ids ...int) error {
	if len(ids) == 0 {
		return c.do(ctx, http.MethodDelete, "faults", nil, nil)
	}
	for _, id := range ids {
		if err := c.do(ctx, http.MethodDelete, "faults/"+strconv.Itoa(id), nil, nil); err != nil {
			return err
		}
	}
	return nil
}

// SetCapacity says how many instances of an offering may run at a time.
func (c Client) SetCapacity(ctx context.Context, o cloud.Offering, n int) error {
	return c.do(ctx, http.MethodPost, "capacity", map[string]int{o.Key(): n}, nil)
}

// SetQuota sets a vCPU quota by its code.
func (c Client) SetQuota(ctx context.Context, code string, vcpus int) error {
	return c.do(ctx, http.MethodPost, "quotas", map[string]int{code: vcpus}, nil)
}

// SetSpotPrice changes a spot price from now on, in USD per hour.
func (c Client) SetSpotPrice(ctx context.Context, typ, zone string, price float64) error {
	return c.do(ctx, http.MethodPost, "prices", map[string]float64{typ + "/" + zone: price}, nil)
}

// SetLag changes the eventual consistency.
func (c Client) SetLag(ctx context.Context, l Lag) error {
	return c.do(ctx, http.MethodPost, "lag", lagJSON{Duration(l.ID), Duration(l.Address), Duration(l.Tags)}, nil)
}

// Interrupt has a spot instance taken back after a notice.
func (c Client) Interrupt(ctx context.Context, name string, notice time.Duration) error {
	d := Duration(notice)
	return c.do(ctx, http.MethodPost, "interrupt", onInstance{name, &d}, nil)
}

// Vanish ends an instance at once.
func (c Client) Vanish(ctx context.Context, name string) error {
	return c.do(ctx, http.MethodPost, "vanish", onInstance{Instance: name}, nil)
}

// Deny has actions refused; Allow takes it back, for all actions if none is
// named.
func (c Client) Deny(ctx context.Context, actions ...string) error {
	return c.do(ctx, http.MethodPost, "deny", onActions{actions}, nil)
}

// Allow lets denied actions pass again.
func (c Client) Allow(ctx context.Context, actions ...string) error {
	return c.do(ctx, http.MethodPost, "allow", onActions{actions}, nil)
}

// ExpireCredential makes a session end now; RenewCredentials takes it back.
func (c Client) ExpireCredential(ctx context.Context, accessKeyID string) error {
	return c.do(ctx, http.MethodPost, "expire", onKey{accessKeyID}, nil)
}

// RenewCredentials takes ExpireCredential back.
func (c Client) RenewCredentials(ctx context.Context) error {
	return c.do(ctx, http.MethodPost, "renew", nil, nil)
}

// Stop ends all instances and the stand-in, and tells how many it ended.
func (c Client) Stop(ctx context.Context) (ended int, err error) {
	var reply struct{ Ended int }
	err = c.do(ctx, http.MethodPost, "stop", nil, &reply)
	return reply.Ended, err
}
