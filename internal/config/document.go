package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/agext/levenshtein"
	"go.yaml.in/yaml/v3"
)

// document reads one YAML document and collects everything that is wrong with
// it, so that an admin sees all errors at once.
type document struct {
	path     string
	problems Problems
	warnings Problems
	reserved []place // the reservations of all providers, in file order
}

// place is a value in the document and the key that leads to it. Its node is
// nil where the key was not given.
type place struct {
	node *yaml.Node
	key  string
}

func (p place) given() bool { return p.node != nil }

func (p place) index(i int, n *yaml.Node) place {
	return place{node: n, key: p.key + "[" + strconv.Itoa(i) + "]"}
}

func (p place) child(name string, n *yaml.Node) place {
	if p.key != "" {
		name = p.key + "." + name
	}
	return place{node: n, key: name}
}

// peek looks up a key of a mapping without checking anything.
func (p place) peek(name string) place {
	n := resolve(p.node)
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return p.child(name, n.Content[i+1])
		}
	}
	return place{}
}

// element finds an element of a list by its text; the list itself if there is
// none.
func (p place) element(text string) place {
	items := resolve(p.node).Content
	i := slices.IndexFunc(items, func(n *yaml.Node) bool { return resolve(n).Value == text })
	if i < 0 {
		return p
	}
	return p.index(i, items[i])
}

// entry is one key of a mapping.
type entry struct {
	name string
	key  place // the position of the key itself
	at   place // the value
}

// object is a mapping whose keys have been checked.
type object struct {
	at     place
	fields map[string]place
}

func (o object) get(name string) place {
	if p, ok := o.fields[name]; ok {
		return p
	}
	return o.at.child(name, nil)
}

func (d *document) problem(at place, format string, args ...any) {
	d.problems = append(d.problems, d.about(at, format, args))
}

func (d *document) warn(at place, format string, args ...any) {
	d.warnings = append(d.warnings, d.about(at, format, args))
}

func (d *document) about(at place, format string, args []any) Problem {
	p := Problem{Path: d.path, Key: at.key, Message: fmt.Sprintf(format, args...)}
	if at.node != nil {
		p.Line, p.Column = at.node.Line, at.node.Column
	}
	return p
}

// parse gives the root of the document; not given if there is none.
func (d *document) parse(data []byte) place {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	if err := dec.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			d.problem(place{}, "the file is empty; it needs at least cluster")
		} else {
			d.syntax(err)
		}
		return place{}
	}
	if err := dec.Decode(&more); err == nil {
		d.problem(place{node: &more}, "a second document starts here; midair reads one, so remove the line ---")
	} else if !errors.Is(err, io.EOF) {
		d.syntax(err)
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) == 0 {
		d.problem(place{}, "the file is empty; it needs at least cluster")
		return place{}
	}
	return place{node: doc.Content[0]}
}

// syntax reports an error of the YAML parser, which puts the line into its
// text.
func (d *document) syntax(err error) {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	p := Problem{Path: d.path}
	if rest, ok := strings.CutPrefix(text, "line "); ok {
		if number, message, ok := strings.Cut(rest, ": "); ok {
			if n, err := strconv.Atoi(number); err == nil {
				p.Line, text = n, message
			}
		}
	}
	p.Message = "not valid YAML: " + text
	d.problems = append(d.problems, p)
}

// entries gives the keys of a mapping in file order, without duplicates, which
// are reported.
func (d *document) entries(at place) ([]entry, bool) {
	n := resolve(at.node)
	if n.Kind != yaml.MappingNode {
		d.problem(at, "want keys with values here, got %s", describe(n))
		return nil, false
	}
	first := map[string]*yaml.Node{}
	var list []entry
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		name := k.Value
		at := at.child(name, v)
		key := place{node: k, key: at.key}
		if k.Kind != yaml.ScalarNode || name == "" {
			d.problem(place{node: k, key: strings.TrimSuffix(at.key, ".")}, "a key must be a plain name")
			continue
		}
		if k.Tag == "!!merge" {
			d.problem(key, "merge keys are not supported; write the keys out, or use an alias for a whole value")
			continue
		}
		if f, ok := first[name]; ok {
			d.problem(key, "given twice, first in line %d; remove one", f.Line)
			continue
		}
		first[name] = k
		list = append(list, entry{name: name, key: key, at: at})
	}
	return list, true
}

// refusal is a set of keys that are known but wrong in their place, and why.
type refusal struct {
	keys []string
	why  string
}

// later refuses keys of later versions of midair.
func later(keys ...string) refusal {
	return refusal{keys, "not supported by this version of midair; remove it"}
}

// object reads a mapping with a fixed set of keys.
func (d *document) object(at place, allowed []string, refused ...refusal) (object, bool) {
	o := object{at: at, fields: map[string]place{}}
	list, ok := d.entries(at)
	for _, e := range list {
		i := slices.IndexFunc(refused, func(r refusal) bool { return slices.Contains(r.keys, e.name) })
		switch {
		case slices.Contains(allowed, e.name):
			o.fields[e.name] = e.at
		case isSecret(e.name):
			d.problem(e.key, secretRefused)
		case i >= 0:
			d.problem(e.key, "%s", refused[i].why)
		default:
			d.problem(e.key, "unknown key;%s allowed: %s", didYouMean(e.name, allowed), strings.Join(allowed, ", "))
		}
	}
	return o, ok
}

// list gives the elements of a sequence.
func (d *document) list(at place) ([]place, bool) {
	n := resolve(at.node)
	if n.Kind != yaml.SequenceNode {
		d.problem(at, "want a list, such as [a, b], got %s", describe(n))
		return nil, false
	}
	list := make([]place, len(n.Content))
	for i, c := range n.Content {
		list[i] = at.index(i, c)
	}
	return list, true
}

// text reads a scalar as the text that stands in the file.
func (d *document) text(at place) (string, bool) {
	n := resolve(at.node)
	switch {
	case n.Kind != yaml.ScalarNode:
		d.problem(at, "want a single value, got %s", describe(n))
		return "", false
	case n.Tag == "!!null":
		d.problem(at, "has no value; write one, or remove the line")
		return "", false
	case n.Tag == "!!bool":
		d.problem(at, "want a text or number, got %s; if it is meant as a name, put it in quotes", n.Value)
		return "", false
	}
	return n.Value, true
}

func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode && n.Alias != nil {
		return n.Alias
	}
	return n
}

func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "keys with values"
	case yaml.SequenceNode:
		return "a list"
	}
	if n.Tag == "!!null" {
		return "nothing"
	}
	return strconv.Quote(shorten(n.Value))
}

func shorten(s string) string {
	if r := []rune(s); len(r) > 40 {
		return string(r[:40]) + "…"
	}
	return s
}

// didYouMean gives ` did you mean "x"?` for the nearest of the words, or
// nothing if none is near: at most a third of its letters may differ, or two in
// a short one, so that two swapped letters are found.
func didYouMean(s string, words []string) string {
	for limit := 1; limit <= 8; limit++ {
		if w, ok := nearest(s, words, limit); ok && (limit <= len(w)/3 || limit <= 2 && len(w) > 3 || limit == 1) {
			return " did you mean " + strconv.Quote(w) + "?"
		}
	}
	return ""
}

// nearest finds a word that differs from s by at most limit letters.
func nearest(s string, words []string, limit int) (string, bool) {
	if len(s) > 64 {
		return "", false
	}
	for _, w := range words {
		if levenshtein.Distance(strings.ToLower(s), strings.ToLower(w), nil) <= limit {
			return w, true
		}
	}
	return "", false
}
