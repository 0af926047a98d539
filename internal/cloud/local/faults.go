package local

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/midair-hpc/midair/internal/cloud"
)

// Faults tells the local cloud how to misbehave. It is read from the file
// faults.json in the root at every call, so any process can change it at any
// time; UpdateFaults does so safely. The zero value is a cloud without faults.
//
// An offering is named by its key, type/zone/market.
type Faults struct {
	// Stock is how many instances of an offering can exist at a time; absent:
	// any number, 0: it is out of stock.
	Stock map[string]int `json:"stock,omitempty"`
	// MaxInstances and MaxCPUs are the account's quota; 0: none.
	MaxInstances int `json:"quota,omitempty"`
	MaxCPUs      int `json:"cpu_quota,omitempty"`
	// SpecMismatch lists offerings that turn out smaller than promised.
	SpecMismatch []string `json:"spec_mismatch,omitempty"`
	// NoRegister lists offerings and node names whose new instances boot but
	// never start slurmd.
	NoRegister []string `json:"no_register,omitempty"`
	// Vanish names nodes or instance ids whose instance disappears after it has
	// been running for the time given; 0: at once, even while it boots. An
	// entry is met once and then removed.
	Vanish map[string]Duration `json:"vanish,omitempty"`
	// BootDelay replaces the configured boot delay for an offering.
	BootDelay map[string]Duration `json:"boot_delay,omitempty"`
	// SlowDelete is how long an instance stays in shutting-down, running.
	SlowDelete Duration `json:"slow_delete,omitzero"`
	// ListLag hides instances from List until they are that old.
	ListLag Duration `json:"list_lag,omitzero"`
	// CreateDelay is how long the answer to a create call takes after the call
	// has taken effect.
	CreateDelay Duration `json:"create_delay,omitzero"`
	// Hang: create calls take effect, but no answer ever comes.
	Hang bool `json:"hang,omitempty"`
	// LoseAnswer: this many create calls take effect, but fail ambiguously.
	LoseAnswer int `json:"lose_answer,omitempty"`
	// Unknown: this many create calls fail with a code that nobody classified,
	// and nothing is created.
	Unknown int `json:"unknown,omitempty"`
	// Throttle: this many calls of any kind are refused as too many.
	Throttle int `json:"throttle,omitempty"`
	// Unauthorized: every call is refused for lack of permission.
	Unauthorized bool `json:"unauthorized,omitempty"`
}

// Duration is a time.Duration that is written as people write it, "1m30s".
type Duration time.Duration

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil {
		return fmt.Errorf("read duration %q: want a number with unit, such as 90s or 3m", b)
	}
	*d = Duration(v)
	return nil
}

// Validate names the first thing in the faults that cannot be meant.
func (f Faults) Validate() error {
	for key, n := range f.Stock {
		if _, err := cloud.ParseOffering(key); err != nil {
			return fmt.Errorf("stock: %w", err)
		}
		if n < 0 {
			return fmt.Errorf("stock of %s: %d is negative", key, n)
		}
	}
	for _, key := range f.SpecMismatch {
		if _, err := cloud.ParseOffering(key); err != nil {
			return fmt.Errorf("spec_mismatch: %w", err)
		}
	}
	for key, d := range f.BootDelay {
		if _, err := cloud.ParseOffering(key); err != nil {
			return fmt.Errorf("boot_delay: %w", err)
		}
		if d < 0 {
			return fmt.Errorf("boot_delay of %s: %s is negative", key, time.Duration(d))
		}
	}
	for key, d := range f.Vanish {
		if d < 0 {
			return fmt.Errorf("vanish of %s: %s is negative", key, time.Duration(d))
		}
	}
	for _, c := range []struct {
		name  string
		value int64
	}{
		{"quota", int64(f.MaxInstances)}, {"cpu_quota", int64(f.MaxCPUs)}, {"slow_delete", int64(f.SlowDelete)},
		{"list_lag", int64(f.ListLag)}, {"create_delay", int64(f.CreateDelay)}, {"lose_answer", int64(f.LoseAnswer)},
		{"unknown", int64(f.Unknown)}, {"throttle", int64(f.Throttle)},
	} {
		if c.value < 0 {
			return fmt.Errorf("%s is negative", c.name)
		}
	}
	return nil
}

