package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/midair-hpc/midair/internal/config"
	"github.com/midair-hpc/midair/internal/slurmconf"
)

func slurmconfCommand() *cli.Command {
	return &cli.Command{
		Name:  "slurmconf",
		Usage: "print what Slurm needs to know of the pools and tiers",
		Description: "Prints a fragment of slurm.conf, gres.conf and the tier table of job_submit.lua, made from\n" +
			"midair.yaml; or one of them, ready to be written to its file.",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "slurm-conf", Usage: "only the fragment that slurm.conf includes"},
			&cli.BoolFlag{Name: "gres-conf", Usage: "only gres.conf"},
			&cli.BoolFlag{Name: "tiers", Usage: "only midair_tiers.lua, the tier table of job_submit.lua"},
			&cli.StringFlag{Name: "hooks-dir", Value: slurmconf.HooksDir, Usage: "midair-resume, midair-suspend and midair-slurmctld-hook are in `DIR`"},
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "write to `FILE`, at once or not at all"},
		},
		Action: runSlurmconf,
	}
}

func runSlurmconf(c *cli.Context) error {
	if c.NArg() > 0 {
		return fmt.Errorf("slurmconf: %q is not an option; see midair help slurmconf", c.Args().First())
	}
	hooks := c.String("hooks-dir")
	if !filepath.IsAbs(hooks) {
		return fmt.Errorf("slurmconf: --hooks-dir %q: want an absolute path, because slurmctld runs nothing else", hooks)
	}
	cfg, err := config.Load(c.String("config"))
	if err != nil {
		return err
	}
	parts := []struct {
		flag, file string
		text       func() string
	}{
		{"slurm-conf", "midair.conf", func() string { return slurmconf.SlurmConf(cfg, hooks) }},
		{"gres-conf", "gres.conf", func() string { return slurmconf.GresConf(cfg) }},
		{"tiers", "midair_tiers.lua", func() string { return slurmconf.TierTable(cfg) }},
	}
	var text strings.Builder
	chosen := 0
	for _, p := range parts {
		if c.Bool(p.flag) {
			chosen++
			text.WriteString(p.text())
		}
	}
	if chosen > 1 {
		return errors.New("slurmconf: --slurm-conf, --gres-conf and --tiers are for one file each; give one of them, or none for all three")
	}
	if chosen == 0 && c.String("output") != "" {
		return errors.New("slurmconf: --output takes one file; add --slurm-conf, --gres-conf or --tiers")
	}
	if chosen == 0 {
		for i, p := range parts {
			if i > 0 {
				text.WriteByte('\n')
			}
			fmt.Fprintf(&text, "# ==== %s (midair slurmconf --%s) ====\n%s", p.file, p.flag, p.text())
		}
	}
	if file := c.String("output"); file != "" {
		return replaceFile(file, text.String())
	}
	_, err = io.WriteString(c.App.Writer, text.String())
	return err
}

// replaceFile writes beside the file and renames: slurmctld may read it at any
// moment. The file is readable by all, as Slurm's are.
func replaceFile(file, text string) error {
	f, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+".*")
	if err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	_, err = f.WriteString(text)
	err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return fmt.Errorf("write %s: %w", file, err)
	}
	return nil
}
