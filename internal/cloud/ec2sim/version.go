package ec2sim

import (
	"time"
)

type templateVersionXML struct {
	ID        string          `xml:"launchTemplateId"`
	Name      string          `xml:"launchTemplateName"`
	Number    int             `xml:"versionNumber"`
	Created   string          `xml:"createTime"`
	CreatedBy string          `xml:"createdBy"`
	Default   bool            `xml:"defaultVersion"`
	Data      templateDataXML `xml:"launchTemplateData"`
}

type templateDataXML struct {
	Profile        *templateProfileXML   `xml:"iamInstanceProfile"`
	Networks       []templateNetworkXML  `xml:"networkInterfaceSet>item"`
	Image          string                `xml:"imageId,omitempty"`
	Type           string                `xml:"instanceType,omitempty"`
	Placement      *templatePlacementXML `xml:"placement"`
	Shutdown       string                `xml:"instanceInitiatedShutdownBehavior,omitempty"`
	UserData       string                `xml:"userData,omitempty"`
	Tags           []templateTagsXML     `xml:"tagSpecificationSet>item"`
	SecurityGroups []string              `xml:"securityGroupIdSet>item"`
	Market         *templateMarketXML    `xml:"instanceMarketOptions"`
	Hibernation    *templateHibernateXML `xml:"hibernationOptions"`
	Metadata       *templateMetadataXML  `xml:"metadataOptions"`
}

type templateProfileXML struct {
	Name string `xml:"name"`
}

type templateNetworkXML struct {
	Device int      `xml:"deviceIndex"`
	Kind   string   `xml:"interfaceType,omitempty"`
	Subnet string   `xml:"subnetId,omitempty"`
	Groups []string `xml:"groupSet>groupId"`
}

type templatePlacementXML struct {
	Group string `xml:"groupName"`
}

type templateTagsXML struct {
	Resource string   `xml:"resourceType"`
	Tags     []tagXML `xml:"tagSet>item"`
}

type templateMarketXML struct {
	Kind string `xml:"marketType"`
}

type templateHibernateXML struct {
	Configured bool `xml:"configured"`
}

type templateMetadataXML struct {
	State    string `xml:"state"`
	Tokens   string `xml:"httpTokens"`
	Endpoint string `xml:"httpEndpoint"`
	Tags     string `xml:"instanceMetadataTags"`
}

type describeVersionsReply struct {
	Versions  []templateVersionXML `xml:"launchTemplateVersionSet>item"`
	NextToken string               `xml:"nextToken,omitempty"`
}

func (s *Sim) describeLaunchTemplateVersions(c *call) op {
	ref := templateRef{id: c.str("LaunchTemplateId"), name: c.str("LaunchTemplateName")}
	versions := c.strs("LaunchTemplateVersion")
	from, to := c.int("MinVersion", 0), c.int("MaxVersion", 1<<30)
	c.ignore("ResolveAlias", "IncludeManagedResources", "Filter")
	page := readPage(c.form, 1, 200)
	return func(time.Time) (any, *Error) {
		var all []templateVersionXML
		for i := range s.cat.LaunchTemplates {
			t := &s.cat.LaunchTemplates[i]
			if ref.id != "" || ref.name != "" {
				named, _, e := s.template(ref)
				if e != nil {
					return nil, e
				}
				if named != t {
					continue
				}
			}
			wanted := map[int]bool{}
			for _, v := range versions {
				_, n, e := s.template(templateRef{id: t.ID, version: v})
				if e != nil {
					return nil, e
				}
				wanted[n] = true
			}
			for k := range t.Versions {
				if n := k + 1; (len(versions) == 0 && n >= from && n <= to) || wanted[n] {
					all = append(all, s.versionXML(t, n))
				}
			}
		}
		items, next, e := cut(page, all)
		return &describeVersionsReply{items, next}, e
	}
}

func (s *Sim) versionXML(t *LaunchTemplate, n int) templateVersionXML {
	v := t.Versions[n-1]
	d := templateDataXML{Image: v.Image, Shutdown: v.Shutdown, Type: v.Type, UserData: v.UserData, SecurityGroups: v.SecurityGroups}
	if v.Profile != "" {
		d.Profile = &templateProfileXML{v.Profile}
	}
	if v.EFA || v.Subnet != "" {
		net := templateNetworkXML{Subnet: v.Subnet, Groups: v.SecurityGroups}
		if v.EFA {
			net.Kind = "efa"
		}
		d.Networks, d.SecurityGroups = []templateNetworkXML{net}, nil
	}
	if v.PlacementGroup != "" {
		d.Placement = &templatePlacementXML{v.PlacementGroup}
	}
	if len(v.Tags) > 0 {
		d.Tags = []templateTagsXML{{"instance", tagsXML(v.Tags)}}
	}
	if v.Spot {
		d.Market = &templateMarketXML{"spot"}
	}
	if v.Hibernation {
		d.Hibernation = &templateHibernateXML{true}
	}
	if v.MetadataTags {
		d.Metadata = &templateMetadataXML{"pending", "required", "enabled", "enabled"}
	}
	return templateVersionXML{ID: t.ID, Name: t.Name, Number: n, Created: stamp(longAgo), CreatedBy: s.arn("iam", "root"), Default: n == max(1, t.Default), Data: d}
}
