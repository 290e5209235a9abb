package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"github.com/weir-mcp/weir/internal/net/address"
)

// handshakeTime bounds a TLS handshake, and the wait for the headers of a response.
const handshakeTime = 10 * time.Second

// errRefused is the cause of the error for a URL that weir does not ask.
var errRefused = errors.New("weir does not send requests there")

// Refused reports whether a request has failed because weir does not ask its URL: for the text of the
// URL, or for an address that the name of its host leads to.
func Refused(err error) bool { return errors.Is(err, errRefused) || errors.Is(err, address.ErrRefused) }

// Network connects to hosts. The zero Network is the system's.
type Network struct {
	// Lookup resolves names; nil is the system's resolver.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	// Dial connects to an address that was checked; nil is a net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	TLS  *tls.Config // nil: the system's certificates
}

// Zone is where requests may go whose URLs one party names. It is not changed once made, and may be
// used concurrently.
type Zone struct {
	net      Network
	free     map[string]bool // host:port of URLs of the configuration
	private  bool            // the party is in a private network
	loopback bool            // the party is on this machine
}

// Zone returns where requests may go whose URLs a party names, which is at the URL party: to the public
// internet, to the hosts of configured URLs and of the party, and to private or loopback addresses if
// the party's URL itself has one. The addresses of a name do not count: its owner could answer with an
// address of this network.
func (n Network) Zone(party string, configured ...string) *Zone {
	z := &Zone{net: n, free: map[string]bool{}}
	for _, text := range append(configured, party) {
		if u, err := url.Parse(text); err == nil && u.Host != "" {
			z.free[address.Server(u)] = true
		}
	}
	u, err := url.Parse(party)
	if err != nil {
		return z
	}
	ip, literal := address.ParseIP(u.Hostname())
	z.loopback = address.Loopback(u.Hostname()) || literal && ip.Unmap().IsLoopback()
	z.private = z.loopback || literal && address.Private(ip)
	return z
}

// Free reports whether the host of a URL is one that the configuration names.
func (z *Zone) Free(u *url.URL) bool { return z.free[address.Server(u)] }

// Check returns why a request must not go to a URL. secret says that the request has secrets, or that
// a person is sent there.
func (z *Zone) Check(u *url.URL, secret bool) error {
	fail := func(why string) error {
		return fmt.Errorf("%w: %.300s %s", errRefused, u.Redacted(), why)
	}
	host := u.Hostname()
	here := address.Loopback(host)
	switch {
	case host == "" || u.User != nil || u.Scheme != "https" && u.Scheme != "http":
		return fail("is not an https URL")
	case u.Scheme == "http" && !(here && z.loopback) && (secret || !z.Free(u)):
		return fail("is not an https URL, which everything outside of this machine has to be")
	}
	return z.checkHost(host, address.Server(u))
}

// checkHost refuses hosts that are not public before they are resolved.
func (z *Zone) checkHost(host, server string) error {
	if z.free[server] {
		return nil
	}
	if ip, ok := address.ParseIP(host); ok && address.Private(ip) && !z.loopback && (!z.private || ip.IsLoopback()) {
		return fmt.Errorf("%w: %s is not a public address", errRefused, ip)
	}
	if address.Loopback(host) && !z.loopback {
		return fmt.Errorf("%w: %.100s is this machine", errRefused, host)
	}
	return nil
}

// dial connects to one of the addresses of a host, after all of them were checked.
func (z *Zone) dial(ctx context.Context, network, server string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(server)
	if err != nil {
		return nil, err
	}
	name := address.HostPort(host, port)
	if err := z.checkHost(host, name); err != nil {
		return nil, err
	}
	list, err := address.NewList([]string{name})
	if err != nil {
		return nil, err
	}
	d := address.Dialer{Rule: address.Rule{Allow: list}, Lookup: z.net.Lookup, Dial: z.net.Dial}
	if z.private || z.loopback || z.free[name] {
		d.Rule.Private = address.AnyPrivate()
	}
	if z.loopback || z.free[name] {
		d.Rule.From = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return d.DialContext(ctx, network, server)
}

// Transport returns a transport for one request. It checks the addresses that it dials, asks no proxy
// and keeps no connection. The caller calls Check first, for each redirect too.
func (z *Zone) Transport() *http.Transport {
	return &http.Transport{
		DialContext: z.dial, TLSClientConfig: z.net.TLS, DisableKeepAlives: true, ForceAttemptHTTP2: true,
		TLSHandshakeTimeout: handshakeTime, ResponseHeaderTimeout: handshakeTime, MaxResponseHeaderBytes: 64 << 10,
	}
}
