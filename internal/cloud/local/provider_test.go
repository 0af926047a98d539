package local

import (
	"context"
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/midair-hpc/midair/internal/cloud"
)

func TestOpenNamesWhatIsWrong(t *testing.T) {
	for want, spoil := range map[string]func(*Options){
		"no root folder":          func(o *Options) { o.Local.Root = "" },
		`network "x"`:             func(o *Options) { o.Local.Network = "x" },
		"IPv4 prefix":             func(o *Options) { o.Local.Network = "fd00::/64" },
		"of 8 to 29 bits":         func(o *Options) { o.Local.Network = "10.0.0.0/30" },
		"no slurmd":               func(o *Options) { o.Local.Slurmd = "" },
		"is negative":             func(o *Options) { o.Local.BootDelay = -1 },
		"g1.small is there twice": func(o *Options) { o.Local.Types = append(o.Local.Types, o.Local.Types[0]) },
	} {
		t.Run(want, func(t *testing.T) {
			o := testOptions(filepath.Join(t.TempDir(), "root"))
			o.Local.Types = append(o.Local.Types[:0:0], o.Local.Types...)
			spoil(&o)
			_, err := Open(o)
			require.ErrorContains(t, err, want)
		})
	}
}

func TestTerminateEndsAndForgivesUnknownIDs(t *testing.T) {
	l := newLab(t)
	res := l.launch(request("a", 2))
	l.clock.forward(10 * time.Second)
	l.terminate("i-unknown", res.Instances[0].ID, "../x")
	list := l.list()
	require.Len(t, list, 2)
	for _, i := range list {
		if i.ID == res.Instances[0].ID {
			require.Equal(t, cloud.Terminated, i.State)
			require.Equal(t, "terminated by request", i.StateCause)
			require.Equal(t, l.clock.now(), i.EndedAt)
		} else {
			require.Equal(t, cloud.Running, i.State)
		}
	}
	l.clock.forward(time.Second)
	l.terminate(res.Instances[0].ID)
	require.Equal(t, l.clock.now().Add(-time.Second), l.launch(request("a", 2)).Instances[0].EndedAt, "ending again changes nothing")
}

func TestInstanceThatDiesByItselfHasVanished(t *testing.T) {
	l := newLab(t)
	l.launch(request("a", 1))
	l.clock.forward(time.Minute)
	for pid := range l.cells.live {
		delete(l.cells.live, pid)
	}
	i := l.one()
	require.Equal(t, cloud.Terminated, i.State)
	require.Equal(t, "vanished", i.StateCause)
	require.Equal(t, l.clock.now(), i.EndedAt)
}

func TestListIsPerClusterAndForgetsAfterAnHour(t *testing.T) {
	l := newLab(t)
	res := l.launch(request("a", 1))
	other := request("b", 1)
	other.Cluster = "elsewhere"
	l.launch(other)
	require.Equal(t, ids(res.Instances), ids(l.list()))
	l.terminate(res.Instances[0].ID)
	l.clock.forward(59 * time.Minute)
	require.Len(t, l.list(), 1)
	l.clock.forward(2 * time.Minute)
	require.Empty(t, l.list())
	all, err := l.All(context.Background())
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.Len(t, l.launch(request("a", 1)).Instances, 1, "the token is known longer")
}

func TestRecordsTokensAndConsolesArePrunedAfterADay(t *testing.T) {
	l := newLab(t)
	res := l.launch(request("a", 3))
	l.launch(request("b", 1))
	l.terminate(ids(res.Instances)...)
	l.clock.forward(keptFor + time.Minute)
	l.list()
	for _, dir := range []string{"instances", "tokens", "console"} {
		files, err := os.ReadDir(filepath.Join(l.root, dir))
		require.NoError(t, err)
		require.Len(t, files, 1, dir)
	}
}

func TestOddRecordIsLeftOut(t *testing.T) {
	l := newLab(t)
	res := l.launch(request("a", 2))
	require.NoError(t, os.WriteFile(l.reg.recordPath("i-1"), []byte("{"), 0o644))
	require.NoError(t, os.WriteFile(l.reg.recordPath("i-2"), []byte(`{"id":"i-3"}`), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(l.root, "instances", "README"), nil, 0o644))
	require.Equal(t, ids(res.Instances), ids(l.list()))
	require.Equal(t, ids(res.Instances), ids(l.again().list()))
}

