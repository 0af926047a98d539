package ec2sim

import (
	"maps"
	"slices"
	"time"
)

type tagDescriptionXML struct {
	ID    string `xml:"resourceId"`
	Kind  string `xml:"resourceType"`
	Key   string `xml:"key"`
	Value string `xml:"value"`
}

type describeTagsReply struct {
	Tags      []tagDescriptionXML `xml:"tagSet>item"`
	NextToken string              `xml:"nextToken,omitempty"`
}

func (s *Sim) describeTags(c *call) op {
	f := readFilters(c.form, "key", "value", "resource-id", "resource-type", "tag")
	page := readPage(c.form, 5, 1000)
	return func(now time.Time) (any, *Error) {
		var all []tagDescriptionXML
		for _, i := range s.order {
			if !s.shown(i, now) || !f.match("resource-id", i.ID) || !f.match("resource-type", "instance") {
				continue
			}
			list := i.tags(now)
			for _, key := range slices.Sorted(maps.Keys(list)) {
				if f.match("key", key) && f.match("value", list[key]) && f.matchTags(map[string]string{key: list[key]}) {
					all = append(all, tagDescriptionXML{i.ID, "instance", key, list[key]})
				}
			}
		}
		items, next, e := cut(page, all)
		return &describeTagsReply{items, next}, e
	}
}
