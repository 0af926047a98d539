package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/urfave/cli/v2"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/cloud/cells"
	"github.com/midair-hpc/midair/internal/cloud/ec2sim"
	"github.com/midair-hpc/midair/internal/cloud/ec2sim/metal"
)

// ec2simAddress is where the stand-in listens if nothing else is said.
const ec2simAddress = "127.0.0.1:4747"

func ec2simCommand() *cli.Command {
	return &cli.Command{
		Name:  "ec2sim",
		Usage: "run a stand-in for AWS on this machine, to try midair's AWS side",
		Description: "It speaks the parts of EC2, Service Quotas, the price list and STS that midair uses, and\n" +
			"fails on demand. Point a provider of kind aws at it with endpoint: http://" + ec2simAddress + ",\n" +
			"and use the credentials that midair ec2sim env prints.",
		Flags: []cli.Flag{&cli.StringFlag{Name: "url", Value: "http://" + ec2simAddress, EnvVars: []string{"MIDAIR_EC2SIM"}, Usage: "where the stand-in `URL` is"}},
		Subcommands: []*cli.Command{
			ec2simServeCommand(),
			{
				Name: "env", Usage: "print the settings that AWS's programs need to use the stand-in",
				Action: ec2simEnv,
			},
			{
				Name: "catalogue", Usage: "print the built-in catalogue, to make an own one from",
				Action: func(c *cli.Context) error {
					_, err := io.WriteString(c.App.Writer, ec2sim.DefaultCatalogueText())
					return err
				},
			},
			{
				Name: "status", Usage: "show what runs, what is in use, and how many calls there were",
				Flags:  []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "for programs"}},
				Action: ec2simStatus,
			},
			{
				Name: "ls", Aliases: []string{"list"}, Usage: "list instances, those that ended in the last hour included",
				Flags: []cli.Flag{
					&cli.BoolFlag{Name: "all", Aliases: []string{"a"}, Usage: "also those that ended before"},
					&cli.BoolFlag{Name: "json", Usage: "for programs"},
				},
				Action: ec2simList,
			},
			ec2simFaultCommand(),
			{
				Name: "set", Usage: "change capacity, quotas, spot prices and lag",
				Flags: []cli.Flag{
					&cli.StringSliceFlag{Name: "capacity", Usage: "`TYPE/ZONE/MARKET=N` instances may run at a time"},
					&cli.StringSliceFlag{Name: "quota", Usage: "`CODE=VCPUS`, such as L-417A185B=384"},
					&cli.StringSliceFlag{Name: "price", Usage: "`TYPE/ZONE=USD` is the spot price from now on"},
					&cli.DurationFlag{Name: "id-lag", Usage: "new instances are found after `DURATION`"},
					&cli.DurationFlag{Name: "address-lag", Usage: "new instances show their address after `DURATION`"},
					&cli.DurationFlag{Name: "tag-lag", Usage: "new tags are shown after `DURATION`"},
				},
				Action: ec2simSet,
			},
			{
				Name: "stop", Usage: "end all instances and the stand-in",
				Action: func(c *cli.Context) error {
					n, err := ec2simClient(c).Stop(c.Context)
					if err != nil {
						return err
					}
					_, err = fmt.Fprintf(c.App.Writer, "ended %d instances\n", n)
					return err
				},
			},
		},
	}
}

func ec2simClient(c *cli.Context) ec2sim.Client { return ec2sim.Client{URL: c.String("url")} }