func TestQuotes(t *testing.T) {
	l := newLab(t)
	anywhere := cloud.Offering{Type: "g1.small", Zone: "moon", Market: cloud.OnDemand}
	q, err := l.Quotes(context.Background(), []cloud.Offering{large, anywhere})
	require.NoError(t, err)
	require.Equal(t, []cloud.Quote{
		{Offering: large, Price: 4_000_000, CPUs: 16, MemoryMiB: 65536, GPUs: 4},
		{Offering: anywhere, Price: 1_200_000, CPUs: 4, MemoryMiB: 8192, GPUs: 1},
	}, q)
	for _, o := range []cloud.Offering{{Type: "x", Zone: "z", Market: cloud.Spot}, {Type: "g1.large", Zone: "z", Market: cloud.Spot}} {
		_, err = l.Quotes(context.Background(), []cloud.Offering{large, o})
		e := cloud.AsError(err)
		require.Equal(t, cloud.Config, e.Class)
		require.Contains(t, e.Message, o.Key())
	}
}

func TestConsoleGivesTheLast64KiB(t *testing.T) {
	l := newLab(t)
	id := l.launch(request("a", 1)).Instances[0].ID
	text, err := l.Console(context.Background(), id)
	require.NoError(t, err)
	require.Contains(t, text, "boots as a-001, 10.213.4.2")
	require.NoError(t, os.WriteFile(l.reg.console(id), []byte(strings.Repeat("x", consoleSize)+"last"), 0o644))
	text, err = l.Console(context.Background(), id)
	require.NoError(t, err)
	require.Len(t, text, consoleSize)
	require.True(t, strings.HasSuffix(text, "xlast"))
	text, err = l.Console(context.Background(), "../../etc/passwd")
	require.NoError(t, err)
	require.Empty(t, text)
}

func TestAddressesRotateAndSkipThoseInUse(t *testing.T) {
	n := netip.MustParsePrefix("10.0.0.0/29") // 10.0.0.2 to 10.0.0.6
	require.Equal(t, 5, capacity(n))
	at := time.Unix(0, 0)
	v := &view{records: map[string]*record{}}
	free := func(want int) string {
		var s []string
		for _, a := range v.freeAddresses(n, want) {
			s = append(s, a.String()[len("10.0.0."):])
		}
		return strings.Join(s, " ")
	}
	give := func(id, addr string) {
		at = at.Add(time.Second)
		v.records[id] = &record{ID: id, Addr: netip.MustParseAddr("10.0.0." + addr), CreatedAt: at}
	}
	require.Equal(t, "2 3 4 5 6", free(9))
	give("a", "2")
	give("b", "3")
	require.Equal(t, "4", free(1))
	v.records["a"].Gone = true
	require.Equal(t, "4 5 6 2", free(5), "2 has ended and comes last")
	give("c", "6")
	require.Equal(t, "2 4 5", free(5))
}

func TestDestroyLeavesNothing(t *testing.T) {
	l := newLab(t)
	l.launch(request("a", 3))
	l.faults(Faults{Throttle: 3})
	n, err := l.Destroy(context.Background())
	require.NoError(t, err)
	require.Equal(t, 3, n)
	require.Empty(t, l.cells.specs())
	require.True(t, l.cells.removed)
	require.NoDirExists(t, l.root)
	require.Empty(t, l.list(), "a call after it finds an empty cloud")
}

func TestDestroyLeavesOtherPeoplesFiles(t *testing.T) {
	l := newLab(t)
	l.launch(request("a", 1))
	mine := filepath.Join(l.root, "thesis.tex")
	require.NoError(t, os.WriteFile(mine, []byte("x"), 0o644))
	_, err := l.Destroy(context.Background())
	require.NoError(t, err)
	require.FileExists(t, mine)
	require.NoDirExists(t, filepath.Join(l.root, "instances"))
}

func TestRecordKeepsItsProcess(t *testing.T) {
	r := record{ID: "i-1", Process: &process{Machine: "boot pid:[1]"}}
	r.Process.PID, r.Process.StartTime = 42, 4711
	b, err := json.Marshal(r)
	require.NoError(t, err)
	var back record
	require.NoError(t, json.Unmarshal(b, &back))
	require.Equal(t, r.Process, back.Process)
}

func BenchmarkListOf300(b *testing.B) {
	o := testOptions(b.TempDir())
	o.Local.Network = "10.213.0.0/22"
	p, err := Open(o)
	require.NoError(b, err)
	p.cells = newFakeCells()
	_, err = p.Launch(context.Background(), request("a", 300))
	require.NoError(b, err)
	b.Run("same process", func(b *testing.B) {
		for b.Loop() {
			list, err := p.List(context.Background(), "lab")
			if err != nil || len(list) != 300 {
				b.Fatal(err, len(list))
			}
		}
	})
	b.Run("new process", func(b *testing.B) {
		for b.Loop() {
			p.reg.cache = map[string]cached{}
			list, err := p.List(context.Background(), "lab")
			if err != nil || len(list) != 300 {
				b.Fatal(err, len(list))
			}
		}
	})
}
