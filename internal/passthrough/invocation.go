package passthrough

import (
	"io"
	"log/slog"
	"maps"
	"net/http"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/protocol/invocation"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// Sign returns the token for one request to an upstream. It states the principal and the called
// tool ("" for other requests). For upstreams without tokens it returns "". It is called
// concurrently, once per HTTP request.
type Sign func(upstream, principal, tool string) (token string, err error)

// toolOf returns the tool that a message calls, "" if it calls none. If two readers could find two
// tools in a message, the error is of mcp.KindInvalidParams: the token could be for one tool, and
// the agent run the other.
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

// knows reports whether requests to an upstream state the principal.
func (s Sign) knows(upstream string) bool {
	if s == nil {
		return false
	}
	token, err := s(upstream, mcp.LocalPrincipal, "")
	return err == nil && token != ""
}

// set adds a token to the headers of a request.
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

// Signed returns a transport that adds tokens of sign on behalf of one principal, and the mark of
// loops. It is for connections to upstreams that do not use the Router; see
// upstream.Options.Transport. It calls signs, concurrently, before each request; if that returns
// false, the request gets no token and its body is not read for one. A request that cannot be
// signed is sent without a token, and the upstream refuses it. A request that comes back to this
// process fails with mcp.ErrLoop.
func Signed(base http.RoundTripper, sign Sign, signs func() bool, loops *Loops, upstream, principal string, log *slog.Logger) http.RoundTripper {
	return &signed{base: base, sign: sign, signs: signs, loops: loops, via: []string{loops.of(upstream)}, upstream: upstream, principal: principal, log: log}
}

type signed struct {
	base                http.RoundTripper
	sign                Sign
	signs               func() bool
	loops               *Loops
	via                 []string
	upstream, principal string
	log                 *slog.Logger
}

// RoundTrip implements http.RoundTripper.
func (t *signed) RoundTrip(r *http.Request) (*http.Response, error) {
	out := *r
	out.Header = maps.Clone(r.Header) // with the same values, which are not changed
	t.loops.set(out.Header, t.via)
	if t.signs() {
		if err := t.sign.set(out.Header, t.upstream, t.principal, bodyTool(r)); err != nil {
			t.log.Error("a request goes out without a token", "upstream", t.upstream, "err", err)
		}
	}
	resp, err := t.base.RoundTrip(&out)
	if err == nil && t.loops.told(resp.Header) {
		_ = resp.Body.Close() // the header has all the information
		return nil, &mcp.Error{Kind: mcp.KindUpstreamUnavailable, Message: "the URL of \"" + t.upstream + "\" leads back to this weir", Err: mcp.ErrLoop}
	}
	return resp, err
}

// CloseIdleConnections closes the idle connections of the pool below; http.Client calls it.
func (t *signed) CloseIdleConnections() {
	if c, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// bodyTool reads the tool from a copy of a request's body.
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
		return "" // a token without a tool, with which the agent runs none
	}
	return tool
}
