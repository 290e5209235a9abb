package guard

import (
	"cmp"
	"net/http"
	"net/url"
	"strings"

	"github.com/weir-mcp/weir/internal/net/address"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/mcp"
)

// OwnOrigin returns an error of KindPermissionDenied for a request that a page of another origin had
// a browser send. Pages of this machine's other servers are other origins as well. public is the URL
// of the server behind a proxy, which may change the Host; "" is none. Check the Host before.
func OwnOrigin(r *http.Request, public string) error {
	if origin := address.Origin(public); origin != "" {
		return ownOrigin(r, map[string]bool{origin: true})
	}
	return ownOrigin(r, nil)
}

// checkOwn is CheckOrigin under Options.OwnPages.
func (g *Guard) checkOwn(r *http.Request) error {
	if navigation(r) {
		return nil
	}
	return ownOrigin(r, g.origins)
}

// ownOrigin is OwnOrigin for a server whose origin has further names, as address.Origin writes them.
func ownOrigin(r *http.Request, names map[string]bool) error {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
	default:
		return mcp.Errorf(mcp.KindPermissionDenied, "a browser sent this request for a page of another origin; only the gateway's own pages may send it")
	}
	origin := r.Header.Get("Origin")
	if origin == "" || names[spelled(origin)] {
		return nil
	}
	if !sameHost(origin, r.Host) {
		return mcp.Errorf(mcp.KindPermissionDenied, "pages of the origin %q may not send this request; only the gateway's own pages may", text.Line(origin, 80))
	}
	return nil
}

// mayShowCertificate reports whether the client certificate of a request's connection says who made
// the request: no browser sent it, or it did for a page of the server's own or of a configured origin.
// Pages of this machine's other servers may call, but need a token. A link counts: the page with it
// cannot read the answer.
func (g *Guard) mayShowCertificate(r *http.Request) bool {
	return g.named(r.Header.Get("Origin")) || navigation(r) || ownOrigin(r, nil) == nil
}

// named reports whether an origin is one of Options.Origins, in any spelling.
func (g *Guard) named(origin string) bool { return origin != "" && g.origins[spelled(origin)] }

// spelled returns an origin as browsers write it, or a text that is none in lower case.
func spelled(origin string) string { return cmp.Or(address.Origin(origin), strings.ToLower(origin)) }

// sameHost reports whether an origin has the host and the port of a Host header.
func sameHost(origin, host string) bool {
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" {
		return false
	}
	scheme := strings.ToLower(u.Scheme)
	return address.OriginHost(u.Host, scheme) == address.OriginHost(host, scheme)
}

// navigation reports whether a browser follows a link or a redirect in a window of its own. The page
// with the link cannot read the answer.
func navigation(r *http.Request) bool {
	return r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Origin") == ""
}