func (f Faults) noRegister(o cloud.Offering, node string) bool {
	return slices.Contains(f.NoRegister, o.Key()) || slices.Contains(f.NoRegister, node)
}

func faultsPath(root string) string { return filepath.Join(root, "faults.json") }

// ReadFaults reads the faults of the local cloud with this root. No file means
// no faults.
func ReadFaults(root string) (Faults, error) {
	b, err := os.ReadFile(faultsPath(root))
	if errors.Is(err, os.ErrNotExist) {
		return Faults{}, nil
	}
	if err != nil {
		return Faults{}, fmt.Errorf("read faults: %w", err)
	}
	f, err := parseFaults(b)
	if err != nil {
		return Faults{}, fmt.Errorf("read faults file %s: %w; correct it or run midair local fault clear", faultsPath(root), err)
	}
	return f, nil
}

func parseFaults(b []byte) (Faults, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	var f Faults
	if err := d.Decode(&f); err != nil {
		return Faults{}, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Faults{}, errors.New("there is more text after the end")
	}
	return f, f.Validate()
}

// WriteFaults replaces the faults of the local cloud with this root.
func WriteFaults(root string, f Faults) error {
	return changeFaults(root, func(string) (Faults, error) { return f, nil })
}

// UpdateFaults changes the faults of the local cloud with this root, under its
// lock, so that no count that a call decrements at the same time is lost.
func UpdateFaults(root string, change func(*Faults)) error {
	return changeFaults(root, func(root string) (Faults, error) {
		f, err := ReadFaults(root)
		if err == nil {
			change(&f)
		}
		return f, err
	})
}

// FaultNames are the names of all faults, as the file has them.
func FaultNames() []string {
	t := reflect.TypeFor[Faults]()
	names := make([]string, 0, t.NumField())
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}

// ClearFaults takes away the faults with these names. Dashes count as
// underscores, as the options of midair local fault set are written.
func ClearFaults(root string, names ...string) error {
	fields := map[string]int{}
	for i, n := range FaultNames() {
		fields[n] = i
	}
	for i, n := range names {
		names[i] = strings.ReplaceAll(n, "-", "_")
		if _, ok := fields[names[i]]; !ok {
			return fmt.Errorf("clear faults: there is no fault %q; there are %s", n, strings.Join(FaultNames(), ", "))
		}
	}
	return UpdateFaults(root, func(f *Faults) {
		for _, n := range names {
			reflect.ValueOf(f).Elem().Field(fields[n]).SetZero()
		}
	})
}

func changeFaults(root string, next func(root string) (Faults, error)) error {
	if err := os.MkdirAll(root, 0o755); err != nil {
		return fmt.Errorf("write faults: %w", err)
	}
	lock, err := lockFile(context.Background(), lockPath(root))
	if err != nil {
		return err
	}
	defer lock.Close()
	f, err := next(root)
	if err != nil {
		return err
	}
	if err := f.Validate(); err != nil {
		return fmt.Errorf("write faults: %w", err)
	}
	return writeFaults(root, f)
}

func writeFaults(root string, f Faults) error {
	if err := writeJSON(faultsPath(root), f); err != nil {
		return fmt.Errorf("write faults: %w", err)
	}
	return nil
}

// refuseAll meets the faults that concern every call.
func refuseAll(v *view) error {
	if v.faultsErr != nil {
		return &cloud.Error{Class: cloud.Config, Message: v.faultsErr.Error(), Err: v.faultsErr}
	}
	if v.faults.Unauthorized {
		return &cloud.Error{Class: cloud.Unauthorized, Code: "UnauthorizedOperation", Message: "midair may not perform this operation"}
	}
	if v.faults.Throttle > 0 {
		v.faults.Throttle--
		if err := v.putFaults(); err != nil {
			return err
		}
		return &cloud.Error{Class: cloud.Throttled, Code: "RequestLimitExceeded", Message: "too many calls to the cloud's interface"}
	}
	return nil
}
