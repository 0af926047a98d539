package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/cloud/ec2sim"
)

func ec2simFaultCommand() *cli.Command {
	return &cli.Command{
		Name: "fault", Usage: "show, add or clear the ways in which the stand-in fails",
		Subcommands: []*cli.Command{
			{
				Name: "ls", Aliases: []string{"list"}, Usage: "show the faults in force",
				Flags:  []cli.Flag{&cli.BoolFlag{Name: "json", Usage: "for programs"}},
				Action: ec2simFaultList,
			},
			{
				Name: "add", Usage: "add a fault: one effect, and what it is met by",
				Description: "Examples:\n" +
					"  midair ec2sim fault add --throttle --action CreateFleet --times 3\n" +
					"  midair ec2sim fault add --error InsufficientInstanceCapacity --type p5.48xlarge --market spot\n" +
					"  midair ec2sim fault add --cut --after --action RunInstances --times 1",
				Flags:  ec2simFaultFlags(),
				Action: ec2simFaultAdd,
			},
			{
				Name: "clear", Usage: "clear all faults, or those with the ids that fault ls shows", ArgsUsage: "[ID...]",
				Action: ec2simFaultClear,
			},
			ec2simOn("interrupt", "take a spot instance back after a notice", []cli.Flag{&cli.DurationFlag{Name: "notice", Value: 2 * time.Minute, Usage: "`DURATION` before it ends"}},
				func(c *cli.Context, name string) error {
					return ec2simClient(c).Interrupt(c.Context, name, c.Duration("notice"))
				}),
			ec2simOn("vanish", "end an instance at once, as when its host fails", nil,
				func(c *cli.Context, name string) error { return ec2simClient(c).Vanish(c.Context, name) }),
			{
				Name: "deny", Usage: "refuse actions as by a policy", ArgsUsage: "ACTION...",
				Action: func(c *cli.Context) error {
					if c.NArg() == 0 {
						return errors.New("deny: which action? such as RunInstances")
					}
					return ec2simClient(c).Deny(c.Context, c.Args().Slice()...)
				},
			},
			{
				Name: "allow", Usage: "let all denied actions pass again, or these", ArgsUsage: "[ACTION...]",
				Action: func(c *cli.Context) error { return ec2simClient(c).Allow(c.Context, c.Args().Slice()...) },
			},
			{
				Name: "expire", Usage: "make the credentials expire", ArgsUsage: "[ACCESS_KEY_ID]",
				Action: func(c *cli.Context) error {
					key := c.Args().First()
					if key == "" {
						key = ec2sim.DefaultCredential.AccessKeyID
					}
					return ec2simClient(c).ExpireCredential(c.Context, key)
				},
			},
			{
				Name: "renew", Usage: "make expired credentials good again",
				Action: func(c *cli.Context) error { return ec2simClient(c).RenewCredentials(c.Context) },
			},
		},
	}
}

// ec2simOn is a command on one instance.
func ec2simOn(verb, usage string, flags []cli.Flag, do func(c *cli.Context, name string) error) *cli.Command {
	return &cli.Command{
		Name: verb, Usage: usage, ArgsUsage: "INSTANCE|NODE", Flags: flags,
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return fmt.Errorf("%s: want one instance id or node name; midair ec2sim ls shows them", verb)
			}
			return do(c, c.Args().First())
		},
	}
}

func ec2simFaultFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "action", Usage: "met by calls of `ACTION` only"},
		&cli.StringFlag{Name: "type", Usage: "met by instances of `TYPE` only"},
		&cli.StringFlag{Name: "zone", Usage: "met in `ZONE` only"},
		&cli.StringFlag{Name: "market", Usage: "met on `MARKET` only: on-demand, spot or reserved"},
		&cli.IntFlag{Name: "times", Usage: "`N` times; default: until it is cleared"},
		&cli.BoolFlag{Name: "after", Usage: "the call takes effect before the error, hang or cut"},
		&cli.StringFlag{Name: "error", Usage: "fail with `CODE`, such as InsufficientInstanceCapacity"},
		&cli.StringFlag{Name: "message", Usage: "and this `TEXT`"},
		&cli.IntFlag{Name: "status", Usage: "and HTTP status `N`; default: EC2's for the code"},
		&cli.BoolFlag{Name: "throttle", Usage: "fail with RequestLimitExceeded"},
		&cli.DurationFlag{Name: "hang", Usage: "answer after `DURATION`"},
		&cli.BoolFlag{Name: "cut", Usage: "cut the connection in place of an answer"},
		&cli.IntFlag{Name: "at-most", Usage: "give at most `N` instances of an offering to a call"},
		&cli.BoolFlag{Name: "no-boot", Usage: "new instances run but never become nodes"},
		&cli.DurationFlag{Name: "slow-terminate", Usage: "instances are shutting-down for `DURATION` longer"},
		&cli.StringFlag{Name: "odd", Usage: "list instances without `FIELD`: " + strings.Join(ec2sim.Oddities, ", ")},
	}
}

func ec2simFaultAdd(c *cli.Context) error {
	f := ec2sim.Fault{
		Action: c.String("action"), Type: c.String("type"), Zone: c.String("zone"), Market: cloud.Market(c.String("market")), Times: c.Int("times"), After: c.Bool("after"),
		Error: c.String("error"), Message: c.String("message"), Status: c.Int("status"), Hang: ec2sim.Duration(c.Duration("hang")), Cut: c.Bool("cut"),
		NoBoot: c.Bool("no-boot"), SlowTerminate: ec2sim.Duration(c.Duration("slow-terminate")), Odd: c.String("odd"),
	}
	if c.Bool("throttle") {
		if f.Error != "" {
			return errors.New("fault add: --throttle is an error of its own; leave --error out")
		}
		f.Error, f.Message = "RequestLimitExceeded", "Request limit exceeded."
	}
	if c.IsSet("at-most") {
		n := c.Int("at-most")
		f.AtMost = &n
	}
	id, err := ec2simClient(c).AddFault(c.Context, f)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(c.App.Writer, "fault %d\n", id)
	return err
}

func ec2simFaultList(c *cli.Context) error {
	list, err := ec2simClient(c).Faults(c.Context)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return writeJSON(c.App.Writer, list)
	}
	if len(list) == 0 {
		fmt.Fprintln(c.App.Writer, "no faults")
	}
	for _, f := range list {
		fmt.Fprintln(c.App.Writer, f)
	}
	return nil
}

func ec2simFaultClear(c *cli.Context) error {
	var ids []int
	for _, a := range c.Args().Slice() {
		id, err := strconv.Atoi(a)
		if err != nil {
			return fmt.Errorf("fault clear: %q is no id; midair ec2sim fault ls shows them", a)
		}
		ids = append(ids, id)
	}
	return ec2simClient(c).ClearFaults(c.Context, ids...)
}
