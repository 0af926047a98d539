package main

import (
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/midair-hpc/midair/internal/cloud/open"
	"github.com/midair-hpc/midair/internal/config"
	"github.com/midair-hpc/midair/internal/controller"
	"github.com/midair-hpc/midair/internal/spool"
)

// envCrash names a crash point: the controller ends itself there by SIGKILL.
// It exists to prove that a kill at any moment loses and leaks nothing.
const envCrash = "MIDAIR_CRASH_AT"

func controllerCommand() *cli.Command {
	return &cli.Command{
		Name:  "controller",
		Usage: "run the daemon that does what the hooks recorded",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "verbose", Aliases: []string{"v"}, Usage: "log more"},
		},
		Action: runController,
	}
}

func runController(c *cli.Context) error {
	cfg, err := config.Load(c.String("config"))
	if err != nil {
		return err
	}
	level := slog.LevelInfo
	if c.Bool("verbose") {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	providers, err := open.All(cfg, time.Now, log)
	if err != nil {
		return err
	}
	crash, err := crashSwitch(os.Getenv(envCrash))
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(c.Context, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	return controller.Serve(ctx, cfg, providers, spool.Dir(), log, crash)
}

func crashSwitch(at string) (func(string), error) {
	if at == "" {
		return nil, nil
	}
	if !slices.Contains(controller.CrashPoints, at) {
		return nil, fmt.Errorf("%s=%s is no crash point; there are %s", envCrash, at, strings.Join(controller.CrashPoints, ", "))
	}
	return func(point string) {
		if point == at {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}, nil
}