func ec2simServeCommand() *cli.Command {
	return &cli.Command{
		Name: "serve", Usage: "run the stand-in until it is interrupted or stopped",
		Description: "Interrupted, it leaves what --state keeps and the machines, and goes on with them when it\n" +
			"is started again; midair ec2sim stop ends all for good. With --machines local, instances are\n" +
			"network namespaces on this machine in which slurmd runs, as those of a local provider; each\n" +
			"boots when its tag " + cloud.TagNode + " has been written.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "listen", Value: ec2simAddress, Usage: "`ADDRESS` to listen on; keep it on this machine"},
			&cli.StringFlag{Name: "catalogue", Usage: "what is sold, from `FILE`; default: the built-in catalogue"},
			&cli.StringFlag{Name: "state", Usage: "keep the cloud in `FOLDER` over restarts; default: in memory"},
			&cli.StringFlag{Name: "machines", Value: "none", Usage: "`KIND` of machines that instances run on: none or local"},
			&cli.StringFlag{Name: "slurmd", Value: "/usr/sbin/slurmd", Usage: "`PATH` of slurmd, with --machines local"},
			&cli.StringFlag{Name: "slurm-conf", Usage: "`FILE` that slurmd reads; default: Slurm's"},
			&cli.DurationFlag{Name: "pending", Value: 2 * time.Second, Usage: "instances are pending for `DURATION`"},
			&cli.DurationFlag{Name: "boot", Value: 0, Usage: "machines boot for `DURATION`, with --machines local"},
			&cli.DurationFlag{Name: "shutting-down", Value: 2 * time.Second, Usage: "instances are shutting-down for `DURATION`"},
			&cli.DurationFlag{Name: "stopping", Value: 2 * time.Second, Usage: "instances are stopping for `DURATION`"},
			&cli.DurationFlag{Name: "id-lag", Usage: "new instances are found after `DURATION`"},
			&cli.DurationFlag{Name: "address-lag", Usage: "new instances show their address after `DURATION`"},
			&cli.DurationFlag{Name: "tag-lag", Usage: "new tags are shown after `DURATION`"},
			&cli.BoolFlag{Name: "throttle", Usage: "limit the rate of calls as EC2 does"},
			&cli.Uint64Flag{Name: "seed", Usage: "make ids and spot prices repeatable by `N`"},
		},
		Action: ec2simServe,
	}
}

func ec2simServe(c *cli.Context) error {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	o := ec2sim.Options{
		Delays: ec2sim.Delays{Pending: c.Duration("pending"), Boot: c.Duration("boot"), ShuttingDown: c.Duration("shutting-down"), Stopping: c.Duration("stopping")},
		Lag:    ec2simLag(c), Throttle: c.Bool("throttle"), StateDir: c.String("state"), Seed: c.Uint64("seed"), Log: log,
	}
	o.Catalogue = ec2sim.DefaultCatalogue()
	if path := c.String("catalogue"); path != "" {
		var err error
		if o.Catalogue, err = ec2sim.LoadCatalogue(path); err != nil {
			return err
		}
	}
	switch kind := c.String("machines"); kind {
	case "none":
	case "local":
		if o.StateDir == "" {
			return errors.New("serve: machines outlive this program; say with --state where they are remembered, such as --state /var/lib/midair/ec2sim")
		}
		m, err := metal.New(metal.Options{
			Root: o.StateDir, Network: o.Catalogue.VPC.CIDR, Slurmd: cells.Slurmd{Path: c.String("slurmd"), Conf: c.String("slurm-conf")},
		})
		if err != nil {
			return err
		}
		o.Machines = m
	default:
		return fmt.Errorf("serve: there are no machines of kind %q; there are none and local", kind)
	}
	sim, err := ec2sim.New(o)
	if err != nil {
		return err
	}
	defer sim.Close()
	l, err := net.Listen("tcp", c.String("listen"))
	if err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	ctx, stop := signal.NotifyContext(c.Context, syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	log.Info("stand-in for AWS is ready", "url", "http://"+l.Addr().String(), "region", sim.Region(), "machines", c.String("machines"))
	return serveSim(ctx, l, sim, log)
}

// serveSim serves until ctx ends or the stand-in is stopped.
func serveSim(ctx context.Context, l net.Listener, sim *ec2sim.Sim, log *slog.Logger) error {
	server := &http.Server{Handler: sim, ReadHeaderTimeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn)}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	case <-sim.Done():
	}
	// Calls that hang on purpose end with the stand-in.
	err := sim.Close()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	return errors.Join(err, server.Shutdown(last))
}

func ec2simLag(c *cli.Context) ec2sim.Lag {
	return ec2sim.Lag{ID: c.Duration("id-lag"), Address: c.Duration("address-lag"), Tags: c.Duration("tag-lag")}
}

func ec2simEnv(c *cli.Context) error {
	_, err := fmt.Fprintf(c.App.Writer, `export AWS_ENDPOINT_URL=%s
export AWS_REGION=%s
export AWS_DEFAULT_REGION=%[2]s
export AWS_ACCESS_KEY_ID=%s
export AWS_SECRET_ACCESS_KEY=%s
export AWS_EC2_METADATA_DISABLED=true
`, c.String("url"), ec2sim.DefaultCatalogue().Region, ec2sim.DefaultCredential.AccessKeyID, ec2sim.DefaultCredential.SecretAccessKey)
	return err
}

