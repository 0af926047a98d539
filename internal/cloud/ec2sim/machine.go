package ec2sim

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/midair-hpc/midair/internal/cloud"
)

// Machines makes what instances run on. Without, instances are states and
// addresses only. Implementations are safe for concurrent use.
type Machines interface {
	// Boot starts the machine of an instance, and gives a handle that End and
	// Alive know it by, also in another process.
	Boot(ctx context.Context, m Machine) (handle string, err error)
	// End takes away an instance's machine and returns when it is gone. Without
	// a handle it ends whatever may have been started for the instance.
	End(ctx context.Context, id, handle string) error
	// Alive reports whether the machine still runs.
	Alive(handle string) bool
	// Console gives what the machine has printed.
	Console(id string) (string, error)
	// Remove takes away what all machines shared, after the last has ended.
	Remove() error
}

// Machine is what an instance is to run on.
type Machine struct {
	ID         string
	Node       string // the Slurm node that it is
	Addr       netip.Addr
	Type       string
	VCPUs      int
	MemoryMiB  int
	GPUs       int
	LaunchedAt time.Time
}

// machine is an instance's machine. A real instance learns from the tag
// midair:node, which its user data waits for, which Slurm node it is; so does
// this one: it boots when it runs and the tag is there.
type machine struct {
	BootAt  time.Time // when it boots by itself; zero: not
	Booted  bool      // it has been told to boot, and not to end since
	Running bool      // it does
	Handle  string
	busy    bool // a goroutine is at it
}

// workers bounds how many machines are made or ended at a time.
const workers = 16

// planBoot sets when an instance's machine boots, if all it needs is there.
func (s *Sim) planBoot(i *instance, now time.Time) {
	if s.machines == nil || i.State != cloud.Running || i.NoBoot || i.Booted {
		return
	}
	at, named := i.LaunchedAt, i.Tags[cloud.TagNode] != ""
	for _, w := range i.Pending {
		if w.Key == cloud.TagNode && !named {
			at, named = w.At, true
		}
	}
	if !named {
		return
	}
	if at.Before(now) {
		at = now
	}
	i.BootAt = at.Add(s.delays.Boot)
	s.schedule(i)
}

// powered reports whether an instance has a machine, or may have one soon.
func (s *Sim) powered(i *instance) bool {
	return s.machines != nil && (i.Running || i.busy)
}

// power turns a machine on or off, in the background.
func (s *Sim) power(i *instance, on bool) {
	i.Booted = on
	if s.machines == nil || i.busy {
		return
	}
	i.busy = true
	s.working.Add(1)
	go func() {
		defer s.working.Done()
		s.slots <- struct{}{}
		defer func() { <-s.slots }()
		s.work(i)
	}()
}

// work brings a machine to what it is to be.
func (s *Sim) work(i *instance) {
	for {
		var (
			on, done bool
			handle   string
			m        Machine
		)
		s.locked(func(now time.Time) {
			if on = i.Booted; on == i.Running || s.stopped() {
				i.busy, done = false, true
				s.arrive(i, now)
				return
			}
			handle, m = i.Handle, s.machineOf(i, now)
		})
		if done {
			return
		}
		var err error
		if on {
			handle, err = s.machines.Boot(s.life, m)
		} else {
			err = s.machines.End(s.life, i.ID, handle)
		}
		s.locked(func(now time.Time) { s.worked(i, on, handle, err, now) })
	}
}

// worked records what has become of a machine.
func (s *Sim) worked(i *instance, on bool, handle string, err error, now time.Time) {
	if err != nil && s.stopped() {
		return // the next process takes it up
	}
	defer s.touch(i)
	switch {
	case on && err == nil:
		i.Running, i.Handle = true, handle
	case on:
		s.log.Warn("boot machine", "instance", i.ID, "err", err)
		i.Booted = false
		if i.State == cloud.Running || i.State == cloud.Pending {
			s.end(i, now, hostFailed, "Internal error on launch")
		}
	default:
		if err != nil {
			s.log.Error("end machine", "instance", i.ID, "err", err)
		}
		i.Running, i.Handle = false, ""
	}
}

// arrive lets an instance come to the state that waited for its machine.
func (s *Sim) arrive(i *instance, now time.Time) {
	if i.Next != "" && i.NextAt.IsZero() && !i.Running {
		s.move(i, i.Next, now)
	}
}

func (s *Sim) machineOf(i *instance, now time.Time) Machine {
	t := s.types[i.Offering.Type]
	m := Machine{ID: i.ID, Node: i.tags(now)[cloud.TagNode], Addr: i.Addr, Type: t.Name, VCPUs: t.VCPUs, MemoryMiB: t.MemoryMiB, LaunchedAt: i.LaunchedAt}
	if t.GPU != nil {
		m.GPUs = t.GPU.Count
	}
	return m
}

// watchEvery is how often machines are looked at.
const watchEvery = time.Second

// run lets things happen when they are due, without a call, and notices
// machines that have ended by themselves.
func (s *Sim) run() {
	defer s.working.Done()
	watch := time.NewTicker(watchEvery)
	defer watch.Stop()
	for {
		var wait time.Duration
		s.locked(func(now time.Time) {
			s.wakeAt = now.Add(watchEvery)
			if next := s.nextDue(); !next.IsZero() && next.Before(s.wakeAt) {
				s.wakeAt = next
			}
			wait = max(time.Millisecond, s.wakeAt.Sub(now))
		})
		next := time.NewTimer(wait)
		select {
		case <-s.life.Done():
			next.Stop()
			return
		case <-s.poke:
		case <-next.C:
		case <-watch.C:
			s.watch()
		}
		next.Stop()
	}
}

// watch ends instances whose machine has ended by itself.
func (s *Sim) watch() {
	handles := map[*instance]string{}
	s.locked(func(time.Time) {
		for _, i := range s.order {
			if i.Running && !i.busy {
				handles[i] = i.Handle
			}
		}
	})
	for i, handle := range handles {
		if s.machines.Alive(handle) {
			continue
		}
		s.locked(func(now time.Time) {
			if i.Handle != handle || !i.Running || i.busy {
				return
			}
			i.Running, i.Booted, i.Handle = false, false, ""
			s.touch(i)
			if i.State == cloud.Running {
				s.shutDown(i, now)
			}
		})
	}
}

// shutDown has an instance end that shut down by itself.
func (s *Sim) shutDown(i *instance, now time.Time) {
	const reason = "Instance initiated shutdown"
	if i.Offering.Market == cloud.Spot || i.Data.Shutdown == "terminate" {
		s.end(i, now, ownShutdown, reason)
		return
	}
	i.ReasonCode, i.Reason = ownShutdown, ownShutdown+": "+reason
	s.move(i, cloud.Stopping, now)
}

// console is what an instance has printed.
func (s *Sim) console(i *instance) string {
	text := ""
	if s.machines != nil {
		printed, err := s.machines.Console(i.ID)
		if err != nil {
			s.log.Warn("read console", "instance", i.ID, "err", err)
		}
		text = printed
	}
	if text == "" {
		text = fmt.Sprintf("[    0.000000] Linux on %s\n[    4.100000] cloud-init: user data waits for the tag %s of %s\n", i.Offering.Type, cloud.TagNode, i.ID)
		if i.NoBoot {
			text += "[    9.700000] cloud-init: user data failed\n"
		}
	}
	return text
}

func (s *Sim) stopped() bool { return s.life.Err() != nil }
