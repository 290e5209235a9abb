package address

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// ErrRefused is the cause of every error that says: this address may not be
// connected to.
var ErrRefused = errors.New("the address is refused")

func refused(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrRefused, fmt.Sprintf(format, args...))
}

// A List holds the servers that an operator allows peers to name, as "host" for
// every port of it or as "host:port". It is not changed once made and may be used
// concurrently. The zero List is empty.
type List struct{ entries map[string]bool }

// NewList returns a List, or an error that names the entry that is neither a host
// nor host:port.
func NewList(entries []string) (List, error) {
	l := List{entries: make(map[string]bool, len(entries))}
	for _, entry := range entries {
		name, ok := listed(entry)
		if !ok {
			return List{}, fmt.Errorf("%.100q is neither a host such as agents.example.com or 10.0.0.7 nor host:port", entry)
		}
		l.entries[name] = true
	}
	return l, nil
}

// listed is an entry as a List keeps it.
func listed(entry string) (string, bool) {
	if name, ok := hostPort(entry); ok {
		return name, true
	}
	if ip, ok := ParseIP(entry); ok {
		return ip.String(), ip.Zone() == ""
	}
	if entry == "" || strings.ContainsAny(entry, "/:@?#[]%* \t\r\n") {
		return "", false
	}
	return strings.ToLower(entry), true
}

// hostPort is an entry host:port as a List keeps it, false for any other text.
func hostPort(entry string) (string, bool) {
	host, port, err := net.SplitHostPort(entry)
	n, perr := strconv.ParseUint(port, 10, 16)
	if err != nil || perr != nil || host == "" || n == 0 || strings.ContainsAny(host, "/@?# \t\r\n") {
		return "", false
	}
	return HostPort(host, port), true
}

// HostPort writes a server as lists have it: addresses in their usual form, names
// in lower case.
func HostPort(host, port string) string {
	if ip, err := netip.ParseAddr(host); err == nil {
		host = ip.String()
	}
	return net.JoinHostPort(strings.ToLower(host), port)
}

// Server is the server of an http or https URL as host:port, also where the URL
// leaves the port out.
func Server(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return HostPort(u.Hostname(), port)
}

// Has reports whether the list has a host, or a port of it.
func (l List) Has(host, port string) bool {
	if l.entries[HostPort(host, port)] {
		return true
	}
	if ip, ok := ParseIP(host); ok {
		host = ip.String()
	}
	return l.entries[strings.ToLower(host)]
}

