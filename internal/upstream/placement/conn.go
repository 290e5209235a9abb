package placement

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/internal/cluster"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/signin/oauth"
	"github.com/weir-mcp/weir/mcp"
)

// greetPause is the time between two attempts to greet a server whose holder is there and not ready.
const greetPause = 250 * time.Millisecond

// holderWait is how long a connection waits for a node that has its server.
const holderWait = 3 * time.Second

// Way returns the transport to a server at another node, over the peer link, nil for other servers.
func (s *Servers) Way(server *config.Server) http.RoundTripper {
	if !Remote(server) {
		return nil
	}
	return &conn{s: s, name: server.Name}
}

// conn carries the requests of one connection to a server at another node.
type conn struct {
	s       *Servers
	name    string
	greeted atomic.Bool // the node has answered
}

// RoundTrip implements http.RoundTripper. The error is an *mcp.Error of KindNodeGone, or of
// KindUpstreamUnavailable if no node has the server. It is mcp.ErrNotSent if the node has got nothing.
func (t *conn) RoundTrip(r *http.Request) (*http.Response, error) {
	inc, _ := incOfURL(r.URL.String())
	if inc == "" || !strings.HasPrefix(r.URL.Path, peerServers) { // a new upstream takes the place of this one, and of its calls, when there is a holder
		if r.Body != nil {
			_ = r.Body.Close()
		}
		select {
		case <-time.After(holderWait):
		case <-r.Context().Done():
		}
		return nil, &mcp.Error{
			Kind: mcp.KindUpstreamUnavailable, Err: mcp.ErrNotSent,
			Message: fmt.Sprintf("no node of the cluster has upstream %q now (scope: cluster): one takes it over within 25 seconds; call again", t.name),
		}
	}
	for {
		resp, err := t.send(inc, r)
		if !t.later(inc, r, resp, err) {
			return t.answer(inc, r, resp, err)
		}
		if resp != nil {
			oauth.Drop(resp)
		}
		select {
		case <-time.After(greetPause):
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
		if r.GetBody != nil {
			body, err := r.GetBody()
			if err != nil {
				return nil, err
			}
			again := *r
			again.Body = body
			r = &again
		}
	}
}

// send sends a request to a node. All nodes are one caller there.
func (t *conn) send(inc string, r *http.Request) (*http.Response, error) {
	return cluster.Send(t.s.node, inc, r.Clone(identity.With(r.Context(), &identity.Identity{Principal: mcp.LocalPrincipal})))
}

// later reports whether to try again: a node that has just got the server starts it.
func (t *conn) later(inc string, r *http.Request, resp *http.Response, err error) bool {
	switch {
	case t.greeted.Load(), r.Body != nil && r.Body != http.NoBody && r.GetBody == nil, r.Context().Err() != nil, t.s.node.Gone(inc):
		return false
	case err != nil:
		return cluster.NotSent(err)
	}
	return resp.StatusCode == http.StatusServiceUnavailable || resp.StatusCode == http.StatusMisdirectedRequest
}

// answer returns the response of a node, or its error for the caller of the server.
func (t *conn) answer(inc string, r *http.Request, resp *http.Response, err error) (*http.Response, error) {
	switch {
	case r.Context().Err() != nil && err != nil:
		return nil, r.Context().Err()
	case err != nil:
		t.s.suspect(t.name, inc)
		return nil, t.gone(inc, err)
	case resp.StatusCode == http.StatusMisdirectedRequest:
		oauth.Drop(resp)
		t.s.suspect(t.name, "")
		return nil, &mcp.Error{
			Kind: mcp.KindUpstreamUnavailable, Err: mcp.ErrNotSent,
			Message: fmt.Sprintf("upstream %q moves to another node of the cluster (scope: cluster): call again", t.name),
		}
	}
	t.greeted.Store(true)
	resp.Body = &nodeBody{resp.Body, r.Context(), func(err error) error {
		t.s.suspect(t.name, inc)
		return t.gone(inc, err)
	}}
	return resp, nil
}

// gone returns the error of a call whose node has not answered.
func (t *conn) gone(inc string, err error) error {
	unsent := cluster.NotSent(err)
	e := &mcp.Error{Kind: mcp.KindNodeGone, Err: err}
	e.Message = fmt.Sprintf("the node of the cluster that has upstream %q (scope: cluster) does not answer; the call may have run: make it again if that does no harm", t.name)
	if unsent {
		e.Message = fmt.Sprintf("the node of the cluster that has upstream %q (scope: cluster) does not answer, and the call did not run; another node takes it over within 25 seconds", t.name)
		e.Err = errors.Join(mcp.ErrNotSent, err)
	}
	e.Data, _ = json.Marshal(map[string]any{"kind": "node_gone", "node": inc, "maybe_ran": !unsent}) // texts and a bool
	return e
}

// nodeBody is a response of a node.
type nodeBody struct {
	io.ReadCloser
	ctx  context.Context       // of the request
	gone func(err error) error // returns the error of a node that is gone
}

// Read implements io.Reader. A response that breaks off has the error of a node that is gone.
func (b *nodeBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == nil || errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) || b.ctx.Err() != nil {
		return n, err
	}
	return n, b.gone(err)
}

// suspect makes the claim of a server be looked at, after a check whether its node is dead. inc is "" if the
// node lives.
func (s *Servers) suspect(name, inc string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.all[name]
	if one == nil || one.suspecting || s.closing.Err() != nil {
		return
	}
	if inc == "" {
		one.nudge()
		return
	}
	one.suspecting = true
	s.work.Go(func() {
		_ = s.node.Suspect(s.closing, inc)
		one.nudge()
		s.mu.Lock()
		defer s.mu.Unlock()
		one.suspecting = false
	})
}
