package main

import (
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
			&cli.BoolFlag{Name: "dry-run", Usage: "show what a pass would do, and do nothing"},
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
		return err
	}
	if err := fillFromLedger(c.Context, o, &in); err != nil {
		return err
	}
	p := reconcile.Decide(in)
	if c.Bool("json") {
		return writeJSON(c.App.Writer, p)
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

func printPlan(w io.Writer, p reconcile.Plan) {
	if p.Empty() {
		fmt.Fprintln(w, "nothing to do: cloud, ledger and Slurm agree")
		return
	}
	for _, o := range p.Terminate {
		fmt.Fprintf(w, "terminate   %s (%s, node %s): %s\n", o.Instance.ID, o.Provider, o.Instance.Node, o.Why)
	}
	for _, a := range p.Adopt {
		fmt.Fprintf(w, "take over   %s (%s, node %s): Slurm has the node, the ledger does not know the instance\n", a.Instance.ID, a.Provider, a.Instance.Node)
	}
	for _, l := range p.Lost {
		fmt.Fprintf(w, "settle      %s (%s, node %s): %s\n", l.Instance.ID, l.Instance.Provider, l.Instance.Node, l.Why)
	}
	for _, b := range p.Bare {
		fmt.Fprintf(w, "power down  %s: %s\n", b.Node, b.Why)
	}
	for _, n := range p.Resume {
		fmt.Fprintf(w, "resume      %s: it is down and powered down\n", n)
	}
	if p.Deferred > 0 {
		fmt.Fprintf(w, "and %d more terminations in later passes (reconcile.max_terminations)\n", p.Deferred)
	}
}
