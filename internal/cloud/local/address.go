package local

import (
	"fmt"
	"net/netip"

	"github.com/midair-hpc/midair/internal/cloud/cells"
)

// parseNetwork reads the instances' network. Its first address is the bridge's
// and every instance's gateway.
func parseNetwork(s string) (netip.Prefix, error) {
	n, err := netip.ParsePrefix(s)
	if err != nil {
		return n, fmt.Errorf("open local cloud: network %q is no prefix; set network in midair.yaml, such as 10.213.0.0/22", s)
	}
	if !n.Addr().Is4() || n.Bits() < 8 || n.Bits() > 29 {
		return n, fmt.Errorf("open local cloud: network %s must be an IPv4 prefix of 8 to 29 bits, such as 10.213.0.0/22", s)
	}
	return n.Masked(), nil
}

// capacity is how many instances the network has addresses for: all but the
// network's own, the gateway and the broadcast address.
func capacity(n netip.Prefix) int { return 1<<(32-n.Bits()) - 3 }

// freeAddresses gives up to want addresses that no existing instance has. It
// goes on after the one that was given last, because the kernel takes a moment
// to clear away the network of an instance that has just ended.
func (v *view) freeAddresses(network netip.Prefix, want int) []netip.Addr {
	taken := map[netip.Addr]bool{}
	last := cells.Gateway(network)
	for _, r := range v.sorted() {
		if !r.Gone {
			taken[r.Addr] = true
		}
		if network.Contains(r.Addr) {
			last = r.Addr
		}
	}
	var free []netip.Addr
	a := last
	for range capacity(network) {
		if a = a.Next(); !network.Contains(a.Next()) {
			a = cells.Gateway(network).Next()
		}
		if len(free) == want {
			break
		}
		if !taken[a] {
			free = append(free, a)
		}
	}
	return free
}
