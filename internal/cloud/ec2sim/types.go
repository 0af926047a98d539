package ec2sim

import (
	"slices"
	"time"
)

type instanceTypeXML struct {
	Name           string   `xml:"instanceType"`
	Current        bool     `xml:"currentGeneration"`
	UsageClasses   []string `xml:"supportedUsageClasses>item"`
	RootDevices    []string `xml:"supportedRootDeviceTypes>item"`
	Virtualization []string `xml:"supportedVirtualizationTypes>item"`
	BareMetal      bool     `xml:"bareMetal"`
	Hypervisor     string   `xml:"hypervisor"`
	Processor      struct {
		Architectures []string `xml:"supportedArchitectures>item"`
	} `xml:"processorInfo"`
	VCPU struct {
		Default int `xml:"defaultVCpus"`
		Cores   int `xml:"defaultCores"`
		Threads int `xml:"defaultThreadsPerCore"`
	} `xml:"vCpuInfo"`
	Memory struct {
		MiB int `xml:"sizeInMiB"`
	} `xml:"memoryInfo"`
	Storage   bool        `xml:"instanceStorageSupported"`
	Disks     *storageXML `xml:"instanceStorageInfo"`
	Network   networkXML  `xml:"networkInfo"`
	GPU       *gpuInfoXML `xml:"gpuInfo"`
	Placement struct {
		Strategies []string `xml:"supportedStrategies>item"`
	} `xml:"placementGroupInfo"`
	Hibernation  bool `xml:"hibernationSupported"`
	Burstable    bool `xml:"burstablePerformanceSupported"`
	Dedicated    bool `xml:"dedicatedHostsSupported"`
	AutoRecovery bool `xml:"autoRecoverySupported"`
}

type storageXML struct {
	GB   int    `xml:"totalSizeInGB"`
	NVMe string `xml:"nvmeSupport"`
}

type networkXML struct {
	Performance string      `xml:"networkPerformance"`
	Interfaces  int         `xml:"maximumNetworkInterfaces"`
	Cards       int         `xml:"maximumNetworkCards"`
	ENA         string      `xml:"enaSupport"`
	EFA         bool        `xml:"efaSupported"`
	EFAInfo     *efaInfoXML `xml:"efaInfo"`
}

type efaInfoXML struct {
	Max int `xml:"maximumEfaInterfaces"`
}

type gpuInfoXML struct {
	GPUs  []gpuXML `xml:"gpus>item"`
	Total int      `xml:"totalGpuMemoryInMiB"`
}

type gpuXML struct {
	Name         string `xml:"name"`
	Manufacturer string `xml:"manufacturer"`
	Count        int    `xml:"count"`
	MemoryMiB    int    `xml:"memoryInfo>sizeInMiB"`
}

type describeInstanceTypesReply struct {
	Types     []instanceTypeXML `xml:"instanceTypeSet>item"`
	NextToken string            `xml:"nextToken,omitempty"`
}

func (s *Sim) describeInstanceTypes(c *call) op {
	names := c.strs("InstanceType")
	f := readFilters(c.form, "instance-type", "current-generation", "bare-metal", "processor-info.supported-architecture", "supported-usage-class", "hibernation-supported")
	page := readPage(c.form, 5, 100)
	c.ignore("IncludeUnsupportedInRegion")
	if len(names) > 100 {
		c.bad(fail("InvalidParameterValue", "The request names more than 100 instance types"))
	}
	if len(names) > 0 && page.max > 0 {
		c.bad(fail("InvalidParameterCombination", "The parameter InstanceTypes cannot be used with the parameter MaxResults"))
	}
	return func(time.Time) (any, *Error) {
		var unknown []string
		for _, n := range names {
			if s.types[n] == nil {
				unknown = append(unknown, n)
			}
		}
		if len(unknown) > 0 {
			return nil, fail("InvalidInstanceType", "The following supplied instance types do not exist: %v", unknown)
		}
		var all []instanceTypeXML
		for i := range s.cat.Types {
			t := &s.cat.Types[i]
			if among(names, t.Name) && matchType(f, t) {
				all = append(all, typeXML(t))
			}
		}
		if page.max == 0 {
			page.max = 100
		}
		items, next, e := cut(page, all)
		return &describeInstanceTypesReply{items, next}, e
	}
}

func matchType(f filters, t *Type) bool {
	yes := map[bool]string{true: "true", false: "false"}
	return f.match("instance-type", t.Name) && f.match("current-generation", "true") && f.match("bare-metal", "false") &&
		f.match("processor-info.supported-architecture", t.arch()) && f.match("hibernation-supported", yes[t.Hibernate]) &&
		slices.ContainsFunc(usageClasses(t), func(u string) bool { return f.match("supported-usage-class", u) })
}

func usageClasses(t *Type) []string {
	if t.Spot == 0 {
		return []string{"on-demand"}
	}
	return []string{"on-demand", "spot"}
}

func typeXML(t *Type) instanceTypeXML {
	x := instanceTypeXML{
		Name: t.Name, Current: true, UsageClasses: usageClasses(t), RootDevices: []string{"ebs"}, Virtualization: []string{"hvm"}, Hypervisor: "nitro",
		Storage: t.NVMeGB > 0, Hibernation: t.Hibernate, Burstable: letters(t.Name) == "t", AutoRecovery: t.GPU == nil,
		Network: networkXML{Performance: t.Network, Interfaces: max(4, t.Cards*2), Cards: max(1, t.Cards), ENA: "required", EFA: t.EFA > 0},
	}
	x.Processor.Architectures = []string{t.arch()}
	x.VCPU.Default, x.VCPU.Cores, x.VCPU.Threads = t.VCPUs, t.cores(), max(1, t.VCPUs/t.cores())
	x.Memory.MiB = t.MemoryMiB
	x.Placement.Strategies = []string{"cluster", "partition", "spread"}
	if letters(t.Name) == "t" {
		x.Placement.Strategies = []string{"partition", "spread"}
	}
	if t.NVMeGB > 0 {
		x.Disks = &storageXML{t.NVMeGB, "required"}
	}
	if t.EFA > 0 {
		x.Network.EFAInfo = &efaInfoXML{t.EFA}
	}
	if g := t.GPU; g != nil {
		x.GPU = &gpuInfoXML{GPUs: []gpuXML{{g.Name, g.Manufacturer, g.Count, g.MemoryMiB}}, Total: g.Count * g.MemoryMiB}
	}
	return x
}
