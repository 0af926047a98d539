// Package metal gives the instances of the EC2 stand-in machines: cells on this
// machine, each with a slurmd, as those of the local provider.
package metal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/midair-hpc/midair/internal/cell"
	"github.com/midair-hpc/midair/internal/cloud/cells"
	"github.com/midair-hpc/midair/internal/cloud/ec2sim"
)

// Options say where the machines are.
type Options struct {
	Root string // has the consoles
	// Network is the instances' network: the VPC of the catalogue.
	Network netip.Prefix
	Slurmd  cells.Slurmd
	// InitPath is the cell init; empty: midair-cellinit beside this executable.
	InitPath string
}

// Machines are cells. Making them needs root.
type Machines struct {
	cells  *cells.Cells
	slurmd cells.Slurmd
	root   string

	prepare sync.Mutex
	ready   bool
}

var _ ec2sim.Machines = (*Machines)(nil)

// New makes the folder for consoles.
func New(o Options) (*Machines, error) {
	if o.Root == "" || !o.Network.IsValid() {
		return nil, errors.New("open local machines: a root folder and a network are needed")
	}
	root, err := filepath.Abs(o.Root)
	if err != nil {
		return nil, fmt.Errorf("open local machines: %w", err)
	}
	if strings.ContainsAny(root, ":,\\") {
		return nil, fmt.Errorf("open local machines: folder %s has a character that mount options cannot have; choose another", root)
	}
	if o.Slurmd.Path == "" && o.Slurmd.Argv == nil {
		return nil, errors.New("open local machines: no slurmd; such as /usr/sbin/slurmd")
	}
	if o.InitPath == "" {
		self, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("open local machines: find %s: %w", cell.InitName, err)
		}
		o.InitPath = filepath.Join(filepath.Dir(self), cell.InitName)
	}
	if err := os.MkdirAll(filepath.Join(root, "console"), 0o755); err != nil {
		return nil, fmt.Errorf("open local machines: %w", err)
	}
	return &Machines{cells: cells.New(root, o.InitPath, o.Network), slurmd: o.Slurmd, root: root}, nil
}

// Boot implements ec2sim.Machines.
func (l *Machines) Boot(ctx context.Context, m ec2sim.Machine) (string, error) {
	if err := l.network(); err != nil {
		return "", err
	}
	// What an earlier process started for it without recording it.
	if err := l.cells.Sweep([]string{l.consolePath(m.ID)}); err != nil {
		return "", err
	}
	if err := l.announce(m); err != nil {
		return "", err
	}
	p, err := l.cells.Start(ctx, l.cells.Spec(cells.Node{
		Name: m.Node, Addr: m.Addr, GPUs: m.GPUs, OwnDev: true, Console: l.consolePath(m.ID), StartedAt: m.LaunchedAt, Argv: l.slurmd.Command(m.Node),
	}))
	if err != nil {
		return "", err
	}
	b, err := json.Marshal(p)
	return string(b), err
}

// network makes the bridge before the first machine.
func (l *Machines) network() error {
	l.prepare.Lock()
	defer l.prepare.Unlock()
	if l.ready {
		return nil
	}
	if err := l.cells.Prepare(); err != nil {
		return err
	}
	l.ready = true
	return nil
}

func (l *Machines) announce(m ec2sim.Machine) error {
	f, err := os.OpenFile(l.consolePath(m.ID), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o640)
	if err != nil {
		return fmt.Errorf("open console: %w", err)
	}
	_, err = fmt.Fprintf(f, "instance %s (%s) boots as %s, %s\n", m.ID, m.Type, m.Node, m.Addr)
	return errors.Join(err, f.Close())
}

// End implements ec2sim.Machines.
func (l *Machines) End(ctx context.Context, id, handle string) error {
	if handle == "" {
		return l.cells.Sweep([]string{l.consolePath(id)})
	}
	p, err := readHandle(handle)
	if err != nil {
		return err
	}
	if err := l.cells.Kill(p); err != nil {
		return err
	}
	return l.cells.Wait(ctx, p)
}

func readHandle(handle string) (cells.Process, error) {
	var p cells.Process
	if err := json.Unmarshal([]byte(handle), &p); err != nil {
		return p, fmt.Errorf("read machine %q: %w", handle, err)
	}
	return p, nil
}

// Alive implements ec2sim.Machines.
func (l *Machines) Alive(handle string) bool {
	p, err := readHandle(handle)
	return err == nil && l.cells.Alive(p)
}

func (l *Machines) consolePath(id string) string {
	return filepath.Join(l.root, "console", id+".log")
}

// consoleSize is how much of a console is given, as much as EC2 gives.
const consoleSize = 64 << 10

// Console implements ec2sim.Machines.
func (l *Machines) Console(id string) (string, error) {
	f, err := os.Open(l.consolePath(id))
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
	b, err := io.ReadAll(io.NewSectionReader(f, max(0, st.Size()-consoleSize), consoleSize))
	return string(b), err
}

// Remove implements ec2sim.Machines.
func (l *Machines) Remove() error {
	return errors.Join(l.cells.Remove(), os.RemoveAll(filepath.Join(l.root, "console")), os.RemoveAll(filepath.Join(l.root, "dev")))
}