func ec2simStatus(c *cli.Context) error {
	st, err := ec2simClient(c).Status(c.Context)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return writeJSON(c.App.Writer, st)
	}
	w := c.App.Writer
	fmt.Fprintf(w, "region     %s\ninstances  %s\n", st.Region, counts(st.Instances))
	fmt.Fprintf(w, "vCPUs      %s\ncalls      %s\n", counts(st.VCPUs), counts(st.Calls))
	for _, f := range st.Faults {
		fmt.Fprintf(w, "fault      %s\n", f)
	}
	for _, a := range st.Denied {
		fmt.Fprintf(w, "denied     %s\n", a)
	}
	for _, k := range st.Expired {
		fmt.Fprintf(w, "expired    %s\n", k)
	}
	return nil
}

// counts writes "3 running, 1 stopped", by name.
func counts[K ~string](m map[K]int) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, fmt.Sprintf("%d %s", m[k], k))
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}

func ec2simList(c *cli.Context) error {
	list, err := ec2simClient(c).Instances(c.Context)
	if err != nil {
		return err
	}
	if !c.Bool("all") {
		list = slices.DeleteFunc(list, func(i ec2sim.Info) bool { return !i.EndedAt.IsZero() && time.Since(i.EndedAt) > time.Hour })
	}
	if c.Bool("json") {
		return writeJSON(c.App.Writer, list)
	}
	ec2simTable(c.App.Writer, list, time.Now())
	return nil
}

func ec2simTable(w io.Writer, list []ec2sim.Info, now time.Time) {
	t := table.NewWriter()
	t.SetOutputMirror(w)
	style := table.StyleDefault
	style.Options = table.OptionsNoBordersAndSeparators
	style.Box.PaddingLeft = ""
	style.Box.PaddingRight = "  "
	t.SetStyle(style)
	t.AppendHeader(table.Row{"INSTANCE", "NODE", "STATE", "OFFERING", "ADDRESS", "AGE", "ENDED"})
	for _, i := range list {
		ended := ""
		switch {
		case !i.EndedAt.IsZero():
			ended = fmt.Sprintf("%s ago, %s", localAge(now.Sub(i.EndedAt)), i.Reason)
		case !i.InterruptAt.IsZero():
			ended = fmt.Sprintf("in %s", localAge(i.InterruptAt.Sub(now)))
		}
		t.AppendRow(table.Row{i.ID, i.Tags[cloud.TagNode], i.State, i.Offering.Key(), i.Addr, localAge(now.Sub(i.CreatedAt)), ended})
	}
	t.Render()
}

func ec2simSet(c *cli.Context) error {
	if c.NumFlags() == 0 {
		return errors.New("set: say what to set; midair ec2sim set --help lists it")
	}
	client := ec2simClient(c)
	for _, s := range c.StringSlice("capacity") {
		key, count, _ := strings.Cut(s, "=")
		n, err := strconv.Atoi(count)
		if err != nil {
			return fmt.Errorf("set: --capacity %s: want TYPE/ZONE/MARKET=N, such as p5.48xlarge/us-east-1a/spot=4", s)
		}
		o, err := cloud.ParseOffering(key)
		if err == nil {
			err = client.SetCapacity(c.Context, o, n)
		}
		if err != nil {
			return err
		}
	}
	for _, s := range c.StringSlice("quota") {
		code, count, _ := strings.Cut(s, "=")
		n, err := strconv.Atoi(count)
		if err != nil {
			return fmt.Errorf("set: --quota %s: want CODE=VCPUS, such as L-417A185B=384", s)
		}
		if err := client.SetQuota(c.Context, code, n); err != nil {
			return err
		}
	}
	for _, s := range c.StringSlice("price") {
		pool, usd, _ := strings.Cut(s, "=")
		typ, zone, ok := strings.Cut(pool, "/")
		price, err := strconv.ParseFloat(usd, 64)
		if err != nil || !ok {
			return fmt.Errorf("set: --price %s: want TYPE/ZONE=USD, such as p5.48xlarge/us-east-1a=21.5", s)
		}
		if err := client.SetSpotPrice(c.Context, typ, zone, price); err != nil {
			return err
		}
	}
	if c.IsSet("id-lag") || c.IsSet("address-lag") || c.IsSet("tag-lag") {
		return client.SetLag(c.Context, ec2simLag(c))
	}
	return nil
}
