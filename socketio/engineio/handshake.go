package engineio

import (
	"crypto/tls"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Handshake is the request that opened a session. The session keeps it as one text: a parsed URL
// and a map of headers would be a large part of the cost of an idle session.
type Handshake struct {
	Host       string
	RemoteAddr string
	TLS        *tls.ConnectionState // nil without TLS
	Value      any                  // the value that Authenticate returned

	target  string
	headers string // a line each: name, ":", value
}

// dropped lists the headers of the WebSocket upgrade itself.
var dropped = []string{"Connection", "Upgrade", "Sec-Websocket-Key", "Sec-Websocket-Version", "Sec-Websocket-Extensions"}

func newHandshake(r *http.Request, value any) *Handshake {
	var b strings.Builder
	target := r.URL.RequestURI()
	size := len(r.Host) + len(r.RemoteAddr) + len(target)
	for name, values := range r.Header {
		for _, v := range values {
			size += len(name) + len(v) + 2
		}
	}
	b.Grow(size)
	b.WriteString(r.Host)
	b.WriteString(r.RemoteAddr)
	b.WriteString(target)
	for name, values := range r.Header {
		if slices.Contains(dropped, name) {
			continue
		}
		for _, v := range values {
			b.WriteString(name)
			b.WriteByte(':') // a name has no colon; names and values have no newline (RFC 9110 §5)
			b.WriteString(v)
			b.WriteByte('\n')
		}
	}
	h := &Handshake{TLS: r.TLS, Value: value}
	text := b.String()
	h.Host, text = text[:len(r.Host)], text[len(r.Host):]
	h.RemoteAddr, text = text[:len(r.RemoteAddr)], text[len(r.RemoteAddr):]
	h.target, h.headers = text[:len(target)], text[len(target):]
	return h
}

// URL parses the URL of the request: path and query.
func (h *Handshake) URL() *url.URL {
	u, err := url.ParseRequestURI(h.target)
	if err != nil { // it has been parsed before
		return &url.URL{}
	}
	return u
}

// Query parses the query of the URL.
func (h *Handshake) Query() url.Values { return h.URL().Query() }

// Header returns the headers of the request, without the headers of the WebSocket upgrade. Each
// call builds a new map.
func (h *Handshake) Header() http.Header {
	header := http.Header{}
	for line := range strings.Lines(h.headers) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		header[name] = append(header[name], value)
	}
	return header
}
