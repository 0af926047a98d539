package local

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/midair-hpc/midair/internal/cloud"
	"github.com/midair-hpc/midair/internal/config"
)

// The failures, with EC2's codes where it has one.

func outOfStock(o cloud.Offering) *cloud.Error {
	return &cloud.Error{Class: cloud.OutOfStock, Code: "InsufficientInstanceCapacity",
		Message: fmt.Sprintf("no %s capacity for %s in %s", o.Market, o.Type, o.Zone)}
}

func noAddress(network netip.Prefix) *cloud.Error {
	return &cloud.Error{Class: cloud.OutOfStock, Code: "InsufficientFreeAddressesInSubnet",
		Message: fmt.Sprintf("no free address in %s", network)}
}

func instanceQuota(limit int) *cloud.Error {
	return &cloud.Error{Class: cloud.Quota, Code: "InstanceLimitExceeded",
		Message: fmt.Sprintf("the account may have %d instances and has no more to give", limit)}
}

func cpuQuota(limit int, o cloud.Offering) *cloud.Error {
	return &cloud.Error{Class: cloud.Quota, Code: "VcpuLimitExceeded",
		Message: fmt.Sprintf("the account may have %d vCPUs, too few for more %s", limit, o.Type)}
}

// tooSmall compares what the pool promises to Slurm with the type; nil: it fits.
func tooSmall(t config.LocalType, r cloud.LaunchRequest) *cloud.Error {
	for _, c := range []struct {
		what      string
		has, want int
	}{{"CPUs", t.CPUs, r.CPUs}, {"MiB of memory", t.MemoryMiB, r.MemoryMiB}, {"GPUs", t.GPUs, r.GPUs}} {
		if c.has < c.want {
			return &cloud.Error{Class: cloud.SpecMismatch,
				Message: fmt.Sprintf("%s has %d %s, the pool promises %d", t.Name, c.has, c.what, c.want)}
		}
	}
	return nil
}

func notAsSpecified(o cloud.Offering) *cloud.Error {
	return &cloud.Error{Class: cloud.SpecMismatch, Message: fmt.Sprintf("%s in %s is smaller than the pool promises", o.Type, o.Zone)}
}

func notSold(o cloud.Offering, why string) *cloud.Error {
	return &cloud.Error{Class: cloud.Config, Code: "InvalidParameterValue",
		Message: fmt.Sprintf("%s is not for sale: %s", o.Key(), why)}
}

func badRequest(format string, args ...any) *cloud.Error {
	return &cloud.Error{Class: cloud.Config, Code: "InvalidParameterValue", Message: fmt.Sprintf(format, args...)}
}

func otherRequest(token string) *cloud.Error {
	return &cloud.Error{Class: cloud.Config, Code: "IdempotentParameterMismatch",
		Message: fmt.Sprintf("token %s was used before to ask for other nodes or offerings", token)}
}

func lostAnswer() *cloud.Error {
	return &cloud.Error{Class: cloud.Unknown, Message: "the connection was lost before the answer came", Ambiguous: true}
}

func interrupted(err error) *cloud.Error {
	return &cloud.Error{Class: cloud.Unknown, Message: "the create call was interrupted", Ambiguous: true, Err: err}
}

func internalError() *cloud.Error {
	return &cloud.Error{Class: cloud.Unknown, Code: "InternalError", Message: "an internal error has occurred"}
}

func notStarted(err error) *cloud.Error {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return &cloud.Error{Class: cloud.Unknown, Code: "Server.InternalError", Message: strings.TrimRight(line, "."), Err: err}
}
