package router

import (
	"io"
	"log/slog"
	"net/http"

	"github.com/weir-mcp/weir/internal/invocation"
	"github.com/weir-mcp/weir/internal/rawjson"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// Sign returns the token with which the router vouches for one request to an
// upstream: on whose behalf, and which tool is called ("" for anything else). It
// is "" for upstreams that get none. It is called concurrently, once for each
// HTTP request.
type Sign func(upstream, principal, tool string) (token string, err error)

// toolOf is the tool that a message calls, "" where it calls none. A message in
// which two readers could find two tools is an error of mcp.KindInvalidParams: a
// token would be for the one, and the agent would run the other.
func toolOf(m *jsonrpc.Message) (string, error) {
	if m.Method != "tools/call" || !rawjson.IsObject(m.Params) {
		return "", nil
	}
	name, err := rawjson.Sole(m.Params, "name")
	if err != nil {
		return "", mcp.Errorf(mcp.KindInvalidParams, "tools/call: params: %v", err)
	}
	return rawjson.Text(name), nil
}

// knows reports whether an upstream is told on whose behalf it is called.
func (s Sign) knows(upstream string) bool {
	if s == nil {
		return false
	}
	token, err := s(upstream, mcp.LocalPrincipal, "")
	return err == nil && token != ""
}

// set puts a token into the headers of a request.
func (s Sign) set(h http.Header, upstream, principal, tool string) error {
	if s == nil {
		return nil
	}
	token, err := s(upstream, principal, tool)
	if err != nil {
		return &mcp.Error{Kind: mcp.KindInternal, Message: "the router could not sign a request to agent \"" + upstream + "\"", Err: err}
	}
	if token != "" {
		h[invocation.Header] = []string{token}
	}
	return nil
}

// Signed returns a transport whose requests bear tokens of sign on behalf of
// one principal, and the mark of loops. It is for connections to upstreams that
// do not lead through the Router; see upstream.Options.Transport. A request that
// cannot be signed goes out without a token, and the upstream refuses it. One that
// comes back to this process fails with mcp.ErrLoop.
func Signed(base http.RoundTripper, sign Sign, loops *Loops, upstream, principal string, log *slog.Logger) http.RoundTripper {
	return &signed{base: base, sign: sign, loops: loops, via: []string{loops.of(upstream)}, upstream: upstream, principal: principal, log: log}
}

type signed struct {
	base                http.RoundTripper
	sign                Sign
	loops               *Loops
	via                 []string
	upstream, principal string
	log                 *slog.Logger
}

// RoundTrip implements http.RoundTripper.
func (t *signed) RoundTrip(r *http.Request) (*http.Response, error) {
	out := *r
	out.Header = r.Header.Clone()
	t.loops.set(out.Header, t.via)
	if err := t.sign.set(out.Header, t.upstream, t.principal, bodyTool(r)); err != nil {
		t.log.Error("a request goes out without a token", "upstream", t.upstream, "err", err)
	}
	resp, err := t.base.RoundTrip(&out)
	if err == nil && t.loops.told(resp.Header) {
		_ = resp.Body.Close() // it says what is known
		return nil, &mcp.Error{Kind: mcp.KindUpstreamUnavailable, Message: "the URL of \"" + t.upstream + "\" leads back to this weir", Err: mcp.ErrLoop}
	}
	return resp, err
}

// CloseIdleConnections has http.Client reach the pool below.
func (t *signed) CloseIdleConnections() {
	if c, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// bodyTool reads the tool out of the body of a request, of which there is
// another copy.
func bodyTool(r *http.Request) string {
	if r.Method != http.MethodPost || r.GetBody == nil {
		return ""
	}
	body, err := r.GetBody()
	if err != nil {
		return ""
	}
	defer body.Close()
	data, err := io.ReadAll(body)
	if err != nil {
		return ""
	}
	m, err := jsonrpc.Parse(data)
	if err != nil {
		return ""
	}
	tool, err := toolOf(&m)
	if err != nil {
		return "" // a token for no tool, with which the agent runs none
	}
	return tool
}