// Names returns the entries, sorted.
func (l List) Names() []string {
	names := make([]string, 0, len(l.entries))
	for name := range l.entries {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// A Rule says which servers one peer may name. Whatever a Rule allows, link-local
// addresses, metadata services, groups and unspecified addresses are never
// connected to. The zero Rule allows nothing.
type Rule struct {
	// From is the address that the peer came from. The peer may name that
	// address, and a peer of this machine any loopback address. The zero Addr
	// stands for a peer whose address is not known.
	From netip.Addr
	// Allow lists further servers that the peer may name.
	Allow List
	// Private lists the networks, of those that are not public, into which a
	// listed name may resolve. A listed address needs no entry. A listed name
	// never leads to loopback, unless the name is localhost or the peer is of this
	// machine.
	Private []netip.Prefix
}

// AnyPrivate are all networks, for a Rule whose list names servers of the
// operator's own network.
func AnyPrivate() []netip.Prefix { return prefixes("0.0.0.0/0", "::/0") }

// local reports whether the peer is of this machine.
func (r Rule) local() bool { return r.From.IsValid() && r.From.Unmap().IsLoopback() }

// own reports whether an address is the peer's own.
func (r Rule) own(ip netip.Addr) bool {
	ip = ip.Unmap()
	return r.From.IsValid() && (ip == r.From.Unmap() || r.local() && ip.IsLoopback())
}

// A Dialer connects to the servers that a Rule allows. Its DialContext fits an
// http.Transport, whose Proxy must be nil: a proxy would resolve the name again.
// It is safe for concurrent use if its functions are.
type Dialer struct {
	Rule Rule
	// Lookup resolves names; nil is the system's resolver.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	// Dial connects to an address that was checked; nil is a net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Resolve returns the addresses that a host of the peer's may be connected to. It
// asks the resolver once, and not at all for an address. The error wraps
// ErrRefused where the Rule forbids the host, and says why.
func (d *Dialer) Resolve(ctx context.Context, host, port string) ([]netip.Addr, error) {
	allowed := d.Rule.Allow.Has(host, port)
	if ip, ok := ParseIP(host); ok {
		if class := forbidden(ip); class != "" {
			return nil, refused("%.60s is %s", host, class)
		}
		if !allowed && !d.Rule.own(ip) {
			return nil, d.foreign(host)
		}
		return []netip.Addr{ip}, nil
	}
	if !allowed && !d.Rule.From.IsValid() {
		return nil, d.foreign(host)
	}
	found, err := d.lookup(ctx, host)
	if err != nil {
		return nil, fmt.Errorf("%.100s has no address: %w", host, err)
	}
	if allowed {
		return found, d.checkListed(host, found)
	}
	own := slices.DeleteFunc(found, func(ip netip.Addr) bool { return !d.Rule.own(ip) || forbidden(ip) != "" })
	if len(own) == 0 {
		return nil, d.foreign(host)
	}
	return own, nil
}

// foreign is the error for a host that is neither listed nor the peer's own.
func (d *Dialer) foreign(host string) error {
	if !d.Rule.From.IsValid() {
		return refused("%.100s is not one of the allowed servers", host)
	}
	return refused("%.100s is neither %s, the address that it was named from, nor one of the allowed servers", host, d.Rule.From.Unmap())
}

// checkListed checks the addresses of a listed name. One address that is not fit spoils all: the
// name's owner, or its DNS server, wants weir elsewhere.
func (d *Dialer) checkListed(host string, found []netip.Addr) error {
	for _, ip := range found {
		if class := forbidden(ip); class != "" {
			return refused("%.100s resolves to %s, which is not a public address but %s", host, ip, class)
		}
		if ip.IsLoopback() {
			if Loopback(host) || d.Rule.local() {
				continue
			}
			return refused("%.100s resolves to %s, which is not a public address but this machine", host, ip)
		}
		if Private(ip) && !slices.ContainsFunc(d.Rule.Private, func(p netip.Prefix) bool { return p.Contains(ip) }) {
			return refused("%.100s resolves to %s, which is not a public address; allow the address itself, or its network", host, ip)
		}
	}
	return nil
}

func (d *Dialer) lookup(ctx context.Context, host string) ([]netip.Addr, error) {
	lookup := d.Lookup
	if lookup == nil {
		lookup = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	found, err := lookup(ctx, host)
	if err == nil && len(found) == 0 {
		err = errors.New("the resolver knows none")
	}
	out := make([]netip.Addr, len(found))
	for i, ip := range found {
		out[i] = ip.Unmap()
	}
	return out, err
}

// DialContext connects to a server that the Rule allows: the name is resolved
// once, and one of the addresses that were checked is connected to.
func (d *Dialer) DialContext(ctx context.Context, network, server string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(server)
	if err != nil {
		return nil, refused("%.100q is no host:port", server)
	}
	addresses, err := d.Resolve(ctx, host, port)
	if err != nil {
		return nil, err
	}
	return d.DialAny(ctx, network, addresses, port)
}

// DialAny connects to the first of the addresses, which Resolve has returned, that
// takes the connection.
func (d *Dialer) DialAny(ctx context.Context, network string, addresses []netip.Addr, port string) (net.Conn, error) {
	dial := d.Dial
	if dial == nil {
		dial = (&net.Dialer{}).DialContext
	}
	var errs []error
	for _, ip := range addresses {
		conn, err := dial(ctx, network, net.JoinHostPort(ip.String(), port))
		if err == nil {
			return conn, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}
