package cluster

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/textproto"
	"strings"

	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/link"
	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/mcp"
)

// ErrGone says that a node is gone, with all that lived on it.
var ErrGone = errors.New("its node is gone")

// smallBody is the length up to which the body of a forwarded request is kept, so that the request can go
// through a third node. A longer one is passed on as it comes.
const smallBody = link.MaxBody

// Owner returns the node that has what an incarnation made: that node itself, or a later incarnation of its
// process. The error is ErrGone if there is none, and the store's if it cannot be asked.
func Owner(ctx context.Context, n *Node, inc string) (string, error) {
	if inc == n.Inc() {
		return inc, nil
	}
	if _, there := n.nodes.of(inc); there {
		return inc, nil
	}
	ctx, cancel := context.WithTimeout(ctx, writeTime)
	defer cancel()
	_, there, err := n.nodes.lookUp(ctx, inc)
	if err != nil {
		return "", err
	}
	if there {
		return inc, nil
	}
	if validInc(inc) {
		if heir := n.Heir(ctx, inc); heir != "" {
			return heir, nil
		}
	}
	return "", ErrGone
}

// idMark stands between the INC and the rest of an id that names its node.
const idMark = "-"

// NewID returns an id with 128 random bits. It names its node, unless that is the only one.
func NewID(n *Node) string {
	if inc := n.Inc(); inc != "" {
		return inc + idMark + rand.Text()
	}
	return rand.Text()
}

// IncOf returns the INC in an id, "" if it names none.
func IncOf(id string) string {
	if inc, _, ok := strings.Cut(id, idMark); ok && validInc(inc) {
		return inc
	}
	return ""
}

// Send sends a request to a node in the name of the caller in its context. If the node falls silent, the
// request and the body of the response end. NotSent says of an error that the node has got nothing.
func Send(n *Node, inc string, r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	stop := n.health.watch(inc, func() { cancel(errSilent) })
	out := r.WithContext(ctx)
	out.Header = maps.Clone(r.Header) // its values are not changed
	id := identity.From(r.Context())
	if id == nil {
		id = &identity.Identity{Principal: mcp.LocalPrincipal}
	}
	link.SetCaller(out.Header, id)
	resp, err := n.link.Carry(inc, out)
	if err != nil {
		stop()
		if cause := context.Cause(ctx); errors.Is(cause, errSilent) {
			err = fmt.Errorf("%w: %w", cause, err)
		}
		cancel(nil)
		return nil, err
	}
	b := &watchedBody{ReadCloser: resp.Body, end: func() { stop(); cancel(nil) }}
	if w, ok := resp.Body.(io.Writer); ok {
		conn := resp.Body
		context.AfterFunc(ctx, func() { _ = conn.Close() }) // the transport leaves an upgraded connection open
		resp.Body = &watchedConn{b, w}
	} else {
		resp.Body = b
	}
	return resp, nil
}

// NotSent reports whether an error of Send says that the node has got nothing of the request.
func NotSent(err error) bool { return errors.Is(err, link.ErrNotSent) }

// watchedBody is the body of a response of a node that is watched. One goroutine closes it.
type watchedBody struct {
	io.ReadCloser
	end    func()
	closed bool
}

// Close implements io.Closer.
func (b *watchedBody) Close() error {
	err := b.ReadCloser.Close()
	if !b.closed {
		b.closed = true
		b.end()
	}
	return err
}

// watchedConn is the connection behind a response of status 101.
type watchedConn struct {
	*watchedBody
	io.Writer
}

// Forward sends a request of a client to a node and copies the response, streams and upgrades as well. It
// returns an error if it has written nothing; NotSent says whether the request may be sent again. Call it
// behind the guard: it tells the other node who makes the request.
func Forward(n *Node, inc string, w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	out := r.Clone(ctx)
	upgrade := ""
	if headerHas(out.Header, "Connection", "upgrade") {
		upgrade = out.Header.Get("Upgrade")
	}
	link.DropHop(out.Header)
	if upgrade != "" {
		out.Header.Set("Connection", "Upgrade")
		out.Header.Set("Upgrade", upgrade)
	}
	switch {
	case r.Body == nil || r.ContentLength == 0:
		out.Body = http.NoBody
	case r.ContentLength > 0 && r.ContentLength <= smallBody:
		body := make([]byte, r.ContentLength)
		if _, err := io.ReadFull(r.Body, body); err != nil {
			return fmt.Errorf("the request ended early: %w", err)
		}
		out.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		out.Body, _ = out.GetBody()
	}
	resp, err := Send(n, inc, out)
	if err != nil {
		return err
	}
	if resp.StatusCode == http.StatusSwitchingProtocols {
		defer context.AfterFunc(n.ctx, func() { cancel(mcp.Errorf(mcp.KindShuttingDown, "weir is shutting down")) })()
		return link.Tunnel(ctx, w, resp)
	}
	if link.Lasts(resp) { // it ends with the credential of its request
		lasting, end := guard.Lasting(ctx)
		defer end()
		defer context.AfterFunc(lasting, func() { cancel(context.Cause(lasting)) })()
	}
	if err := link.Copy(w, resp); err != nil && r.Context().Err() == nil {
		panic(http.ErrAbortHandler) // a broken connection tells the client that the rest is missing
	}
	return nil
}

// headerHas reports whether a list of tokens in a header has one.
func headerHas(h http.Header, name, token string) bool {
	for _, line := range h[textproto.CanonicalMIMEHeaderKey(name)] {
		for part := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(part), token) {
				return true
			}
		}
	}
	return false
}
