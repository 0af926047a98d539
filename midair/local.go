package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/urfave/cli/v2"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/cloud/local"
	"github.com/midair-hpc/midair/internal/config"
)

func localCommand() *cli.Command {
	provider := &cli.StringFlag{Name: "provider", Usage: "the provider's `NAME` in midair.yaml, where several are of kind local"}
	return &cli.Command{
		Name:  "local",
		Usage: "look into the local cloud, and make it fail",
		Flags: []cli.Flag{provider},
		Subcommands: []*cli.Command{
			localListCommand(),
			localFaultCommand(),
			{
				Name: "console", Usage: "print the last output of an instance and its slurmd", ArgsUsage: "INSTANCE|NODE",
				Action: localConsole,
			},
			{
				Name: "destroy", Usage: "end all instances and forget the local cloud",
				Flags:  []cli.Flag{&cli.BoolFlag{Name: "yes", Usage: "really do it"}},
				Action: localDestroy,
			},
		},
	}
}

// openLocal opens the local provider of midair.yaml.
func openLocal(c *cli.Context) (*local.Provider, config.Provider, error) {
	var found []config.Provider
	cfg, err := config.Load(c.String("config"))
	if err != nil {
		return nil, config.Provider{}, err
	}
	want := c.String("provider")
	var names []string
	for _, p := range cfg.Providers {
		if p.Kind != "local" {
			continue
		}
		names = append(names, p.Name)
		if want == "" || p.Name == want {
			found = append(found, p)
		}
	}
	switch {
	case len(names) == 0:
		return nil, config.Provider{}, fmt.Errorf("no provider in %s is of kind local", cfg.Path)
	case len(found) == 0:
		return nil, config.Provider{}, fmt.Errorf("provider %q of kind local is not in %s; there is %s", want, cfg.Path, strings.Join(names, ", "))
	case len(found) > 1:
		return nil, config.Provider{}, fmt.Errorf("several providers are of kind local; choose one, such as midair local --provider %s", names[0])
	}
	p, err := local.Open(local.Options{
		Name: found[0].Name, Local: found[0].Local, SlurmConf: cfg.Slurm.Conf,
		Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	return p, found[0], err
}

func localListCommand() *cli.Command {
	return &cli.Command{
		Name: "ls", Aliases: []string{"list"}, Usage: "list instances, those that ended in the last hour included",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "all", Aliases: []string{"a"}, Usage: "also those that ended before"},
			&cli.BoolFlag{Name: "json", Usage: "for programs"},
		},
		Action: func(c *cli.Context) error {
			p, _, err := openLocal(c)
			if err != nil {
				return err
			}
			defer p.Close()
			list, err := p.All(c.Context)
			if err != nil {
				return err
			}
			if !c.Bool("all") {
				list = slices.DeleteFunc(list, func(i cloud.Instance) bool {
					return !i.EndedAt.IsZero() && time.Since(i.EndedAt) > time.Hour
				})
			}
			if c.Bool("json") {
				return writeJSON(c.App.Writer, localRows(list))
			}
			localTable(c.App.Writer, list, time.Now())
			return nil
		},
	}
}

// localRow is an instance as `midair local ls --json` shows it.
type localRow struct {
	ID         string            `json:"id"`
	Node       string            `json:"node"`
	Generation int               `json:"generation"`
	State      string            `json:"state"`
	Cause      string            `json:"cause,omitempty"`
	Offering   string            `json:"offering"`
	Addr       string            `json:"addr"`
	Pool       string            `json:"pool"`
	Launch     string            `json:"launch"`
	Token      string            `json:"token"`
	CreatedAt  time.Time         `json:"created_at"`
	EndedAt    *time.Time        `json:"ended_at,omitempty"`
	Tags       map[string]string `json:"tags"`
}

func localRows(list []cloud.Instance) []localRow {
	rows := make([]localRow, 0, len(list))
	for _, i := range list {
		r := localRow{
			ID: i.ID, Node: i.Node, Generation: i.Generation, State: string(i.State), Cause: i.StateCause, Offering: i.Offering.Key(),
			Addr: i.Addr, Pool: i.Pool, Launch: i.Launch, Token: i.Token, CreatedAt: i.CreatedAt, Tags: i.Tags,
		}
		if !i.EndedAt.IsZero() {
			r.EndedAt = &i.EndedAt
		}
		rows = append(rows, r)
	}
	return rows
}

func localTable(w io.Writer, list []cloud.Instance, now time.Time) {
	t := table.NewWriter()
	t.SetOutputMirror(w)
	style := table.StyleDefault
	style.Options = table.OptionsNoBordersAndSeparators
	style.Box.PaddingLeft = ""
	style.Box.PaddingRight = "  "
	t.SetStyle(style)
	t.AppendHeader(table.Row{"INSTANCE", "NODE", "GEN", "STATE", "OFFERING", "ADDRESS", "AGE", "ENDED"})
	for _, i := range list {
		ended := ""
		if !i.EndedAt.IsZero() {
			ended = fmt.Sprintf("%s ago, %s", localAge(now.Sub(i.EndedAt)), i.StateCause)
		}
		t.AppendRow(table.Row{i.ID, i.Node, i.Generation, i.State, i.Offering.Key(), i.Addr, localAge(now.Sub(i.CreatedAt)), ended})
	}
	t.Render()
}

func localAge(d time.Duration) string { return d.Truncate(time.Second).String() }

func localConsole(c *cli.Context) error {
	if c.NArg() != 1 {
		return errors.New("console: want one instance id or node name; midair local ls shows them")
	}
	p, _, err := openLocal(c)
	if err != nil {
		return err
	}
	defer p.Close()
	list, err := p.All(c.Context)
	if err != nil {
		return err
	}
	// The newest instance of a node is the one people mean.
	for _, i := range slices.Backward(list) {
		if i.ID != c.Args().First() && i.Node != c.Args().First() {
			continue
		}
		text, err := p.Console(c.Context, i.ID)
		if err != nil {
			return err
		}
		_, err = io.WriteString(c.App.Writer, text)
		return err
	}
	return fmt.Errorf("console: there is no instance or node %q; midair local ls -a shows them", c.Args().First())
}

func localDestroy(c *cli.Context) error {
	p, cfg, err := openLocal(c)
	if err != nil {
		return err
	}
	defer p.Close()
	if !c.Bool("yes") {
		return fmt.Errorf("destroy: this ends every instance of provider %s and removes its records in %s; say --yes to do it", cfg.Name, cfg.Local.Root)
	}
	n, err := p.Destroy(c.Context)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.App.Writer, "ended %d instances\n", n)
	return nil
}
