package controller

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/config"
	"github.com/midair-hpc/midair/internal/hold"
	"github.com/midair-hpc/midair/internal/ledger"
	"github.com/midair-hpc/midair/internal/slurm"
	"github.com/midair-hpc/midair/internal/spool/watch"
)

// Serve runs the daemon until ctx is done: it takes the lock, opens the
// ledger, listens for hooks and works.
func Serve(ctx context.Context, cfg *config.Config, providers map[string]cloud.Provider, spoolDir string, log *slog.Logger, crash func(string)) error {
	lock, err := takeLock(LockPath(cfg))
	if err != nil {
		return err
	}
	defer lock.Close()
	led, report, err := ledger.Open(ctx, cfg.Ledger, log, time.Now)
	if err != nil {
		return err
	}
	defer led.Close()
	client, err := slurm.NewCommands(slurm.Options{BinDir: cfg.Slurm.BinDir, Conf: cfg.Slurm.Conf, Log: log})
	if err != nil {
		return err
	}
	c, err := New(ctx, Options{
		Config: cfg, Ledger: led, Slurm: client, Providers: providers, SpoolDir: spoolDir, Log: log,
		Now: time.Now, Rand: mathrand.Float64, NewID: newID, Crash: crash,
		Adopt: report.Created, Rebuilt: report.MovedAside != "",
	})
	if err != nil {
		return err
	}
	c.learnPrices(ctx)
	wake, err := watch.Watch(ctx, spoolDir, sweepSpool)
	if err != nil {
		return err
	}
	server, err := hold.Listen(spoolDir)
	if err != nil {
		return err
	}
	defer server.Close()
	go func() {
		if err := server.Serve(ctx, c.Question); err != nil && ctx.Err() == nil {
			log.Error("serve waiting hooks", "err", err)
		}
	}()
	log.Info("controller is up", "cluster", cfg.Cluster, "pools", len(cfg.Pools), "open_launches", len(c.launches), "live_instances", len(c.instances), "open_calls", len(c.intents))
	return c.Run(ctx, wake)
}

// newID is a launch's id: it sorts by time and is unique.
func newID() string {
	var r [4]byte
	_, _ = rand.Read(r[:]) // never fails (package crypto/rand)
	return fmt.Sprintf("l-%011x%s", time.Now().UnixMilli(), hex.EncodeToString(r[:]))
}

// LockPath is the file that a running controller holds locked; it contains its
// process id.
func LockPath(cfg *config.Config) string {
	return filepath.Join(filepath.Dir(cfg.Ledger), "controller.lock")
}

// ErrRunning means that another controller works on the same ledger.
var ErrRunning = errors.New("another midair controller is running")

func takeLock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o640)
	if err != nil {
		return nil, fmt.Errorf("open controller lock: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		text, _ := os.ReadFile(path)
		f.Close()
		return nil, fmt.Errorf("%w (process %s, lock %s)", ErrRunning, strings.TrimSpace(string(text)), path)
	}
	if err := f.Truncate(0); err != nil {
		f.Close()
		return nil, fmt.Errorf("write controller lock: %w", err)
	}
	if _, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0); err != nil {
		f.Close()
		return nil, fmt.Errorf("write controller lock: %w", err)
	}
	return f, nil
}

// Running reports whether a controller holds the lock, and its process id.
func Running(cfg *config.Config) (pid int, running bool) {
	f, err := os.Open(LockPath(cfg))
	if err != nil {
		return 0, false
	}
	defer f.Close()
	if unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) == nil {
		return 0, false
	}
	text, err := os.ReadFile(LockPath(cfg))
	if err != nil {
		return 0, true
	}
	pid, _ = strconv.Atoi(strings.TrimSpace(string(text))) // half-written: 0
	return pid, true
}
