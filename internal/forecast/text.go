package forecast

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/midair-hpc/midair/internal/planner"
)

// Write prints the forecast for people.
func (f Forecast) Write(w io.Writer, now time.Time) error {
	var b strings.Builder
	f.write(&b, now)
	_, err := io.WriteString(w, b.String())
	return err
}

func (f Forecast) write(b *strings.Builder, now time.Time) {
	nodes := fmt.Sprintf("%d nodes", f.Nodes)
	if f.Nodes == 1 {
		nodes = "1 node"
	}
	if f.Home {
		fmt.Fprintf(b, "tier %s: %s in %s; nothing is bought, the job waits for nodes on the premises\n", f.Tier, nodes, strings.Join(f.Partitions, ", "))
		return
	}
	fmt.Fprintf(b, "tier %s: %s, if none of %s is free\n", f.Tier, nodes, strings.Join(f.Partitions, ", "))
	for _, p := range f.Pools {
		fmt.Fprintf(b, "\npool %s of provider %s", p.Name, p.Provider)
		switch {
		case p.Unfit != "":
			fmt.Fprintf(b, " is not for this job: %s\n", p.Unfit)
			continue
		case p.Refused != "":
			fmt.Fprintf(b, ": nothing can be bought now\n  %s\n", p.Refused)
			if !p.RetryAt.IsZero() {
				fmt.Fprintf(b, "  tried again %s\n", clock(now, p.RetryAt))
			}
		case p.USDPerHour == 0:
			fmt.Fprintf(b, ": its price is not known\n")
		case p.USDAtMost > 0:
			fmt.Fprintf(b, ": %.2f USD an hour, at most %.2f USD if it runs its whole limit of %s\n", p.USDPerHour, p.USDAtMost, limit(f.Job.TimeLimit))
		default:
			fmt.Fprintf(b, ": %.2f USD an hour\n", p.USDPerHour)
		}
		p.table(b, f.Nodes, now)
	}
}

func (p Pool) table(b *strings.Builder, nodes int, now time.Time) {
	t := table.NewWriter()
	style := table.StyleDefault
	style.Options = table.OptionsNoBordersAndSeparators
	style.Box.PaddingLeft, style.Box.PaddingRight = "", "  "
	t.SetStyle(style)
	header := table.Row{"  OFFERING", "USD/H"}
	weighed := false
	for _, o := range p.Offerings {
		weighed = weighed || o.Weighed > 0
	}
	if weighed {
		header = append(header, "WEIGHED")
	}
	t.AppendHeader(append(header, ""))
	asked := 0
	for _, o := range p.Offerings {
		price := "?"
		if o.USDPerHour > 0 {
			price = fmt.Sprintf("%.4f", o.USDPerHour)
		}
		row := table.Row{"  " + o.Key, price}
		if weighed {
			row = append(row, fmt.Sprintf("%.4f", o.Weighed))
		}
		if o.Place == planner.Asked {
			asked++
		}
		t.AppendRow(append(row, o.text(nodes, asked, now)))
	}
	for _, line := range strings.Split(t.Render(), "\n") {
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
}

// text says what becomes of the offering, the asked-th of those that the first
// call asks for.
func (o Offering) text(nodes, asked int, now time.Time) string {
	switch o.Place {
	case planner.Asked:
		switch {
		case asked > 1:
			return "in the same call"
		case nodes == 1:
			return "asked for 1 node"
		}
		return fmt.Sprintf("asked for %d nodes", nodes)
	case planner.Next:
		return "next, if those above have nothing"
	case planner.Waits:
		if o.Until.IsZero() {
			return "not by itself: the tier buys on another market"
		}
		return "the tier waits for another market until " + clock(now, o.Until)
	case planner.PassedOver:
		text := fmt.Sprintf("passed over until %s: %s", clock(now, o.Until), o.Class)
		if o.Why != "" {
			text += ": " + o.Why
		}
		return text
	case planner.Probation:
		return "on probation: its last launches did not become nodes, one at a time tries it"
	}
	return string(o.Place)
}

func clock(now, t time.Time) string {
	t = t.In(now.Location())
	if t.YearDay() != now.YearDay() || t.Year() != now.Year() {
		return t.Format("Jan 2 15:04")
	}
	return t.Format("15:04:05")
}

// limit writes a time limit as Slurm does.
func limit(d time.Duration) string {
	s := int(d.Seconds())
	text := fmt.Sprintf("%02d:%02d:%02d", s/3600%24, s/60%60, s%60)
	if days := s / 86400; days > 0 {
		return fmt.Sprintf("%d-%s", days, text)
	}
	return text
}
