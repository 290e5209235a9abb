package agents

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/net/address"
	"github.com/weir-mcp/weir/mcp"
)

// resolveTimeout bounds the resolution of a registration's host.
const resolveTimeout = 2 * time.Second

// Rule returns the permitted addresses of an agent that has registered itself, by the current lists
// of Options.Hosts. ok is false for any other name: the operator chooses the address of an agent of
// routing.json.
func (r *Registry) Rule(name string) (rule address.Rule, ok bool) {
	r.mu.Lock()
	a, ok := r.leases[name]
	ok = ok && !r.routed(name)
	r.mu.Unlock()
	if !ok || r.o.Owner(name) != "" {
		return address.Rule{}, false
	}
	return r.ruleOf(a), true
}

// operators reports whether the operator has said where the agent with a name is.
func (r *Registry) operators(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.routed(name) || r.o.Owner(name) != ""
}

// ruleOf is the rule for where an agent may be: where it came from, or where the
// operator lets its principal put agents, which may be a private network.
func (r *Registry) ruleOf(a Agent) address.Rule {
	return address.Rule{From: a.From, Allow: r.o.Hosts(a.Principal), Private: address.AnyPrivate()}
}

// checkPlace refuses an agent whose URL leads to a host that its principal may not name. A name
// without an address is admitted: each connection checks the rule again.
func (r *Registry) checkPlace(ctx context.Context, a Agent) error {
	u, err := url.Parse(a.URL)
	if err != nil {
		return mcp.Errorf(mcp.KindInvalidParams, "the url of %q cannot be read", a.Name)
	}
	ctx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	d := address.Dialer{Rule: r.ruleOf(a), Lookup: r.o.Lookup}
	if _, err = d.Resolve(ctx, u.Hostname(), port); !errors.Is(err, address.ErrRefused) {
		return nil
	}
	return mcp.Errorf(mcp.KindPermissionDenied, "the agent %q may not be at %.100s: %w. An agent may be at the address that it registers from; "+
		"agents.hosts, or register_hosts of its token, allows other hosts", a.Name, address.Server(u), err)
}

// portURL is the MCP endpoint at a port of the address that a registration came
// from, false where that address is not known.
func portURL(from netip.Addr, known bool, port int) (string, bool) {
	if !known {
		return "", false
	}
	u := url.URL{Scheme: "http", Host: netip.AddrPortFrom(from, uint16(port)).String(), Path: "/mcp"}
	return u.String(), true
}

// routersOwn reports whether a URL leads to where the request has come: to the
// address of the connection, or to a route of agents at the host that the
// request names.
func routersOwn(req *http.Request, at string) bool {
	u, err := url.Parse(at)
	if err != nil {
		return false
	}
	if u.Host == req.Host && (strings.HasPrefix(u.Path, "/mcps/") || strings.HasPrefix(u.Path, "/mcp/")) {
		return true
	}
	local, ok := req.Context().Value(http.LocalAddrContextKey).(interface{ AddrPort() netip.AddrPort })
	if !ok {
		return false
	}
	own := local.AddrPort()
	if u.Port() != strconv.Itoa(int(own.Port())) {
		return false
	}
	ip, isIP := address.ParseIP(u.Hostname())
	return isIP && ip == own.Addr().Unmap() || address.Loopback(u.Hostname()) && own.Addr().Unmap().IsLoopback()
}
