package config

import (
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/midair-hpc/midair/internal/cloud"
)

// spotAllocations are EC2's words for a fleet's spot allocation strategy
// (CreateFleet, SpotOptions.AllocationStrategy).
var spotAllocations = []string{"price-capacity-optimized", "capacity-optimized", "capacity-optimized-prioritized", "diversified", "lowest-price"}

func (d *document) aws(o object, a *AWS) {
	*a = AWS{SpotAllocation: spotAllocations[0]}
	required(d, o, "region", &a.Region, parseRegion, "the region where it buys, such as us-east-1")
	optional(d, o, "endpoint", &a.Endpoint, parseEndpoint)
	if strings.HasPrefix(a.Endpoint, "http:") && !loopback(a.Endpoint) {
		d.warn(o.get("endpoint"), "calls over http can be read on their way, session tokens included; use https, or a stand-in on this machine only")
	}
	optional(d, o, "profile", &a.Profile, parseProfile)
	optional(d, o, "credentials_file", &a.CredentialsFile, parsePath)
	if !optional(d, o, "launch_template", &a.LaunchTemplate, parseLaunchTemplate) && o.get("launch_template").given() {
		a.LaunchTemplate = "wrong" // and reported; its pools need not be
	}
	d.subnets(o.get("subnets"), a)
	optional(d, o, "spot_allocation", &a.SpotAllocation, oneOf(spotAllocations))
	optional(d, o, "price_file", &a.PriceFile, parsePath)
	d.reservations(o.get("reservations"), a)
}

// subnets reads zone → subnet id, or a list of them.
func (d *document) subnets(at place, a *AWS) {
	if !at.given() {
		return
	}
	list, ok := d.entries(at)
	if ok && len(list) == 0 {
		d.problem(at, "there is no subnet; write ZONE: subnet-… for each zone, or remove the line to use the launch template's")
	}
	a.Subnets = map[string][]string{}
	zoneOf := map[string]string{}
	for _, e := range list {
		if err := zoneIn(a.Region, e.name); err != nil {
			d.problem(e.key, "%q: %v", shorten(e.name), err)
			continue
		}
		items := []place{e.at}
		if resolve(e.at.node).Kind == yaml.SequenceNode {
			if items, _ = d.list(e.at); len(items) == 0 {
				d.problem(e.at, "the list is empty; write at least one subnet, or remove the zone")
			}
		}
		for _, item := range items {
			var id string
			if !scalar(d, item, &id, parseID("subnet")) {
				continue
			}
			if z, taken := zoneOf[id]; taken {
				d.problem(item, "%q is listed already, for %s; a subnet is in one zone, so remove one", id, z)
				continue
			}
			zoneOf[id] = e.name
			a.Subnets[e.name] = append(a.Subnets[e.name], id)
		}
	}
}

func (d *document) reservations(at place, a *AWS) {
	if !at.given() {
		return
	}
	items, _ := d.list(at)
	for _, item := range items {
		o, ok := d.object(item, []string{"id", "type", "zone", "kind"})
		if !ok {
			continue
		}
		var r Reservation
		kind := "on-demand"
		id := required(d, o, "id", &r.ID, parseID("cr"), "the id of the capacity reservation, such as cr-0123456789abcdef0")
		typ := required(d, o, "type", &r.Type, parseInstanceType, "the instance type that is reserved")
		zone := required(d, o, "zone", &r.Zone, func(s string) (string, error) { return s, zoneIn(a.Region, s) }, "the zone where it is reserved")
		optional(d, o, "kind", &kind, oneOf([]string{"on-demand", "capacity-block"}))
		r.Block = kind == "capacity-block"
		if i := slices.IndexFunc(a.Reservations, func(other Reservation) bool { return other.ID == r.ID }); id && i >= 0 {
			d.problem(o.get("id"), "%q is listed already; remove one", r.ID)
			continue
		}
		if id && typ && zone {
			a.Reservations = append(a.Reservations, r)
			d.reserved = append(d.reserved, item)
		}
	}
}

