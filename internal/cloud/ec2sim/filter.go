package ec2sim

import (
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
)

// filters are Filter.N of a call: every one must match, by any of its values.
type filters []filter

type filter struct {
	name   string
	values []string
}

// maxFilterValues is EC2's limit for all filters of a call.
const maxFilterValues = 200

// readFilters reads the filters of an action that knows these names; "tag" is
// for tag:KEY.
func readFilters(f *form, known ...string) filters {
	var all filters
	values := 0
	for _, n := range f.list("Filter") {
		one := filter{name: n.str("Name"), values: n.strs("Value")}
		kind := one.name
		if strings.HasPrefix(kind, "tag:") {
			kind = "tag"
		}
		if !slices.Contains(known, kind) || one.name == "tag" {
			f.bad(fail("InvalidParameterValue", "The filter '%s' is invalid", one.name))
		}
		if values += len(one.values); values > maxFilterValues {
			f.bad(fail("FilterLimitExceeded", "The maximum number of filter values specified on a single call is %d", maxFilterValues))
		}
		if len(one.values) == 0 {
			f.bad(fail("InvalidParameterValue", "The filter '%s' has no values", one.name))
		}
		all = append(all, one)
	}
	return all
}

// match reports whether the filters of a name, if there are any, take a value.
func (fs filters) match(name, value string) bool {
	for _, f := range fs {
		if f.name == name && !slices.ContainsFunc(f.values, func(p string) bool { return wild(p, value) }) {
			return false
		}
	}
	return true
}

// matchTags does the same for tag:KEY and tag-key.
func (fs filters) matchTags(tags map[string]string) bool {
	for _, f := range fs {
		if f.name == "tag-key" {
			found := false
			for key := range tags {
				found = found || slices.ContainsFunc(f.values, func(p string) bool { return wild(p, key) })
			}
			if !found {
				return false
			}
		}
		key, ok := strings.CutPrefix(f.name, "tag:")
		if !ok {
			continue
		}
		value, there := tags[key]
		if !there || !slices.ContainsFunc(f.values, func(p string) bool { return wild(p, value) }) {
			return false
		}
	}
	return true
}

// wild matches EC2's patterns: * for any characters, ? for one; a backslash
// makes the next one plain.
func wild(pattern, s string) bool {
	if !strings.ContainsAny(pattern, `*?\`) {
		return pattern == s
	}
	// The place after the last *, to come back to.
	p, i, back, from := 0, 0, -1, 0
	for i < len(s) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			back, from = p+1, i
			p++
			continue
		case p < len(pattern) && pattern[p] == '?':
			p, i = p+1, i+1
			continue
		case p+1 < len(pattern) && pattern[p] == '\\' && pattern[p+1] == s[i]:
			p, i = p+2, i+1
			continue
		case p < len(pattern) && pattern[p] != '\\' && pattern[p] == s[i]:
			p, i = p+1, i+1
			continue
		}
		if back < 0 {
			return false
		}
		from++
		p, i = back, from
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// among reports whether a value was asked for: no list asks for all.
func among(list []string, value string) bool { return len(list) == 0 || slices.Contains(list, value) }

// page is MaxResults and NextToken.
type page struct {
	max  int // 0: all
	from int
}

func readPage(f *form, least, most int) page {
	p := page{max: f.int("MaxResults", 0)}
	if f.sub("MaxResults").set && (p.max < least || p.max > most) {
		f.bad(fail("InvalidParameterValue", "Value ( %d ) for parameter maxResults is invalid. Expecting a value between %d and %d.", p.max, least, most))
	}
	if t := f.str("NextToken"); t != "" {
		var ok bool
		if p.from, ok = readToken(t); !ok {
			f.bad(fail("InvalidNextToken", "The token '%s' is invalid", t))
		}
	}
	return p
}

func readToken(t string) (int, bool) {
	b, err := base64.RawURLEncoding.DecodeString(t)
	if err != nil {
		return 0, false
	}
	n, err := strconv.Atoi(string(b))
	return n, err == nil && n >= 0
}

func pageToken(n int) string { return base64.RawURLEncoding.EncodeToString([]byte(strconv.Itoa(n))) }

// cut gives a page of a list that does not change, and the token of the next.
func cut[T any](p page, list []T) ([]T, string, *Error) {
	if p.from > len(list) {
		return nil, "", fail("InvalidNextToken", "The token is invalid")
	}
	list = list[p.from:]
	if p.max == 0 || len(list) <= p.max {
		return list, "", nil
	}
	return list[:p.max], pageToken(p.from + p.max), nil
}
