package ec2sim

import (
	"bytes"
	_ "embed"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/midair-hpc/midair/internal/cloud"
)

// Catalogue is what the cloud sells: a YAML file of this shape, or the built-in
// one.
type Catalogue struct {
	Region  string   `yaml:"region"`
	Account string   `yaml:"account"` // 12 digits
	Regions []string `yaml:"regions"` // what DescribeRegions gives beside Region
	// Zones in order: the first has the zone id ending in az1.
	Zones           []string         `yaml:"zones"`
	VPC             VPC              `yaml:"vpc"`
	Subnets         []Subnet         `yaml:"subnets"`
	LaunchTemplates []LaunchTemplate `yaml:"launch_templates"`
	Types           []Type           `yaml:"types"`
	// Capacity is how many instances may run at a time, by "type/zone/market",
	// "type/zone" or "type"; the most exact entry counts. Default is for all
	// others.
	Capacity        map[string]int `yaml:"capacity"`
	DefaultCapacity int            `yaml:"default_capacity"`
	// Quotas in vCPUs by quota code. One that is not there is DefaultQuota.
	Quotas       map[string]int `yaml:"quotas"`
	DefaultQuota int            `yaml:"default_quota"`
	Reservations []Reservation  `yaml:"reservations"`
	// SpotSwing is how far spot prices move around their mean: 0.1 is ±10 %. A
	// new price comes every SpotStep.
	SpotSwing float64       `yaml:"spot_swing"`
	SpotStep  time.Duration `yaml:"spot_step"`
}

// VPC is the network that the subnets are part of.
type VPC struct {
	ID   string       `yaml:"id"`
	CIDR netip.Prefix `yaml:"cidr"`
}

// Subnet is where instances get their addresses.
type Subnet struct {
	ID   string       `yaml:"id"`
	Zone string       `yaml:"zone"`
	CIDR netip.Prefix `yaml:"cidr"`
}

// LaunchTemplate is a named list of versions, numbered from 1.
type LaunchTemplate struct {
	ID       string            `yaml:"id"`
	Name     string            `yaml:"name"`
	Default  int               `yaml:"default"` // the version; 0: 1
	Versions []TemplateVersion `yaml:"versions"`
}

// TemplateVersion is what a launch template says of an instance.
type TemplateVersion struct {
	Image          string `yaml:"image"`
	Type           string `yaml:"type"`
	Subnet         string `yaml:"subnet"`
	PlacementGroup string `yaml:"placement_group"`
	Profile        string `yaml:"instance_profile"` // name
	Hibernation    bool   `yaml:"hibernation"`
	// Shutdown is what an instance does that ends by itself: stop, as EC2 has it
	// if nothing is said, or terminate. Spot instances always terminate.
	Shutdown       string            `yaml:"shutdown"`
	EFA            bool              `yaml:"efa"`
	Spot           bool              `yaml:"spot"`
	MetadataTags   bool              `yaml:"metadata_tags"`
	SecurityGroups []string          `yaml:"security_groups"`
	UserData       string            `yaml:"user_data"`
	Tags           map[string]string `yaml:"tags"` // of instances
}

// Type is an instance type. Figures are those of DescribeInstanceTypes.
type Type struct {
	Name      string   `yaml:"name"`
	VCPUs     int      `yaml:"vcpus"`
	Cores     int      `yaml:"cores"` // 0: half of the vCPUs
	MemoryMiB int      `yaml:"memory_mib"`
	GPU       *GPU     `yaml:"gpu"`
	Network   string   `yaml:"network"` // such as "3200 Gigabit"
	EFA       int      `yaml:"efa"`     // EFA interfaces, 0: none
	Cards     int      `yaml:"cards"`   // network cards; 0: 1
	NVMeGB    int      `yaml:"nvme_gb"`
	Arch      string   `yaml:"arch"`      // empty: x86_64
	Hibernate bool     `yaml:"hibernate"` // may be hibernated
	Zones     []string `yaml:"zones"`     // empty: all
	OnDemand  float64  `yaml:"on_demand"` // USD per hour
	Spot      float64  `yaml:"spot"`      // mean, USD per hour; 0: not sold as spot
}

// GPU is what gpuInfo says.
type GPU struct {
	Name         string `yaml:"name"`
	Manufacturer string `yaml:"manufacturer"`
	Count        int    `yaml:"count"`
	MemoryMiB    int    `yaml:"memory_mib"` // of one
}

// Reservation is an On-Demand Capacity Reservation or a capacity block.
type Reservation struct {
	ID    string    `yaml:"id" json:"id"`
	Type  string    `yaml:"type" json:"type"`
	Zone  string    `yaml:"zone" json:"zone"`
	Count int       `yaml:"count" json:"count"`
	Block bool      `yaml:"block" json:"block"`
	Start time.Time `yaml:"start" json:"start,omitzero"`
	End   time.Time `yaml:"end" json:"end,omitzero"`
	// EndIn says End as a time from now, for examples that never grow old.
	EndIn time.Duration `yaml:"end_in" json:"-"`
}

//go:embed catalogue.yaml
var builtin []byte

// DefaultCatalogue is the built-in catalogue: us-east-1 with three zones, GPU
// and CPU types as AWS sells them, capacity and quotas for a few thousand
// instances. Prices are AWS's list prices of 2025, spot prices invented.
func DefaultCatalogue() *Catalogue {
	c, err := ParseCatalogue("the built-in catalogue", builtin)
	if err != nil {
		panic(err) // a test reads it
	}
	return c
}

