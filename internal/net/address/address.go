package address

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// Loopback reports whether a host leads to this machine for every resolver:
// localhost, a name below it (RFC 6761), or a loopback address. The host has no
// port; brackets around an IPv6 address are allowed.
func Loopback(host string) bool {
	name := strings.ToLower(strings.TrimSuffix(host, "."))
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return true
	}
	ip, ok := ParseIP(host)
	return ok && ip.IsLoopback()
}

// LoopbackAddr reports whether a listener or an end of a connection is at a
// loopback address.
func LoopbackAddr(a net.Addr) bool {
	if a == nil {
		return false
	}
	if tcp, ok := a.(*net.TCPAddr); ok {
		return tcp.IP.IsLoopback() // without a text: requests are asked for theirs
	}
	host, _, err := net.SplitHostPort(a.String())
	if err != nil {
		return false
	}
	ip, ok := ParseIP(host)
	return ok && ip.IsLoopback()
}

// ParseIP reads an IP address as it stands in a URL or a Host header: with or
// without brackets. An IPv4 address that is mapped into IPv6 is returned as IPv4,
// so that both forms compare equal.
func ParseIP(host string) (netip.Addr, bool) {
	if inner, ok := strings.CutPrefix(host, "["); ok {
		if host, ok = strings.CutSuffix(inner, "]"); !ok {
			return netip.Addr{}, false
		}
	}
	ip, err := netip.ParseAddr(host)
	return ip.Unmap(), err == nil
}

// forwarded are the headers by which a proxy says that it speaks for another
// peer.
var forwarded = []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip", "Via"}

// Source returns the address that an HTTP request came from. It is not known, and ok false, where a
// proxy has sent the request on for another peer: the address of the connection is the proxy's
// then, and the proxy's headers are only as true as the proxy.
func Source(h http.Header, remoteAddr string) (ip netip.Addr, ok bool) {
	for _, name := range forwarded {
		if len(h[name]) > 0 {
			return netip.Addr{}, false
		}
	}
	host, _, err := net.SplitHostPort(remoteAddr)
	if err != nil {
		return netip.Addr{}, false
	}
	return ParseIP(host)
}

// Private reports whether an address cannot be reached from the open internet.
// An address that carries an IPv4 address inside is as private as that one.
func Private(ip netip.Addr) bool {
	ip = unwrap(ip)
	if !ip.IsGlobalUnicast() || ip.IsPrivate() {
		return true
	}
	for _, p := range reserved {
		if p.Contains(ip) {
			return true
		}
	}
	return false
}

// unwrap returns the IPv4 address that an IPv6 address carries inside (mapped,
// NAT64, 6to4), and any other address without its zone.
func unwrap(ip netip.Addr) netip.Addr {
	ip = ip.Unmap().WithZone("")
	if !ip.Is6() {
		return ip
	}
	b := ip.As16()
	switch {
	case nat64.Contains(ip):
		return netip.AddrFrom4([4]byte(b[12:]))
	case sixToFour.Contains(ip):
		return netip.AddrFrom4([4]byte(b[2:6]))
	}
	return ip
}

var (
	nat64     = netip.MustParsePrefix("64:ff9b::/96")
	sixToFour = netip.MustParsePrefix("2002::/16")
	// reserved are networks that netip does not know as private.
	reserved = prefixes("0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
		"240.0.0.0/4", "::/96", "64:ff9b:1::/48", "100::/64", "2001::/32", "2001:db8::/32", "fec0::/10")
	// metadata are where clouds tell their machines' keys, other than at
	// link-local addresses.
	metadata = prefixes("fd00:ec2::/32", "fd20:ce::254/128", "100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32")
)

func prefixes(texts ...string) []netip.Prefix {
	list := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		list[i] = netip.MustParsePrefix(text)
	}
	return list
}

// forbidden returns the kind of an address that no peer may ever name, "" for any other.
func forbidden(ip netip.Addr) string {
	inner := unwrap(ip)
	switch {
	case ip.Zone() != "":
		return "one that is bound to a network interface"
	case !inner.IsValid() || inner.IsUnspecified():
		return "no address of a server"
	case inner.IsMulticast() || inner == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return "the address of a group"
	case inner.IsLinkLocalUnicast():
		return "a link-local one, where clouds keep the keys of their machines"
	case inner.IsLoopback() && !ip.Unmap().IsLoopback():
		return "this machine in another form"
	}
	for _, p := range metadata {
		if p.Contains(inner) {
			return "where a cloud keeps the keys of its machines"
		}
	}
	return ""
}
