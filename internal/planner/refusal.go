package planner

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/midair-hpc/midair/internal/cloud"
)

// maxMessage bounds the sentence of a refusal, in bytes: it is read in one line
// of `sinfo -R` and `scontrol show job`, after "midair: " and the class.
const maxMessage = 200

// passedOver is why one offering does not serve a demand.
type passedOver struct {
	key   string
	class cloud.Class
	until time.Time // zero: not remembered, tried in this round only
	// waits: it is another market's turn; until is when its own comes, zero if
	// the tier does not buy there by itself.
	waits bool
}

// refuse says why no offering of the shelf serves the demand, and when the
// first of them may be tried again. s is nil for a pool that is not configured.
func refuse(now time.Time, d *Demand, s *shelf) (*cloud.Error, time.Time) {
	if s == nil {
		return &cloud.Error{Class: cloud.Config, Message: fmt.Sprintf("pool %s is not in midair.yaml", d.Pool)}, time.Time{}
	}
	if len(s.items) == 0 {
		return &cloud.Error{Class: cloud.Config, Message: fmt.Sprintf("pool %s has no offerings in midair.yaml", d.Pool)}, time.Time{}
	}
	if len(s.groups) == 0 {
		return &cloud.Error{Class: cloud.Config, Message: fmt.Sprintf("pool %s sells on none of the markets of tier %s in midair.yaml", d.Pool, d.Tier)}, time.Time{}
	}
	rs := s.reasons(now, d)
	var retry time.Time
	for _, r := range rs {
		if !r.until.IsZero() && (retry.IsZero() || r.until.Before(retry)) {
			retry = r.until
		}
	}
	tried := slices.DeleteFunc(slices.Clone(rs), func(r passedOver) bool { return r.waits })
	text := sentence(now, d.Pool, tried, retry)
	if n := len(rs) - len(tried); n > 0 {
		text = s.waiting(now, d, tried, retry)
	}
	return &cloud.Error{Class: standing(tried), Message: text}, retry
}

// reasons gives, for each offering in the order in which they are tried, why it
// does not serve the demand.
func (s *shelf) reasons(now time.Time, d *Demand) []passedOver {
	open, at := s.others(now, d, s.back(d))
	var rs []passedOver
	for _, g := range s.groups {
		for _, k := range g.items {
			i := s.items[k]
			r := passedOver{key: i.key, class: cloud.Unknown}
			switch m := s.passedOver(k, d); {
			case g.market != s.first() && !open:
				r.waits, r.class, r.until = true, cloud.OutOfStock, at
			case m != nil:
				r.class, r.until = m.Class, m.Until
			case i.probe && !d.Tried[i.key]:
				r.class = cloud.InitFailed
			}
			rs = append(rs, r)
		}
	}
	return rs
}

// waiting is the sentence of a tier that waits for its first market.
func (s *shelf) waiting(now time.Time, d *Demand, tried []passedOver, retry time.Time) string {
	text := fmt.Sprintf("no %s capacity in pool %s", s.first(), d.Pool)
	if len(tried) > 0 && !retry.IsZero() {
		text += ", tried again at " + clock(now, retry)
	}
	_, at := s.others(now, d, s.back(d))
	switch {
	case s.policy.WhenOut == Pause || at.IsZero():
		return text + fmt.Sprintf("; tier %s buys only there", d.Tier)
	case s.policy.WhenOut == Deadline:
		return text + fmt.Sprintf("; other markets from %s, for its deadline", clock(now, at))
	}
	return text + fmt.Sprintf("; other markets from %s", clock(now, at))
}

// preferred orders the classes that offerings are passed over for: of equally
// frequent ones the first stands for the refusal.
var preferred = []cloud.Class{cloud.OutOfStock, cloud.Quota, cloud.InitFailed, cloud.SpecMismatch, cloud.Unknown}

// standing gives the class that most reasons have. A class that no retry helps
// stands only if every reason is of such a class: it holds the job, and an
// offering that is merely out of stock comes back by itself.
func standing(rs []passedOver) cloud.Class {
	count := map[cloud.Class]int{}
	retryable := false
	for _, r := range rs {
		count[r.class]++
		retryable = retryable || r.class.Retryable()
	}
	best, most := cloud.Unknown, 0
	for _, c := range preferred {
		if count[c] > most && (c.Retryable() || !retryable) {
			best, most = c, count[c]
		}
	}
	return best
}

// sentence names as many offerings as fit, two at most.
func sentence(now time.Time, pool string, rs []passedOver, retry time.Time) string {
	head := fmt.Sprintf("all %d offerings of pool %s are passed over", len(rs), pool)
	switch len(rs) {
	case 1:
		head = fmt.Sprintf("the only offering of pool %s is passed over", pool)
	case 2:
		head = fmt.Sprintf("both offerings of pool %s are passed over", pool)
	}
	for n := min(2, len(rs)); n > 0; n-- {
		parts := make([]string, 0, n+1)
		for _, r := range rs[:n] {
			parts = append(parts, r.text(now))
		}
		if more := len(rs) - n; more > 0 {
			parts = append(parts, fmt.Sprintf("and %d more", more))
		}
		if s := head + ": " + strings.Join(parts, "; "); len(s) <= maxMessage {
			return s
		}
	}
	if retry.IsZero() {
		return head
	}
	return head + ", the first until " + clock(now, retry)
}

func (r passedOver) text(now time.Time) string {
	if r.until.IsZero() {
		return r.key + " failed in this round"
	}
	return fmt.Sprintf("%s %s until %s", r.key, r.class, clock(now, r.until))
}

// clock writes t as people at now's place read it, with the day where it is
// not today.
func clock(now, t time.Time) string {
	t = t.In(now.Location())
	if t.YearDay() != now.YearDay() || t.Year() != now.Year() {
		return t.Format("Jan 2 15:04:05")
	}
	return t.Format("15:04:05")
}
