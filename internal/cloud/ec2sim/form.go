package ec2sim

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// form is a request of EC2's query protocol: names with dots are a tree, whose
// numbers are lists (InstanceId.1, Filter.1.Value.2). What an action reads is
// marked, so that what is left over is unknown to it.
type form struct {
	node
	action string
	err    *Error // the first value that could not be read
}

type node struct {
	f     *form
	name  string // as it was sent
	value string
	set   bool // it has a value of its own
	read  bool
	kids  map[string]*node
}

// EC2 takes no more names than this in one request.
const (
	maxNames = 20_000
	maxDepth = 12
)

// parseForm makes a tree of a request's parameters.
func parseForm(values url.Values) (*form, *Error) {
	f := &form{}
	f.f = f
	f.action = values.Get("Action")
	n := 0
	for name, vs := range values {
		if n++; n > maxNames {
			return nil, fail("InvalidParameterValue", "The request has more than %d parameters", maxNames)
		}
		switch name {
		case "Action", "Version":
			continue
		}
		if len(vs) > 1 {
			return nil, fail("InvalidParameterCombination", "The parameter %s is there %d times", name, len(vs))
		}
		parts := strings.Split(name, ".")
		if len(parts) > maxDepth || slices.Contains(parts, "") {
			return nil, fail("UnknownParameter", "The parameter %s is not recognized", name)
		}
		at := &f.node
		for i, p := range parts {
			kid := at.kids[p]
			if kid == nil {
				kid = &node{f: f, name: strings.Join(parts[:i+1], ".")}
				if at.kids == nil {
					at.kids = map[string]*node{}
				}
				at.kids[p] = kid
			}
			at = kid
		}
		at.value, at.set = vs[0], true
	}
	return f, nil
}

func (f *form) bad(e *Error) {
	if f.err == nil {
		f.err = e
	}
}

// unread gives the parameters that the action does not know, in order.
func (f *form) unread() []string {
	var names []string
	var walk func(n *node)
	walk = func(n *node) {
		if n.set && !n.read {
			names = append(names, n.name)
		}
		for _, k := range n.kids {
			walk(k)
		}
	}
	walk(&f.node)
	slices.Sort(names)
	return names
}

// sub is a part of the tree; one that is not there is empty.
func (n *node) sub(name string) *node {
	if n == nil {
		return nil
	}
	k := n.kids[name]
	if k == nil {
		k = &node{f: n.f, name: strings.TrimPrefix(n.name+"."+name, ".")}
	}
	return k
}

// there reports whether anything was sent for it.
func (n *node) there() bool { return n.set || len(n.kids) > 0 }

// list gives the elements of a list in the order of their numbers, which may
// have gaps.
func (n *node) list(name string) []*node {
	at := n.sub(name)
	type numbered struct {
		i int
		n *node
	}
	var items []numbered
	for key, k := range at.kids {
		i, err := strconv.Atoi(key)
		if err != nil || i < 0 || strconv.Itoa(i) != key {
			continue // it stays unread
		}
		items = append(items, numbered{i, k})
	}
	slices.SortFunc(items, func(a, b numbered) int { return a.i - b.i })
	list := make([]*node, 0, len(items))
	for _, it := range items {
		list = append(list, it.n)
	}
	return list
}

func (n *node) str(name string) string {
	k := n.sub(name)
	k.read = true
	return k.value
}

// text is the value of a list's element.
func (n *node) text() string {
	n.read = true
	return n.value
}

func (n *node) strs(name string) []string {
	var all []string
	for _, e := range n.list(name) {
		all = append(all, e.text())
	}
	return all
}

func (n *node) int(name string, unset int) int {
	k := n.sub(name)
	k.read = true
	if !k.set {
		return unset
	}
	v, err := strconv.ParseInt(k.value, 10, 32)
	if err != nil {
		n.f.bad(fail("InvalidParameterValue", "Value (%s) for parameter %s is invalid. It is no integer", k.value, k.name))
		return unset
	}
	return int(v)
}

func (n *node) float(name string, unset float64) float64 {
	k := n.sub(name)
	k.read = true
	if !k.set {
		return unset
	}
	v, err := strconv.ParseFloat(k.value, 64)
	if err != nil || v != v {
		n.f.bad(fail("InvalidParameterValue", "Value (%s) for parameter %s is invalid. It is no number", k.value, k.name))
		return unset
	}
	return v
}

func (n *node) bool(name string) bool {
	k := n.sub(name)
	k.read = true
	switch strings.ToLower(k.value) {
	case "", "false", "0":
		return false
	case "true", "1":
		return true
	}
	n.f.bad(fail("InvalidParameterValue", "Value (%s) for parameter %s is invalid. It is no boolean", k.value, k.name))
	return false
}

func (n *node) time(name string) time.Time {
	k := n.sub(name)
	k.read = true
	if !k.set {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339, k.value)
	if err != nil {
		n.f.bad(fail("InvalidParameterValue", "Value (%s) for parameter %s is invalid. It is no time", k.value, k.name))
	}
	return t
}

// oneOf reads a value that is one of a few words.
func (n *node) oneOf(name string, words ...string) string {
	v := n.str(name)
	if v != "" && !slices.Contains(words, v) {
		n.f.bad(fail("InvalidParameterValue", "Value (%s) for parameter %s is invalid. Valid values are %s", v, n.sub(name).name, strings.Join(words, ", ")))
	}
	return v
}

// ignore marks parameters, with all below them, that EC2 takes and the stand-in
// has no use for.
func (n *node) ignore(names ...string) {
	var mark func(k *node)
	mark = func(k *node) {
		k.read = true
		for _, kk := range k.kids {
			mark(kk)
		}
	}
	for _, name := range names {
		mark(n.sub(name))
	}
}
