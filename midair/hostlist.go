package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/midair-hpc/midair/internal/hostlist"
)

func hostlistCommand() *cli.Command {
	return &cli.Command{
		Name:  "hostlist",
		Usage: "expand and fold Slurm's host list expressions",
		Subcommands: []*cli.Command{
			{
				Name: "expand", Usage: "print the names of expressions, one a line", ArgsUsage: "[EXPR... | -]",
				Flags: []cli.Flag{
					&cli.IntFlag{Name: "max", Value: hostlist.DefaultMax, Usage: "give up above so many names"},
					&cli.StringFlag{Name: "delimiter", Aliases: []string{"d"}, Value: "\n", Usage: "between names"},
				},
				Action: expandHosts,
			},
			{
				Name: "fold", Usage: "write names as one expression, in their order", ArgsUsage: "[NAME... | -]",
				Flags:  []cli.Flag{&cli.BoolFlag{Name: "sort", Aliases: []string{"s"}, Usage: "sort, and drop duplicates"}},
				Action: foldHosts,
			},
		},
	}
}

// words gives the arguments, or standard input's if there are none or only -.
func words(c *cli.Context, split bufio.SplitFunc) ([]string, error) {
	if c.NArg() > 0 && !(c.NArg() == 1 && c.Args().First() == "-") {
		return c.Args().Slice(), nil
	}
	var all []string
	s := bufio.NewScanner(c.App.Reader)
	s.Buffer(nil, 64<<20)
	s.Split(split)
	for s.Scan() {
		if w := strings.TrimSpace(s.Text()); w != "" {
			all = append(all, w)
		}
	}
	if err := s.Err(); err != nil {
		return nil, fmt.Errorf("read standard input: %w", err)
	}
	if len(all) == 0 {
		return nil, errors.New("no host list given, neither as an argument nor on standard input")
	}
	return all, nil
}

func expandHosts(c *cli.Context) error {
	exprs, err := words(c, bufio.ScanLines)
	if err != nil {
		return err
	}
	var names []string
	for _, e := range exprs {
		more, err := hostlist.ExpandMax(e, c.Int("max")-len(names))
		if err != nil {
			return err
		}
		names = append(names, more...)
	}
	_, err = io.WriteString(c.App.Writer, strings.Join(names, c.String("delimiter"))+"\n")
	return err
}

func foldHosts(c *cli.Context) error {
	names, err := words(c, bufio.ScanWords)
	if err != nil {
		return err
	}
	folded := hostlist.FoldSorted(names)
	_, err = fmt.Fprintln(c.App.Writer, folded)
	return err
}
