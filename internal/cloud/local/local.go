// Package local is the embedded cloud: a provider whose instances are cells on
// this machine, each with an address, a host name, a boot delay and a slurmd of
// its own. It lets people try midair on a laptop, with every failure that a
// real cloud has, told by a faults file (see Faults).
//
// Everything it knows is on disk below Options.Local.Root, so that the "cloud"
// outlives the controller, and any number of processes may use the same root:
//
//	instances/ID.json  one record per instance
//	console/ID.log     what the instance printed
//	tokens/TOKEN.json  what was asked for with this token, and the answer
//	faults.json        how to misbehave
//	dev/nvidiaN        GPUs: character devices like /dev/null; gres.conf names them
//	lock, tokens.lock  see registry
//
// Instances share the machine's files. Whatever a slurmd writes must therefore
// be told apart by %n in slurm.conf: SlurmdSpoolDir, SlurmdPidFile and
// SlurmdLogFile.
//
// Instances are processes, so they do not survive a reboot: they are then
// listed as vanished. Records are not synced to disk for the same reason.
package local

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/midair-hpc/midair/internal/cell"
	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/cloud/cells"
	"github.com/midair-hpc/midair/internal/config"
)

// Options says what cloud to open. Local.Root, Local.Network, Local.Slurmd and
// Local.Types are required.
type Options struct {
	Name  string // the provider's name in midair.yaml, for messages
	Local config.Local
	// SlurmConf is handed to slurmd as -f; empty: Slurm's default.
	SlurmConf string
	// InitPath is the cell init; empty: midair-cellinit beside this executable.
	InitPath string
	// Argv is run in the instances instead of slurmd; %n in it becomes the
	// node's name. It is for tests, which have no slurmctld.
	Argv []string
	Now  func() time.Time // nil: time.Now
	Rand io.Reader        // for instance ids; nil: crypto/rand
	Log  *slog.Logger     // nil: slog.Default()
}

// Provider is the local cloud. It is safe for concurrent use, also by several
// processes with the same root.
type Provider struct {
	name      string
	root      string
	network   netip.Prefix
	bootDelay time.Duration
	slurmd    cells.Slurmd
	types     map[string]config.LocalType

	cells  machines
	layout *cells.Cells // says what cells are like
	reg    *registry
	now    func() time.Time
	rand   io.Reader
	log    *slog.Logger
	// reached is called as Launch passes each of its steps; tests end the
	// process there.
	reached func(step string)

	mu     sync.Mutex
	alarm  *time.Timer // for the next thing that happens by itself
	closed bool
}

var _ cloud.Provider = (*Provider)(nil)

// machines runs what instances are made of; see cells.Cells.
type machines interface {
	Prepare() error
	Start(ctx context.Context, s cell.Spec) (process, error)
	Alive(p process) bool
	Kill(p process) error
	Wait(ctx context.Context, p process) error
	Sweep(consoles []string) error
	Remove() error
}

// Open checks the options. It touches neither disk nor network: the root is
// made by the first call that needs it, the bridge by the first Launch.
func Open(o Options) (*Provider, error) {
	network, err := parseNetwork(o.Local.Network)
	if err != nil {
		return nil, err
	}
	if o.Local.Root == "" {
		return nil, errors.New("open local cloud: no root folder; set root in midair.yaml, such as /var/lib/midair/local")
	}
	root, err := filepath.Abs(o.Local.Root)
	if err != nil {
		return nil, fmt.Errorf("open local cloud: %w", err)
	}
	if o.Local.BootDelay < 0 {
		return nil, fmt.Errorf("open local cloud: boot_delay %s is negative", o.Local.BootDelay)
	}
	if o.Local.Slurmd == "" && o.Argv == nil {
		return nil, errors.New("open local cloud: no slurmd; set slurmd in midair.yaml, such as /usr/sbin/slurmd")
	}
	if o.InitPath == "" {
		self, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("open local cloud: find %s: %w", cell.InitName, err)
		}
		o.InitPath = filepath.Join(filepath.Dir(self), cell.InitName)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Rand == nil {
		o.Rand = rand.Reader
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	p := &Provider{
		name: o.Name, root: root, network: network, bootDelay: o.Local.BootDelay,
		slurmd: cells.Slurmd{Path: o.Local.Slurmd, Conf: o.SlurmConf, Argv: o.Argv}, types: map[string]config.LocalType{},
		now: o.Now, rand: o.Rand, log: o.Log.With("provider", o.Name), reached: func(string) {},
	}
	for _, t := range o.Local.Types {
		if _, twice := p.types[t.Name]; twice {
			return nil, fmt.Errorf("open local cloud: type %s is there twice", t.Name)
		}
		p.types[t.Name] = t
	}
	p.reg = newRegistry(root, p.log)
	p.layout = cells.New(root, o.InitPath, network)
	p.cells = p.layout
	return p, nil
}

// Close stops what the provider does by itself in this process (ending
// instances whose slow delete is over). Instances live on.
func (p *Provider) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.alarm != nil {
		p.alarm.Stop()
	}
	return nil
}

