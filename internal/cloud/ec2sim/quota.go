package ec2sim

import "strings"

// Quota is a vCPU quota: of a family of types, on-demand or spot.
type Quota struct {
	Code   string
	Name   string
	Family string // see family
	Spot   bool
}

// quotas are EC2's vCPU quotas, as Service Quotas lists them for "ec2".
var quotas = []Quota{
	{"L-1216C47A", "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances", "standard", false},
	{"L-34B43A08", "All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests", "standard", true},
	{"L-DB2E81BA", "Running On-Demand G and VT instances", "g", false},
	{"L-3819A6DF", "All G and VT Spot Instance Requests", "g", true},
	{"L-417A185B", "Running On-Demand P instances", "p", false},
	{"L-7212CCBC", "All P4, P3 and P2 Spot Instance Requests", "p", true},
	{"L-C4BD4855", "All P5 Spot Instance Requests", "p5", true},
	{"L-74FC7D96", "Running On-Demand F instances", "f", false},
	{"L-88CF9481", "All F Spot Instance Requests", "f", true},
	{"L-1945791B", "Running On-Demand Inf instances", "inf", false},
	{"L-B5D1601B", "All Inf Spot Instance Requests", "inf", true},
	{"L-2C3B7624", "Running On-Demand Trn instances", "trn", false},
	{"L-6B0D517C", "All Trn Spot Instance Requests", "trn", true},
	{"L-6E869C2A", "Running On-Demand DL instances", "dl", false},
	{"L-85EED4F7", "All DL Spot Instance Requests", "dl", true},
	{"L-7295265B", "Running On-Demand X instances", "x", false},
	{"L-E3A00192", "All X Spot Instance Requests", "x", true},
	{"L-F7808C92", "Running On-Demand HPC instances", "hpc", false},
}

func quotaNamed(code string) (Quota, bool) {
	for _, q := range quotas {
		if q.Code == code {
			return q, true
		}
	}
	return Quota{}, false
}

// letters gives the leading letters of a type's name: p of p4d.24xlarge.
func letters(typ string) string {
	return typ[:max(0, strings.IndexFunc(typ, func(r rune) bool { return r < 'a' || r > 'z' }))]
}

// family is the bucket that EC2 counts a type in; empty for a name that is none
// of a type.
func family(typ string) string {
	if !strings.Contains(typ, ".") {
		return ""
	}
	switch f := letters(typ); f {
	case "g", "gr", "vt":
		return "g"
	case "p", "f", "inf", "trn", "dl", "x", "hpc":
		return f
	case "a", "c", "d", "h", "i", "im", "is", "m", "r", "t", "z":
		return "standard"
	}
	return ""
}

// quotaOf is the quota that instances of a type count against. P5 and newer
// have a spot quota of their own, but share the on-demand one.
func quotaOf(typ string, spot bool) Quota {
	f := family(typ)
	if spot && f == "p" && !strings.HasPrefix(typ, "p2.") && !strings.HasPrefix(typ, "p3") && !strings.HasPrefix(typ, "p4") {
		f = "p5"
	}
	for _, q := range quotas {
		if q.Family == f && q.Spot == spot {
			return q
		}
	}
	return Quota{}
}
