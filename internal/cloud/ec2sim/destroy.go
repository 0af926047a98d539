package ec2sim

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/midair-hpc/midair/internal/cloud"
)

// destroyEvery is the pause between two looks at whether machines are gone.
const destroyEvery = 20 * time.Millisecond

// Destroy ends every instance with its machine, removes what the cloud has on
// disk, and closes it. It tells how many live instances it ended.
func (s *Sim) Destroy(ctx context.Context) (ended int, err error) {
	s.locked(func(now time.Time) {
		for _, i := range s.order {
			switch i.State {
			case cloud.Terminated:
				continue
			case cloud.Pending, cloud.Running:
				ended++
			}
			s.end(i, now, hostFailed, "The cloud has ended")
			i.NextAt = now
			s.schedule(i)
		}
	})
	for {
		left := 0
		s.locked(func(time.Time) {
			for _, i := range s.order {
				if i.State != cloud.Terminated {
					left++
				}
			}
		})
		if left == 0 {
			break
		}
		select {
		case <-ctx.Done():
			return ended, fmt.Errorf("end the cloud: %d instances are not gone: %w", left, ctx.Err())
		case <-time.After(destroyEvery):
		}
	}
	s.finish()
	s.working.Wait()
	if s.machines != nil {
		err = s.machines.Remove()
	}
	return ended, errors.Join(err, s.removeState())
}

func (s *Sim) removeState() error {
	if s.dir == "" {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	files, err := filepath.Glob(filepath.Join(s.dir, "instances", "i-*.json*"))
	errs = append(errs, err)
	for _, f := range append(files, filepath.Join(s.dir, "cloud.json"), filepath.Join(s.dir, "instances"), s.dir) {
		if err := os.Remove(f); err != nil && !errors.Is(err, os.ErrNotExist) && f != s.dir {
			errs = append(errs, err)
		}
	}
	// Nothing is written any more.
	s.dir = ""
	return errors.Join(errs...)
}

// Done is closed when the cloud has been closed or destroyed.
func (s *Sim) Done() <-chan struct{} { return s.closed }