// DefaultCatalogueText is the built-in catalogue as it is written.
func DefaultCatalogueText() string { return string(builtin) }

// LoadCatalogue reads a catalogue file.
func LoadCatalogue(path string) (*Catalogue, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read catalogue: %w", err)
	}
	return ParseCatalogue(path, b)
}

// ParseCatalogue reads the text of a catalogue; name is for messages.
func ParseCatalogue(name string, text []byte) (*Catalogue, error) {
	var c Catalogue
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&c); err != nil {
		return nil, fmt.Errorf("read catalogue %s: %w", name, err)
	}
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("read catalogue %s: %w", name, err)
	}
	return &c, nil
}

func (c *Catalogue) check() error {
	switch {
	case c.Region == "":
		return fmt.Errorf("no region; such as us-east-1")
	case len(c.Zones) == 0:
		return fmt.Errorf("no zones; such as [us-east-1a, us-east-1b]")
	case len(c.Types) == 0:
		return fmt.Errorf("no types")
	case len(c.Subnets) == 0:
		return fmt.Errorf("no subnets")
	case !c.VPC.CIDR.IsValid() || !c.VPC.CIDR.Addr().Is4():
		return fmt.Errorf("vpc.cidr %s is no IPv4 prefix; such as 10.213.0.0/16", c.VPC.CIDR)
	}
	if c.Account == "" {
		c.Account = "000000000000"
	}
	if c.SpotStep <= 0 {
		c.SpotStep = 6 * time.Hour
	}
	types := map[string]bool{}
	for _, t := range c.Types {
		if types[t.Name] {
			return fmt.Errorf("type %s is there twice", t.Name)
		}
		if family(t.Name) == "" || t.VCPUs <= 0 || t.MemoryMiB <= 0 || t.OnDemand <= 0 {
			return fmt.Errorf("type %q: want a name such as g5.xlarge, and vcpus, memory_mib and on_demand above 0", t.Name)
		}
		for _, z := range t.Zones {
			if !slices.Contains(c.Zones, z) {
				return fmt.Errorf("type %s: zone %s is not among zones", t.Name, z)
			}
		}
		types[t.Name] = true
	}
	subnets := map[string]bool{}
	for _, s := range c.Subnets {
		switch {
		case !strings.HasPrefix(s.ID, "subnet-") || subnets[s.ID]:
			return fmt.Errorf("subnet %q: want an id of its own that starts with subnet-", s.ID)
		case !slices.Contains(c.Zones, s.Zone):
			return fmt.Errorf("subnet %s: zone %q is not among zones", s.ID, s.Zone)
		case !s.CIDR.IsValid() || s.CIDR.Bits() > 28 || !c.VPC.CIDR.Contains(s.CIDR.Addr()) || s.CIDR.Bits() < c.VPC.CIDR.Bits():
			return fmt.Errorf("subnet %s: cidr %s is no part of %s of at most 28 bits", s.ID, s.CIDR, c.VPC.CIDR)
		}
		subnets[s.ID] = true
	}
	for _, t := range c.LaunchTemplates {
		if !strings.HasPrefix(t.ID, "lt-") || len(t.Versions) == 0 || t.Default > len(t.Versions) {
			return fmt.Errorf("launch template %q: want an id that starts with lt-, one version at least, and a default among them", t.ID)
		}
		for _, v := range t.Versions {
			if v.Shutdown != "" && v.Shutdown != "stop" && v.Shutdown != "terminate" {
				return fmt.Errorf("launch template %s: shutdown %q is neither stop nor terminate", t.ID, v.Shutdown)
			}
			if v.Subnet != "" && !subnets[v.Subnet] {
				return fmt.Errorf("launch template %s: there is no subnet %s", t.ID, v.Subnet)
			}
		}
	}
	for _, r := range c.Reservations {
		if !strings.HasPrefix(r.ID, "cr-") || !types[r.Type] || !slices.Contains(c.Zones, r.Zone) || r.Count <= 0 {
			return fmt.Errorf("reservation %q: want an id that starts with cr-, a known type and zone, and a count above 0", r.ID)
		}
	}
	for key := range c.Capacity {
		if err := c.checkPool(key, types); err != nil {
			return err
		}
	}
	for code := range c.Quotas {
		if _, ok := quotaNamed(code); !ok {
			return fmt.Errorf("quotas: %s is no vCPU quota of EC2 that is known here", code)
		}
	}
	return nil
}

// checkPool checks a key of capacity: type, type/zone or type/zone/market.
func (c *Catalogue) checkPool(key string, types map[string]bool) error {
	p := strings.Split(key, "/")
	ok := len(p) <= 3 && types[p[0]] && (len(p) < 2 || slices.Contains(c.Zones, p[1])) &&
		(len(p) < 3 || p[2] == string(cloud.OnDemand) || p[2] == string(cloud.Spot))
	if !ok {
		return fmt.Errorf("capacity %q: want type, type/zone or type/zone/market of known types and zones; markets are on-demand and spot", key)
	}
	return nil
}

// soldIn reports whether a type is sold in a zone.
func (t *Type) soldIn(zone string) bool { return len(t.Zones) == 0 || slices.Contains(t.Zones, zone) }

func (t *Type) cores() int {
	if t.Cores > 0 {
		return t.Cores
	}
	return max(1, t.VCPUs/2)
}

func (t *Type) arch() string {
	if t.Arch != "" {
		return t.Arch
	}
	return "x86_64"
}
