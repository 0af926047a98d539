package main

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
	"github.com/urfave/cli/v2"
)

// runHostlist runs midair hostlist with the words of args.
func runHostlist(stdin io.Reader, args ...string) (string, error) {
	var out bytes.Buffer
	a := &cli.App{
		Name: "midair", Commands: []*cli.Command{hostlistCommand()}, UseShortOptionHandling: true,
		Reader: stdin, Writer: &out, ErrWriter: &out, ExitErrHandler: func(*cli.Context, error) {},
	}
	err := a.Run(append([]string{"midair", "hostlist"}, args...))
	return out.String(), err
}

func TestHostlistCommand(t *testing.T) {
	for _, c := range []struct{ args, stdin, want string }{
		{"expand n[08-10]", "", "n08\nn09\nn10\n"},
		{"expand n[1-2],m n2", "", "n1\nn2\nm\nn2\n"},
		{"expand -d , n[1-2] m", "", "n1,n2,m\n"},
		{"expand --delimiter=|| n[1-2]", "", "n1||n2\n"},
		{"expand", "n[1-2]\n\nm\r\nx y", "n1\nn2\nm\nx\ny\n"},
		{"expand -", "n[1-2]\n", "n1\nn2\n"},
		{"expand a - b", "n[1-2]\n", "a\nn1\nn2\nb\n"},
		{"expand --max 3 n[1-2] m", "", "n1\nn2\nm\n"},
		{"expand", "", ""},
		{"expand ,", "unread", ""},
		{"fold b2 b1 a3 a4 b2", "", "b[2,1],a[3-4],b2\n"},
		{"fold -s b2 b1 a3 a4 b2", "", "a[3-4],b[1-2]\n"},
		{"fold --sort b2,b1 a[3-4]", "", "a[3-4],b[1-2]\n"},
		{"fold", "n3 n1,\n n2\n", "n[3,1-2]\n"},
		{"fold -s -", "n3 n1\nn2", "n[1-3]\n"},
		{"fold n1-ib n2-ib", "", "n1-ib,n2-ib\n"},
		{"fold", " \n", ""},
	} {
		t.Run("midair hostlist "+c.args, func(t *testing.T) {
			out, err := runHostlist(strings.NewReader(c.stdin), strings.Fields(c.args)...)
			require.NoError(t, err)
			require.Equal(t, c.want, out)
		})
	}
}

func TestHostlistCommandRefusesAndPrintsNothing(t *testing.T) {
	for _, c := range []struct{ args, stdin, want string }{
		{"expand n[1-2] m[3-1]", "", `hostlist "m[3-1]": position 3: the range "3-1" runs backwards; write the smaller number first`},
		{"expand", "n[1-2]\nm[\n", `standard input, line 2: hostlist "m[": position 2: [ without ]; add the ]`},
		{"expand --max 3 n[1-2] m[1-2]", "", `2 names so far, 3 allowed: hostlist "m[1-2]": position 1: up to here it stands for 2 names, and the bound is 1`},
		{"expand n[0-65535]x[0-65535]", "", `hostlist "n[0-65535]x[0-65535]": position 1: up to here it stands for 4294967296 names, and the bound is 1048576`},
		{"expand --max 0 n", "", "--max 0: give a number from 1 to 4194304"},
		{"expand --max 9223372036854775807 n[0-65535]x[0-65535]x[0-65535]", "", "--max 9223372036854775807: give a number from 1 to 4194304"},
		{"expand --max many n", "", `"many"`},
		{"expand n[1-2] -d,", "", `"-d," is not a hostlist; write options before the first one`},
		{"fold n1 n[2", "", `hostlist "n[2": position 2`},
		{"fold n1 -s", "", `"-s" is not a hostlist`},
		{"fold", "n1\nn]\n", `standard input, line 2: hostlist "n]"`},
	} {
		t.Run("midair hostlist "+c.args, func(t *testing.T) {
			out, err := runHostlist(strings.NewReader(c.stdin), strings.Fields(c.args)...)
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, out, "n1")
		})
	}
	_, err := runHostlist(iotest.ErrReader(errors.New("gone")), "expand")
	require.EqualError(t, err, "read standard input: gone")
}

// full is an output that takes nothing, as a full disk or a closed pipe.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestHostlistCommandFailsWhenItCannotWrite(t *testing.T) {
	for _, args := range [][]string{{"expand", "n1"}, {"fold", "n1"}} {
		a := &cli.App{Name: "midair", Commands: []*cli.Command{hostlistCommand()}, Writer: full{}, ExitErrHandler: func(*cli.Context, error) {}}
		require.EqualError(t, a.Run(append([]string{"midair", "hostlist"}, args...)), "disk full")
	}
}

func TestHostlistHelpTellsTheExitCodes(t *testing.T) {
	for _, command := range []string{"expand", "fold"} {
		out, err := runHostlist(strings.NewReader(""), command, "--help")
		require.NoError(t, err)
		require.Contains(t, out, "Exits 0 when")
		require.Contains(t, out, "Exits 1 and prints no")
	}
}