// checkReservations warns of reservations that cost money and that no pool
// uses.
func (d *document) checkReservations(c *Config) {
	seen := 0
	for i := range c.Providers {
		p := &c.Providers[i]
		for _, r := range p.AWS.Reservations {
			at := d.reserved[seen]
			seen++
			want := cloud.Offering{Type: r.Type, Zone: r.Zone, Market: cloud.Reserved}
			used := slices.ContainsFunc(c.Pools, func(pool Pool) bool {
				return pool.Provider == p.Name && slices.Contains(pool.Offerings, want)
			})
			if !used {
				d.warn(at, "no pool of provider %s has %s among its offerings, so nobody uses reservation %s", p.Name, want, r.ID)
			}
		}
	}
}

// checkAWSEntry checks what can be known of an entry of offerings without
// asking EC2: that its words can be right, that there is a subnet, and that
// what is reserved has a reservation.
func (d *document) checkAWSEntry(e object, types, zones []string, markets []cloud.Market, provider *Provider) {
	good := true
	for _, t := range types {
		if _, err := parseInstanceType(t); err != nil {
			d.problem(e.get("types").element(t), "%q: %v", t, err)
			good = false
		}
	}
	a := &provider.AWS
	for _, z := range zones {
		at := e.get("zones").element(z)
		if err := zoneIn(a.Region, z); err != nil {
			d.problem(at, "%q: %v", z, err)
			good = false
			continue
		}
		if _, ok := a.Subnets[z]; !ok && a.Subnets != nil {
			have := make([]string, 0, len(a.Subnets))
			for zone := range a.Subnets {
				have = append(have, zone)
			}
			slices.Sort(have)
			d.problem(at, "%q: provider %s has no subnet in this zone; add one to its subnets, or remove the zone here; it has: %s",
				z, provider.Name, strings.Join(have, ", "))
		}
	}
	if !good || !slices.Contains(markets, cloud.Reserved) {
		return
	}
	var without []string
	for _, z := range zones {
		for _, t := range types {
			if !slices.ContainsFunc(a.Reservations, func(r Reservation) bool { return r.Type == t && r.Zone == z }) {
				without = append(without, t+" in "+z)
			}
		}
	}
	if len(without) > 0 {
		d.problem(e.get("markets").element(string(cloud.Reserved)), "provider %s has no reservation for %s; add it to its reservations, or sell it on other markets in an entry of its own",
			provider.Name, strings.Join(without, ", "))
	}
}

