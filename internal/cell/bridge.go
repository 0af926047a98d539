package cell

import (
	"errors"
	"fmt"
	"net/netip"
	"syscall"

	"github.com/vishvananda/netlink"
)

// EnsureBridge makes the bridge in the current network namespace with the
// gateway's address, and brings it up. It changes nothing if it is there.
func EnsureBridge(name string, gw netip.Prefix) error {
	br := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: name}}
	if err := netlink.LinkAdd(br); err != nil && !errors.Is(err, syscall.EEXIST) {
		return fmt.Errorf("make bridge %s: %w", name, err)
	}
	link, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("find bridge %s: %w", name, err)
	}
	addr, err := netlink.ParseAddr(gw.String())
	if err != nil {
		return fmt.Errorf("set address %s on bridge %s: %w", gw, name, err)
	}
	if err := netlink.AddrAdd(link, addr); err != nil && !errors.Is(err, syscall.EEXIST) {
		return fmt.Errorf("set address %s on bridge %s: %w", gw, name, err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("bring up bridge %s: %w", name, err)
	}
	return nil
}

// RemoveBridge takes the bridge away; it is no error if it is not there.
func RemoveBridge(name string) error {
	link, err := netlink.LinkByName(name)
	var absent netlink.LinkNotFoundError
	if errors.As(err, &absent) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("find bridge %s: %w", name, err)
	}
	if err := netlink.LinkDel(link); err != nil {
		return fmt.Errorf("remove bridge %s: %w", name, err)
	}
	return nil
}
