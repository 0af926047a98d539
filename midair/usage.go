package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agext/levenshtein"
	"github.com/urfave/cli/v2"
)

// helpFlag is --help; -h is shortHelpFlag's, where a command has no other use
// for it.
func helpFlag() cli.Flag {
	return &cli.BoolFlag{Name: "help", Usage: "show this help", DisableDefaultText: true}
}

func shortHelpFlag() cli.Flag { return &cli.BoolFlag{Name: "h", Hidden: true} }

// helpCommand is `midair help COMMAND…`, for commands of commands too.
func helpCommand() *cli.Command {
	return &cli.Command{
		Name:      "help",
		Usage:     "show what a command does",
		ArgsUsage: "[COMMAND]...",
		Action: func(c *cli.Context) error {
			commands, path := c.App.Commands, []string{"midair"}
			for _, name := range c.Args().Slice() {
				k := slices.IndexFunc(commands, func(c *cli.Command) bool { return c.HasName(name) })
				if k < 0 {
					return noCommand(commands, name, strings.Join(slices.Insert(path, 1, "help"), " "))
				}
				path = append(path, name)
				commands = commands[k].Subcommands
			}
			return c.App.RunContext(c.Context, append(path, "--help"))
		},
	}
}

// noCommand says that there is no such command, and which was probably meant.
// list is the command that lists them.
func noCommand(commands []*cli.Command, name, list string) error {
	var names []string
	for _, c := range commands {
		names = append(names, c.Name)
	}
	return fmt.Errorf("no command %q; %s%s lists them all", name, didYouMean(name, names), list)
}

// didYouMean suggests the nearest of the names, if one is near.
func didYouMean(typed string, names []string) string {
	best, distance := "", max(1, len(typed)/3)+1
	for _, n := range names {
		d := levenshtein.Distance(typed, n, nil)
		if len(typed) > 1 && strings.HasPrefix(n, typed) {
			d = 0
		}
		if len(n) > 1 && d < distance {
			best, distance = n, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("did you mean %q? ", best)
}

// prepare gives every command the same manners: -h where it is free, one line
// for a wrong option, an error for a command or an argument that is not there.
func prepare(commands []*cli.Command) {
	for _, c := range commands {
		c.OnUsageError = onUsageError
		c.HideHelpCommand = true // midair help COMMAND does it
		if len(c.Subcommands) > 0 {
			c.Action = group
			prepare(c.Subcommands)
			continue
		}
		c.Action = checked(c, c.Action)
	}
	for _, c := range commands {
		for _, f := range c.Flags {
			if b, ok := f.(*cli.BoolFlag); ok {
				b.DisableDefaultText = true // "(default: false)" tells nobody anything
			}
		}
		if !slices.ContainsFunc(c.Flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), "h") }) {
			c.Flags = append(c.Flags, shortHelpFlag())
		}
	}
}

// group is the action of a command that has commands.
func group(c *cli.Context) error {
	if c.NArg() == 0 {
		return cli.ShowSubcommandHelp(c)
	}
	return noCommand(c.Command.Subcommands, c.Args().First(), c.Command.HelpName)
}

func checked(command *cli.Command, action cli.ActionFunc) cli.ActionFunc {
	ownH := slices.ContainsFunc(command.Flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), "h") })
	return func(c *cli.Context) error {
		if !ownH && c.Bool("h") {
			return cli.ShowSubcommandHelp(c)
		}
		if command.ArgsUsage == "" && c.NArg() > 0 {
			return fmt.Errorf("%s takes no arguments, got %q", called(c), c.Args().First())
		}
		for _, arg := range c.Args().Slice() {
			name := strings.TrimLeft(arg, "-")
			if name != arg && slices.Contains(optionNames(command.Flags), strings.SplitN(name, "=", 2)[0]) {
				return fmt.Errorf("option %s comes too late: write options before the arguments, as in %s %s …", arg, called(c), arg)
			}
		}
		return action(c)
	}
}

// called is the command as it is typed, such as "midair local ls".
func called(c *cli.Context) string { return c.Command.HelpName }

func optionNames(flags []cli.Flag) []string {
	var names []string
	for _, f := range flags {
		names = append(names, f.Names()...)
	}
	return names
}

// onUsageError keeps a wrong option to one line; urfave/cli would print the
// whole help before it.
func onUsageError(c *cli.Context, err error, _ bool) error {
	name, unknown := strings.CutPrefix(err.Error(), "flag provided but not defined: -")
	if !unknown {
		return fmt.Errorf("%w; see %s --help", err, called(c))
	}
	if len(name) == 1 {
		return fmt.Errorf("no option -%s; see %s --help", name, called(c))
	}
	return fmt.Errorf("no option --%s; %ssee %s --help", name, didYouMean(name, optionNames(c.Command.Flags)), called(c))
}