var (
	regionForm = regexp.MustCompile(`^[a-z]{2,4}(-[a-z]+)+-[0-9]{1,2}$`)
	zoneRest   = regexp.MustCompile(`^([a-z]|(-[a-z0-9]+)+)$`)
	zoneIDForm = regexp.MustCompile(`^[a-z]{2,5}[0-9]+-([a-z0-9]+-)?az[0-9]+$`)
	typeForm   = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*\.([0-9]*)([a-z]+)(-[0-9]+xl)?$`)
	// The forms of launch template names are those of CreateLaunchTemplate.
	templateForm = regexp.MustCompile(`^[a-zA-Z0-9().\-/_]{3,128}$`)
	versionForm  = regexp.MustCompile(`^([1-9][0-9]{0,9}|\$Latest|\$Default)$`)
	accessKey    = regexp.MustCompile(`^A[KS]IA[A-Z0-9]{16}$`)
)

func parseRegion(s string) (string, error) {
	if regionForm.MatchString(s) {
		return s, nil
	}
	// The usual slips: a zone, an underscore, capitals, us-east1.
	near := strings.ReplaceAll(strings.ToLower(s), "_", "-")
	if n := len(near); n > 1 && near[n-1] >= 'a' && near[n-1] <= 'z' && near[n-2] >= '0' && near[n-2] <= '9' {
		near = near[:n-1]
	}
	if i := strings.IndexAny(near, "0123456789"); i > 0 && near[i-1] != '-' {
		near = near[:i] + "-" + near[i:]
	}
	if regionForm.MatchString(near) {
		return "", fault("this is no region; did you mean %q?", near)
	}
	return "", fault("want a region of AWS, such as us-east-1")
}

// zoneIn reports what is wrong with the name of a zone. A zone's name starts
// with its region's: us-east-1a, or us-west-2-lax-1a for a local zone.
func zoneIn(region, zone string) error {
	rest, inRegion := strings.CutPrefix(zone, region)
	switch {
	case region == "":
		return nil // reported already
	case zoneIDForm.MatchString(zone):
		return fault("this looks like a zone's id; write its name in this account, such as %sa", region)
	case zone == region:
		return fault("this is the region; write a zone of it, such as %sa", region)
	case !inRegion || !zoneRest.MatchString(rest):
		return fault("no zone of region %s is called so; they are %sa and so on", region, region)
	}
	return nil
}

var sizes = []string{"nano", "micro", "small", "medium", "large", "xlarge", "metal"}

// parseInstanceType checks the form only: what EC2 sells changes every month.
func parseInstanceType(s string) (string, error) {
	m := typeForm.FindStringSubmatch(s)
	if m == nil {
		return "", fault("want an instance type of EC2, such as p5.48xlarge")
	}
	multiple, size, metal := m[2], m[3], m[4]
	switch {
	case !slices.Contains(sizes, size):
		return "", fault("EC2 has no size %q;%s sizes: %s", size, didYouMean(size, sizes), strings.Join(sizes, ", "))
	case multiple != "" && size != "xlarge":
		return "", fault("only xlarge has a number before it, as in 48xlarge")
	case metal != "" && size != "metal":
		return "", fault("only metal has a size after it, as in metal-48xl")
	}
	return s, nil
}

// parseID reads an id of EC2: 8 hexadecimal digits in old accounts, else 17.
func parseID(prefix string) func(string) (string, error) {
	return func(s string) (string, error) {
		digits, ok := strings.CutPrefix(s, prefix+"-")
		if !ok || len(digits) != 8 && len(digits) != 17 || strings.Trim(digits, "0123456789abcdef") != "" {
			return "", fault("want an id of EC2, such as %s-0123456789abcdef0", prefix)
		}
		return s, nil
	}
}

// parseLaunchTemplate reads NAME or lt-ID, either with :VERSION.
func parseLaunchTemplate(s string) (string, error) {
	name, version, versioned := strings.Cut(s, ":")
	if !templateForm.MatchString(name) {
		return "", fault("want the name or id (lt-…) of a launch template, if need be with :VERSION")
	}
	if versioned && !versionForm.MatchString(version) {
		return "", fault("version %q: want a number, $Latest or $Default", shorten(version))
	}
	return s, nil
}

func parseProfile(s string) (string, error) {
	if accessKey.MatchString(s) {
		return "", hidden("this is an access key; credentials do not belong here, so write the name of a profile in the AWS configuration files")
	}
	for _, r := range s {
		if r < ' ' || r == 0x7f || strings.ContainsRune("[]", r) {
			return "", fault("want the name of a profile in the AWS configuration files")
		}
	}
	if strings.TrimSpace(s) != s || s == "" {
		return "", fault("want the name of a profile in the AWS configuration files, without blanks around it")
	}
	return s, nil
}

func parseEndpoint(s string) (string, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return "", fault("want a URL with its scheme, such as http://127.0.0.1:4747")
	case u.User != nil:
		return "", hidden("there must be no user or password in it; see profile and credentials_file")
	case u.RawQuery != "" || u.Fragment != "" || u.ForceQuery:
		return "", fault("want a URL without ? and #")
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
			return "", fault("port %s: want 1 to 65535", shorten(port))
		}
	}
	return s, nil
}

func loopback(endpoint string) bool {
	u, err := url.Parse(endpoint)
	if err != nil {
		return false
	}
	a, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && a.IsLoopback()
}

// oneOf reads one of the words.
func oneOf(words []string) func(string) (string, error) {
	return func(s string) (string, error) {
		if !slices.Contains(words, s) {
			return "", fault("unknown word;%s allowed: %s", didYouMean(s, words), strings.Join(words, ", "))
		}
		return s, nil
	}
}