// call runs one API call under the registry's lock, after the faults that can
// meet every call.
func (p *Provider) call(ctx context.Context, do func(v *view, now time.Time) error) error {
	err := p.settled(ctx, func(v *view, now time.Time) error {
		if err := refuseAll(v); err != nil {
			return err
		}
		return do(v, now)
	})
	if err != nil {
		return cloud.AsError(err)
	}
	return nil
}

// listedFor is how long List shows an instance after its end; records and
// tokens are kept for keptFor.
const (
	listedFor = time.Hour
	keptFor   = 24 * time.Hour
)

// List implements cloud.Provider. Instances that ended more than an hour ago
// are left out.
func (p *Provider) List(ctx context.Context, cluster string) ([]cloud.Instance, error) {
	var list []cloud.Instance
	err := p.call(ctx, func(v *view, now time.Time) error {
		for _, r := range v.sorted() {
			hidden := now.Sub(r.CreatedAt) < time.Duration(v.faults.ListLag)
			if r.Cluster == cluster && !hidden && (r.live() || now.Sub(r.EndedAt) < listedFor) {
				list = append(list, r.instance(now))
			}
		}
		return nil
	})
	return list, err
}

// All gives the instances of all clusters, live and ended, as an administrator
// of the cloud sees them: no fault hides any.
func (p *Provider) All(ctx context.Context) ([]cloud.Instance, error) {
	var list []cloud.Instance
	err := p.settled(ctx, func(v *view, now time.Time) error {
		for _, r := range v.sorted() {
			list = append(list, r.instance(now))
		}
		return nil
	})
	return list, err
}

// Terminate implements cloud.Provider.
func (p *Provider) Terminate(ctx context.Context, ids []string) error {
	return p.call(ctx, func(v *view, now time.Time) error {
		var errs []error
		for _, id := range ids {
			r, ok := v.records[id]
			if !ok || !r.live() {
				continue
			}
			if err := p.end(v, *r, now, "terminated by request", time.Duration(v.faults.SlowDelete)); err != nil {
				errs = append(errs, err)
			}
		}
		return errors.Join(errs...)
	})
}

// Quotes implements cloud.Provider. Any zone is sold; types and markets are
// those with a price in midair.yaml.
func (p *Provider) Quotes(ctx context.Context, offerings []cloud.Offering) ([]cloud.Quote, error) {
	quotes := make([]cloud.Quote, 0, len(offerings))
	err := p.call(ctx, func(*view, time.Time) error {
		for _, o := range offerings {
			t, err := p.sold(o)
			if err != nil {
				return err
			}
			quotes = append(quotes, cloud.Quote{Offering: o, Price: t.Prices[o.Market], CPUs: t.CPUs, MemoryMiB: t.MemoryMiB, GPUs: t.GPUs})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return quotes, nil
}

func (p *Provider) sold(o cloud.Offering) (config.LocalType, error) {
	t, ok := p.types[o.Type]
	if !ok {
		return t, notSold(o, fmt.Sprintf("provider %s has no type %s", p.name, o.Type))
	}
	if _, ok := t.Prices[o.Market]; !ok {
		return t, notSold(o, fmt.Sprintf("provider %s has no %s price for type %s", p.name, o.Market, o.Type))
	}
	return t, nil
}

// consoleSize is how much of the console is given, as much as EC2 gives.
const consoleSize = 64 << 10

// Name implements cloud.Provider. It has nothing to do: every instance carries
// its own tags from the start.
func (p *Provider) Name(ctx context.Context, _ []cloud.Instance) error { return ctx.Err() }

// Console implements cloud.Provider: the output of the instance's init and
// slurmd, at most the last 64 KiB.
func (p *Provider) Console(ctx context.Context, id string) (string, error) {
	known := false
	err := p.call(ctx, func(v *view, _ time.Time) error {
		_, known = v.records[id]
		return nil
	})
	if err != nil || !known {
		return "", err
	}
	text, err := tail(p.reg.console(id), consoleSize)
	if err != nil {
		return "", cloud.AsError(fmt.Errorf("read console of %s: %w", id, err))
	}
	return text, nil
}

func tail(path string, size int64) (string, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return "", err
	}
	b, err := io.ReadAll(io.NewSectionReader(f, max(0, st.Size()-size), size))
	return string(b), err
}
