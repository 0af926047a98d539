// Package open turns the providers of midair.yaml into ones that can be called.
package open

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/cloud/aws"
	"github.com/midair-hpc/midair/internal/cloud/local"
	"github.com/midair-hpc/midair/internal/config"
)

// All opens every provider of the configuration, by name.
func All(cfg *config.Config, now func() time.Time, log *slog.Logger) (map[string]cloud.Provider, error) {
	all := map[string]cloud.Provider{}
	for _, p := range cfg.Providers {
		switch p.Kind {
		case "local":
			l, err := local.Open(local.Options{Name: p.Name, Local: p.Local, SlurmConf: cfg.Slurm.Conf, Now: now, Log: log})
			if err != nil {
				return nil, fmt.Errorf("open provider %s: %w", p.Name, err)
			}
			all[p.Name] = l
		case "aws":
			a, err := AWS(cfg, p, now, log)
			if err != nil {
				return nil, fmt.Errorf("open provider %s: %w", p.Name, err)
			}
			all[p.Name] = a
		default:
			return nil, fmt.Errorf("open provider %s: kind %q is not one this version can open", p.Name, p.Kind)
		}
	}
	return all, nil
}

// AWS opens a provider of kind aws, for those who ask more of it than any
// provider can do.
func AWS(cfg *config.Config, p config.Provider, now func() time.Time, log *slog.Logger) (*aws.Provider, error) {
	pools := map[string]config.PoolAWS{}
	for _, pool := range cfg.Pools {
		if pool.Provider == p.Name {
			pools[pool.Name] = pool.AWS
		}
	}
	return aws.Open(aws.Options{Name: p.Name, AWS: p.AWS, Pools: pools, Now: now, Log: log})
}
