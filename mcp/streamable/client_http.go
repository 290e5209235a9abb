package streamable

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/net/hop"
	"github.com/weir-mcp/weir/mcp"
)

// ParseURL reads the URL of a server and returns the server's name in messages, which includes the
// host. Errors do not repeat the URL, which may contain credentials.
func ParseURL(name, raw string) (u *url.URL, who string, err error) {
	if name == "" {
		name = "the MCP server"
	}
	u, err = url.Parse(raw)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, "", mcp.Errorf(mcp.KindInvalidParams, "%s: the url must be http://HOST… or https://HOST…", name)
	}
	u.Fragment = ""
	return u, name + " (" + u.Host + ")", nil
}

// NewHTTPClient returns the HTTP client for one server: a copy of given, or a client with its own
// connection pool. The caller calls closeIdle at the end, which closes the pool's idle connections.
// Unless given has a policy, redirects are followed within the origin only.
func NewHTTPClient(given *http.Client, connect time.Duration) (_ *http.Client, closeIdle func()) {
	var hc http.Client
	closeIdle = func() {}
	if given != nil {
		hc = *given
	} else {
		pool := hop.New(newPool(connect))
		hc.Transport, closeIdle = pool, pool.CloseIdleConnections
	}
	if hc.CheckRedirect == nil {
		hc.CheckRedirect = sameOrigin
	}
	return &hc, closeIdle
}

// WrapTransport replaces the transport of hc by wrap of it. wrap may be nil.
func WrapTransport(hc *http.Client, wrap func(http.RoundTripper) http.RoundTripper) {
	if wrap == nil {
		return
	}
	base := hc.Transport
	if base == nil {
		base = http.DefaultTransport
	}
	hc.Transport = wrap(base)
}

// roundTrip sends a request as c.http.Do does. Do copies the headers of each request, in case that
// the server redirects it. roundTrip leaves that to Do when it happens.
func (c *Client) roundTrip(req *http.Request) (*http.Response, error) {
	if !c.plain {
		return c.http.Do(req)
	}
	resp, err := c.http.Transport.RoundTrip(req)
	if err != nil || resp.Body != nil && resp.StatusCode/100 != 3 {
		return resp, err
	}
	hc := *c.http
	hc.Transport = &answered{RoundTripper: hc.Transport, first: resp}
	return hc.Do(req)
}

// answered is a transport that has the response to its first request already.
type answered struct {
	http.RoundTripper
	first *http.Response
}

// RoundTrip implements http.RoundTripper.
func (t *answered) RoundTrip(req *http.Request) (*http.Response, error) {
	if first := t.first; first != nil {
		t.first = nil
		return first, nil
	}
	return t.RoundTripper.RoundTrip(req)
}

// newPool returns a transport whose pool keeps the connections of many concurrent callers alive.
func newPool(connect time.Duration) *http.Transport {
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: connect}).DialContext,
		TLSHandshakeTimeout:   connect,
		TLSClientConfig:       &tls.Config{MinVersion: tls.VersionTLS12},
		ForceAttemptHTTP2:     true,
		MaxIdleConns:          256,
		MaxIdleConnsPerHost:   64,
		IdleConnTimeout:       90 * time.Second,
		ExpectContinueTimeout: time.Second,
		// A compressing proxy would hold events back, and loopback needs no compression.
		DisableCompression: true,
		WriteBufferSize:    16 << 10,
		ReadBufferSize:     16 << 10,
	}
}

// sameOrigin follows a redirect only within the origin: the configured headers may contain a key
// for this host only.
func sameOrigin(req *http.Request, via []*http.Request) error {
	from := via[0].URL
	if len(via) > 4 || req.URL.Scheme != from.Scheme || req.URL.Host != from.Host {
		return http.ErrUseLastResponse
	}
	return nil
}

// OwnHeader returns a copy of the configured headers without those that the protocol defines.
func OwnHeader(h http.Header) http.Header {
	out := make(http.Header, len(h)+4)
	for k, v := range h {
		k = http.CanonicalHeaderKey(k)
		switch {
		case k == "Content-Type", k == "Accept", k == "Content-Length", k == HeaderLastEventID, strings.HasPrefix(k, "Mcp-"):
		default:
			out[k] = v
		}
	}
	return out
}
