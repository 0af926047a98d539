package ec2sim

import "net/netip"

// subnet gives out addresses, each again only after all others. EC2 keeps the
// first four and the last for itself.
type subnet struct {
	Subnet
	first, last netip.Addr
	next        netip.Addr
	used        map[netip.Addr]bool
	size        int
}

func newSubnet(s Subnet) *subnet {
	cidr := s.CIDR.Masked()
	first := cidr.Addr()
	for range 4 {
		first = first.Next()
	}
	b := cidr.Addr().As4()
	n := uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
	n += 1<<(32-cidr.Bits()) - 2
	last := netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
	return &subnet{Subnet: s, first: first, last: last, next: first, used: map[netip.Addr]bool{}, size: 1<<(32-cidr.Bits()) - 5}
}

func (s *subnet) free() int { return s.size - len(s.used) }

// take gives a free address. The caller has asked free.
func (s *subnet) take() netip.Addr {
	for {
		a := s.next
		if s.next = a.Next(); s.last.Less(s.next) {
			s.next = s.first
		}
		if !s.used[a] {
			s.used[a] = true
			return a
		}
	}
}

func (s *subnet) give(a netip.Addr) { delete(s.used, a) }
