package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/midair-hpc/midair/internal/cloud/open"
	"github.com/midair-hpc/midair/internal/controller"
	"github.com/midair-hpc/midair/internal/ledger"
	"github.com/midair-hpc/midair/internal/reconcile"
)

func reconcileCommand() *cli.Command {
	return &cli.Command{
		Name:  "reconcile",
		Usage: "compare cloud, ledger and Slurm; the controller does this by itself",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "dry-run", Aliases: []string{"n"}, Usage: "show what a pass would do, and do nothing"},
			&cli.BoolFlag{Name: "json", Usage: "for programs"},
		},
		Action: runReconcile,
	}
}

func runReconcile(c *cli.Context) error {
	if !c.Bool("dry-run") {
		return errors.New("reconcile: only --dry-run is done by hand; the controller reconciles every reconcile.every of midair.yaml")
	}
	o, err := openReadOnly(c.Context, c)
	if err != nil {
		return err
	}
	defer o.close()
	providers, err := open.All(o.cfg, time.Now, slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if err != nil {
		return err
	}
	in := reconcile.Input{
		Now: time.Now(), ListedAt: time.Now(), Grace: o.cfg.Reconcile.Grace, MaxTerminations: o.cfg.Reconcile.MaxTerminations,
		OnceIsEnough: true, Launching: map[string]bool{}, OpenTokens: map[string]bool{},
	}
	in.Listed = controller.List(c.Context, providers, o.cfg.Cluster, func(p string, err error) {
		fmt.Fprintf(os.Stderr, "midair: list instances of provider %s: %v\n", p, err)
	})
	if in.Pools, in.Nodes, err = controller.PoolNodes(c.Context, o.cfg.Pools, o.slurm); err != nil {
		return fmt.Errorf("ask Slurm for the pools' nodes: %w", err)
	}
	if err := fillFromLedger(c.Context, o, &in); err != nil {
		return err
	}
	p := reconcile.Decide(in)
	if c.Bool("json") {
		return writeJSON(c.App.Writer, planRows(p))
	}
	printPlan(c.App.Writer, p)
	if len(in.Listed) < len(providers) {
		return errors.New("reconcile: not every provider answered; nothing was concluded about the instances of those that did not")
	}
	return nil
}

// openWork is what a dry run reads of the ledger beside status.
type openWork interface {
	OpenIntents(ctx context.Context) ([]ledger.Intent, error)
}

func fillFromLedger(ctx context.Context, o opened, in *reconcile.Input) error {
	if o.led == nil {
		return nil
	}
	var err error
	if in.Instances, err = o.led.LiveInstances(ctx); err != nil {
		return err
	}
	launches, err := o.led.OpenLaunches(ctx)
	if err != nil {
		return err
	}
	for _, l := range launches {
		for _, n := range l.Nodes {
			in.Launching[n.Node] = true
		}
	}
	w, ok := o.led.(openWork)
	if !ok {
		return nil
	}
	intents, err := w.OpenIntents(ctx)
	if err != nil {
		return err
	}
	for _, i := range intents {
		in.OpenTokens[i.Token] = true
	}
	return nil
}

// planRow is one action as `midair reconcile --dry-run --json` shows it.
type planRow struct {
	Action   string `json:"action"` // terminate, take-over, settle, power-down, resume, look-at
	Node     string `json:"node,omitempty"`
	Provider string `json:"provider,omitempty"`
	Instance string `json:"instance,omitempty"`
	Why      string `json:"why"`
}

// planView is the whole of it. Its JSON form is stable.
type planView struct {
	Actions  []planRow `json:"actions"`
	Deferred int       `json:"deferred"` // terminations left to later passes
}

// planRows lists what a plan would do, in the order in which it is shown.
func planRows(p reconcile.Plan) planView {
	v := planView{Actions: []planRow{}, Deferred: p.Deferred}
	add := func(action, node, provider, instance, why string) {
		v.Actions = append(v.Actions, planRow{action, node, provider, instance, why})
	}
	for _, o := range p.Odd {
		add("look-at", o.Instance.Node, o.Provider, o.Instance.ID, o.Why+"; midair leaves it alone")
	}
	for _, o := range p.Terminate {
		add("terminate", o.Instance.Node, o.Provider, o.Instance.ID, o.Why)
	}
	for _, a := range p.Adopt {
		add("take-over", a.Instance.Node, a.Provider, a.Instance.ID, "Slurm has the node, the ledger does not know the instance")
	}
	for _, l := range p.Lost {
		if l.Off {
			continue // its node is powered down and it is terminated
		}
		add("settle", l.Instance.Node, l.Instance.Provider, l.Instance.ID, l.Why)
	}
	for _, b := range p.Bare {
		add("power-down", b.Node, "", "", b.Why)
	}
	for _, n := range p.Resume {
		add("resume", n, "", "", "it is down and powered down")
	}
	return v
}

func printPlan(w io.Writer, p reconcile.Plan) {
	v := planRows(p)
	for _, a := range v.Actions {
		fmt.Fprintf(w, "%-10s  ", a.Action)
		if a.Instance != "" {
			fmt.Fprintf(w, "%s (%s, node %s): %s\n", a.Instance, a.Provider, cmp.Or(a.Node, "unknown"), a.Why)
		} else {
			fmt.Fprintf(w, "%s: %s\n", cmp.Or(a.Node, "an instance of "+a.Provider), a.Why)
		}
	}
	if p.Empty() {
		fmt.Fprintln(w, "nothing to do: cloud, ledger and Slurm agree")
	}
	if v.Deferred > 0 {
		fmt.Fprintf(w, "and %d more terminations in later passes (reconcile.max_terminations)\n", v.Deferred)
	}
}
