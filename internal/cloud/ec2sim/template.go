package ec2sim

import (
	"strconv"
	"time"
)

// templateRef is how a call names a launch template.
type templateRef struct {
	id, name, version string
}

func readTemplateRef(n *node) (templateRef, bool) {
	r := templateRef{id: n.str("LaunchTemplateId"), name: n.str("LaunchTemplateName"), version: n.str("Version")}
	if r.id != "" && r.name != "" {
		n.f.bad(fail("InvalidParameterCombination", "The parameters LaunchTemplateId and LaunchTemplateName cannot be used together"))
	}
	return r, r.id != "" || r.name != ""
}

// template finds a launch template's version; an empty one is the default.
func (s *Sim) template(r templateRef) (*LaunchTemplate, int, *Error) {
	for i := range s.cat.LaunchTemplates {
		t := &s.cat.LaunchTemplates[i]
		if (r.id != "" && t.ID != r.id) || (r.id == "" && t.Name != r.name) {
			continue
		}
		n := max(1, t.Default)
		switch r.version {
		case "", "$Default":
		case "$Latest":
			n = len(t.Versions)
		default:
			v, err := strconv.Atoi(r.version)
			if err != nil || v < 1 || v > len(t.Versions) {
				return nil, 0, fail("InvalidLaunchTemplateId.VersionNotFound", "Could not find launch template version %s of launch template %s", r.version, t.ID)
			}
			n = v
		}
		return t, n, nil
	}
	if r.id != "" {
		return nil, 0, fail("InvalidLaunchTemplateId.NotFound", "The specified launch template, with template ID %s, does not exist.", r.id)
	}
	return nil, 0, fail("InvalidLaunchTemplateName.NotFoundException", "The specified launch template, with template name %s, does not exist.", r.name)
}

type launchTemplateXML struct {
	ID        string   `xml:"launchTemplateId"`
	Name      string   `xml:"launchTemplateName"`
	Created   string   `xml:"createTime"`
	CreatedBy string   `xml:"createdBy"`
	Default   int      `xml:"defaultVersionNumber"`
	Latest    int      `xml:"latestVersionNumber"`
	Tags      []tagXML `xml:"tagSet>item"`
}

type describeLaunchTemplatesReply struct {
	Templates []launchTemplateXML `xml:"launchTemplates>item"`
	NextToken string              `xml:"nextToken,omitempty"`
}

// longAgo is when what is in the catalogue was made.
var longAgo = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)

func (s *Sim) describeLaunchTemplates(c *call) op {
	ids, names := c.strs("LaunchTemplateId"), c.strs("LaunchTemplateName")
	filters := readFilters(c.form, "launch-template-name", "tag", "tag-key", "create-time")
	page := readPage(c.form, 1, 200)
	c.ignore("IncludeManagedResources")
	return func(time.Time) (any, *Error) {
		for _, id := range ids {
			if _, _, e := s.template(templateRef{id: id}); e != nil {
				return nil, e
			}
		}
		for _, name := range names {
			if _, _, e := s.template(templateRef{name: name}); e != nil {
				return nil, e
			}
		}
		var found []launchTemplateXML
		for _, t := range s.cat.LaunchTemplates {
			if !among(ids, t.ID) || !among(names, t.Name) || !filters.match("launch-template-name", t.Name) || !filters.matchTags(nil) {
				continue
			}
			found = append(found, launchTemplateXML{ID: t.ID, Name: t.Name, Created: stamp(longAgo), CreatedBy: s.arn("iam", "root"), Default: max(1, t.Default), Latest: len(t.Versions)})
		}
		items, next, e := cut(page, found)
		return &describeLaunchTemplatesReply{Templates: items, NextToken: next}, e
	}
}

func (s *Sim) arn(service, what string) string {
	return "arn:aws:" + service + "::" + s.cat.Account + ":" + what
}
