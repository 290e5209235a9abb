package hop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"time"
)

// maxHead bounds the head of a response if http.Transport.MaxResponseHeaderBytes is not set. It is
// the bound of net/http.
const maxHead = 10 << 20

// A Transport is an http.RoundTripper. It is safe for concurrent use. The body of a request must
// not wait for anything: it is read in the goroutine of the caller, or while the connection is
// written.
type Transport struct {
	base  *http.Transport
	takes bool // no setting of base asks for more than this package does
	idle  pool
}

// New returns a Transport that dials as base does, by DialContext for http and by DialTLSContext for
// https, and keeps the bounds of base. It gives base the
// requests that it does not carry itself. The caller must not change base afterwards.
func New(base *http.Transport) *Transport {
	t := &Transport{base: base}
	h2c := base.Protocols != nil && (base.Protocols.UnencryptedHTTP2() || !base.Protocols.HTTP1())
	t.takes = CanProbe && base.DisableCompression && !base.DisableKeepAlives && base.MaxConnsPerHost == 0 && !h2c
	t.idle.perHost = cmp.Or(base.MaxIdleConnsPerHost, http.DefaultMaxIdleConnsPerHost)
	t.idle.total, t.idle.after = base.MaxIdleConns, base.IdleConnTimeout
	return t
}

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if !t.takes || !t.usual(req) {
		return t.base.RoundTrip(req)
	}
	if t.base.Proxy != nil {
		if proxy, err := t.base.Proxy(req); proxy != nil || err != nil {
			return t.base.RoundTrip(req)
		}
	}
	m := newMessage()
	defer m.release()
	if !m.head(req) {
		return t.base.RoundTrip(req)
	}
	if err := m.take(req); err != nil {
		return nil, err
	}
	return t.roundTrip(req, m)
}

// CloseIdleConnections closes the connections that carry no request now. Those that do are closed
// after it.
func (t *Transport) CloseIdleConnections() {
	t.idle.close()
	t.base.CloseIdleConnections()
}

// roundTrip sends a message. It sends the message once more if an idle connection turns out to be
// closed, and the server cannot have seen the message or may see it twice.
func (t *Transport) roundTrip(req *http.Request, m *message) (*http.Response, error) {
	ctx := req.Context()
	for {
		c, err := t.connection(ctx, req.URL)
		if err != nil {
			m.close()
			return nil, err
		}
		resp, again, err := c.exchange(ctx, req, m)
		if err == nil {
			return resp, nil
		}
		if ctx.Err() != nil {
			m.close()
			return nil, context.Cause(ctx)
		}
		if !again || !m.rewind(req) {
			m.close()
			return nil, err
		}
	}
}

// connection returns an idle connection to the server of a URL, or a new one.
func (t *Transport) connection(ctx context.Context, u *url.URL) (*conn, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	to := origin{u.Scheme, u.Host}
	if c := t.idle.get(to); c != nil {
		return c, nil
	}
	dial, port := t.base.DialContext, "80"
	if u.Scheme == "https" {
		dial, port = t.base.DialTLSContext, "443"
	}
	nc, err := dial(ctx, "tcp", net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), port)))
	if err != nil {
		if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
			err = fmt.Errorf("%w: %w", cause, err)
		}
		return nil, err
	}
	return newConn(t, to, nc), nil
}

// headTimeout is how long a server may take until the head of its response, zero without a bound.
func (t *Transport) headTimeout() time.Duration { return t.base.ResponseHeaderTimeout }

// usual reports whether the kind of a request is one that this package carries. net/http judges and
// carries all others.
func (t *Transport) usual(req *http.Request) bool {
	u := req.URL
	if u == nil || u.Opaque != "" || req.Header == nil {
		return false
	}
	if dials := u.Scheme == "http" && t.base.DialContext != nil || u.Scheme == "https" && t.base.DialTLSContext != nil; !dials {
		return false
	}
	if len(req.TransferEncoding) > 0 || req.Trailer != nil || req.Close || req.Method == http.MethodConnect {
		return false
	}
	if empty := req.Body == nil || req.Body == http.NoBody; empty != (req.ContentLength == 0) || req.ContentLength < 0 {
		return false
	}
	return httptrace.ContextClientTrace(req.Context()) == nil
}
