package ec2sim

import (
	"slices"
	"strings"
)

// EC2's limits of tags.
const (
	maxTags     = 50
	maxTagKey   = 128
	maxTagValue = 256
)

// tagSpecifications reads the tags of a create call, by type of resource.
func tagSpecifications(n *node, resources ...string) map[string]map[string]string {
	all := map[string]map[string]string{}
	for _, spec := range n.list("TagSpecification") {
		kind := spec.str("ResourceType")
		if !slices.Contains(resources, kind) {
			n.f.bad(fail("InvalidParameterValue", "'%s' is not a valid taggable resource type for this operation.", kind))
		}
		if all[kind] != nil {
			n.f.bad(fail("InvalidParameterValue", "The same resource type may not be specified more than once in tag specifications"))
		}
		all[kind] = tags(spec)
	}
	return all
}

// tags reads a list of tags.
func tags(n *node) map[string]string {
	list := map[string]string{}
	for _, t := range n.list("Tag") {
		key := t.str("Key")
		if _, twice := list[key]; twice {
			n.f.bad(fail("InvalidParameterValue", "Duplicate tag key '%s' specified.", key))
		}
		list[key] = t.str("Value")
		if e := checkTag(key, list[key]); e != nil {
			n.f.bad(e)
		}
	}
	if len(list) > maxTags {
		n.f.bad(tooManyTags())
	}
	return list
}

func tooManyTags() *Error {
	return fail("TagLimitExceeded", "The maximum number of Tags for a resource has been reached.")
}

func checkTag(key, value string) *Error {
	switch {
	case key == "":
		return fail("InvalidParameterValue", "Tag keys must not be empty")
	case strings.HasPrefix(strings.ToLower(key), "aws:"):
		return fail("InvalidParameterValue", "Value ( %s ) for parameter key is invalid. Tag keys starting with 'aws:' are reserved for internal use", key)
	case len([]rune(key)) > maxTagKey:
		return fail("InvalidParameterValue", "Tag key exceeds the maximum length of %d characters", maxTagKey)
	case len([]rune(value)) > maxTagValue:
		return fail("InvalidParameterValue", "Tag value exceeds the maximum length of %d characters", maxTagValue)
	}
	return nil
}
