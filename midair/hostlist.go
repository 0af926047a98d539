package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/midair-hpc/midair/internal/hostlist"
)

// maxHostlistInput bounds what is read from standard input, in bytes: a
// million names of 64.
const maxHostlistInput = 64 << 20

func hostlistCommand() *cli.Command {
	return &cli.Command{
		Name:  "hostlist",
		Usage: "expand and fold Slurm's hostlist expressions",
		Subcommands: []*cli.Command{
			{
				Name:      "expand",
				Usage:     "print the names of expressions",
				ArgsUsage: "[EXPR...]",
				Description: "Prints the names in Slurm's order, duplicates included.\n" +
					"Without EXPR, or for -, it reads one expression a line from standard input.\n" +
					"Exits 0 when all names are printed, also when there are none. Exits 1 and prints no name\n" +
					"when an expression or option is bad, there are more names than --max, or standard input\n" +
					"cannot be read; 1 also when the output cannot be written.",
				Flags: []cli.Flag{
					&cli.IntFlag{Name: "max", Value: hostlist.DefaultMax, Usage: fmt.Sprintf("refuse more than `N` names in all, N at most %d", hostlist.HighestMax)},
					&cli.StringFlag{Name: "delimiter", Aliases: []string{"d"}, Value: "\n", DefaultText: "a line end", Usage: "print `TEXT` between the names"},
				},
				Action: expandHostlists,
			},
			{
				Name:      "fold",
				Usage:     "write names as one expression",
				ArgsUsage: "[NAME...]",
				Description: "Keeps order and duplicates, unless --sort is given. A NAME can be an expression too.\n" +
					"Without NAME, or for -, it reads names from standard input; blanks, commas and line ends part them.\n" +
					"Exits 0 when the expression is printed, also when there are no names and so no expression.\n" +
					"Exits 1 and prints nothing when a name or option is bad, there are too many names, or standard\n" +
					"input cannot be read; 1 also when the output cannot be written.",
				Flags: []cli.Flag{
					&cli.BoolFlag{Name: "sort", Aliases: []string{"s"}, Usage: "sort the names and write each once"},
				},
				Action: foldHostlists,
			},
		},
	}
}

func expandHostlists(c *cli.Context) error {
	limit := c.Int("max")
	if limit < 1 || limit > hostlist.HighestMax {
		return fmt.Errorf("--max %d: give a number from 1 to %d", limit, hostlist.HighestMax)
	}
	names, err := hostlistNames(c, limit)
	if err != nil || len(names) == 0 {
		return err
	}
	_, err = fmt.Fprintln(c.App.Writer, strings.Join(names, c.String("delimiter")))
	return err
}

func foldHostlists(c *cli.Context) error {
	names, err := hostlistNames(c, hostlist.DefaultMax)
	if err != nil || len(names) == 0 {
		return err
	}
	fold := hostlist.Fold
	if c.Bool("sort") {
		fold = hostlist.FoldSorted
	}
	_, err = fmt.Fprintln(c.App.Writer, fold(names))
	return err
}

// hostlistNames expands the arguments, or what standard input has where there
// are none or where one is -. limit is for all of them together.
func hostlistNames(c *cli.Context, limit int) ([]string, error) {
	var names []string
	add := func(expr string) error {
		more, err := hostlist.ExpandMax(expr, limit-len(names))
		var e *hostlist.Error
		if errors.As(err, &e) && e.TooMany && len(names) > 0 {
			return fmt.Errorf("%d names so far, %d allowed: %w", len(names), limit, err)
		}
		names = append(names, more...)
		return err
	}
	args := c.Args().Slice()
	if len(args) == 0 {
		args = []string{"-"}
	}
	for _, arg := range args {
		switch {
		case arg == "-":
			if err := eachHostlistLine(c.App.Reader, add); err != nil {
				return nil, err
			}
		case strings.HasPrefix(arg, "-"):
			// No node's name begins so; urfave/cli stops at the first argument.
			return nil, fmt.Errorf("%q is not a hostlist; write options before the first one", arg)
		default:
			if err := add(arg); err != nil {
				return nil, err
			}
		}
	}
	return names, nil
}

// eachHostlistLine calls add for every line.
func eachHostlistLine(r io.Reader, add func(expr string) error) error {
	text, err := io.ReadAll(io.LimitReader(r, maxHostlistInput+1))
	if err != nil {
		return fmt.Errorf("read standard input: %w", err)
	}
	if len(text) > maxHostlistInput {
		return fmt.Errorf("read standard input: more than %d MiB; is it a list of nodes?", maxHostlistInput>>20)
	}
	line := 0
	for expr := range strings.Lines(string(text)) {
		line++
		if err := add(strings.TrimSuffix(expr, "\n")); err != nil {
			return fmt.Errorf("standard input, line %d: %w", line, err)
		}
	}
	return nil
}
