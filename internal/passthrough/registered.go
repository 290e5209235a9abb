package passthrough

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/protocol/invocation"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
	"github.com/weir-mcp/weir/mcp/streamable"
)

// An upstream that has registered itself chooses its URL, and no operator has checked it. The
// router enforces MCP in both directions, so that the URL cannot lead to other kinds of services:
//
//	request   the headers of MCP and of trace context, and those that are configured
//	response  GET: an event stream. DELETE: a status. POST: JSON-RPC that answers the
//	          request, an event stream, or nothing. A handshake's result names its
//	          version and capabilities. Anything else becomes an error of weir's.
//
// Redirects stay within the origin, and connections within the rule of the address (package
// address), as Options.Registered provides.

// maxGreeting bounds the bytes of an event stream before the answer to a handshake.
const maxGreeting = 1 << 20

// peerHeader returns the headers of an agent's request for an upstream that has registered itself:
// only those that MCP and trace context need, and those in further.
func peerHeader(r *http.Request, modern bool, further []string) http.Header {
	h := make(http.Header, len(r.Header))
	for k, v := range r.Header {
		switch k {
		case "Accept", "Content-Type", streamable.HeaderLastEventID, "Traceparent", "Tracestate", "Baggage", viaHeader: // detects loops
		case streamable.HeaderMethod, streamable.HeaderName:
			if !modern {
				continue
			}
		default:
			if !hasPrefix(k, "Mcp-") || !modern && hasPrefix(k, streamable.HeaderParamPrefix) {
				continue
			}
		}
		h[k] = v
	}
	for _, name := range further {
		name = http.CanonicalHeaderKey(name)
		if v, ok := r.Header[name]; ok && !weirsOwn(name) {
			h[name] = v
		}
	}
	h["User-Agent"] = nil // otherwise net/http adds its own
	return h
}

// vet checks the response of an upstream that has registered itself. It keeps only the headers of
// MCP, and puts the bytes that it has read back into the body. An error says that the response is
// not MCP; none of it may be shown then.
func (x *exchange) vet(resp *http.Response) error {
	keepMCP(resp.Header)
	switch code := resp.StatusCode; {
	case code >= 300 && code < 400, code == http.StatusUnauthorized, code == http.StatusProxyAuthRequired:
		return nil // refusal handles it
	}
	switch kind := mediaType(resp.Header); {
	case x.r.Method == http.MethodGet && resp.StatusCode == http.StatusOK && kind == streamable.ContentSSE:
		return nil
	case x.r.Method == http.MethodGet && resp.StatusCode < 300:
		return x.noMCP("a GET with %d and the content type %.80q, where MCP has event streams", resp.StatusCode, kind)
	case x.r.Method != http.MethodPost:
		empty(resp)
		if resp.StatusCode >= 400 {
			return streamable.StatusFailure(x.who(), x.r.Method, resp)
		}
		return nil
	case kind == streamable.ContentSSE && resp.StatusCode == http.StatusOK && x.e.id != "":
		if x.greets() {
			return x.vetGreeting(resp)
		}
		return nil
	case kind == streamable.ContentJSON:
		return x.vetJSON(resp)
	case x.e.id != "":
		return nil // refusal handles it
	case resp.StatusCode >= 400:
		return streamable.StatusFailure(x.who(), "a message", resp)
	}
	return x.vetNothing(resp)
}

func (x *exchange) who() string { return fmt.Sprintf("upstream %q", x.f.name) }

// noMCP returns the error for an answer that is not MCP.
func (x *exchange) noMCP(format string, args ...any) error {
	return mcp.Errorf(mcp.KindUpstreamProtocol, "%s answered %s; it has registered itself as an MCP server", x.who(), fmt.Sprintf(format, args...))
}

// greets reports whether the request is a handshake.
func (x *exchange) greets() bool {
	return x.e.method == "initialize" || x.e.method == "server/discover"
}

// keepMCP drops all headers that MCP clients do not need.
func keepMCP(h http.Header) {
	for k := range h {
		switch k {
		case "Content-Type", "Content-Length", "Cache-Control", "Retry-After", "Location":
		default:
			if !hasPrefix(k, "Mcp-") {
				delete(h, k)
			}
		}
	}
}

// vetNothing checks that there is no body.
func (x *exchange) vetNothing(resp *http.Response) error {
	var one [1]byte
	if n, _ := io.ReadFull(resp.Body, one[:]); n > 0 {
		return x.noMCP("a message that wants no answer with the content type %.80q", mediaType(resp.Header))
	}
	empty(resp)
	return nil
}

// empty removes everything except the status of a response.
func empty(resp *http.Response) {
	resp.Body, resp.ContentLength = http.NoBody, 0
	delete(resp.Header, "Content-Length")
	delete(resp.Header, "Content-Type")
}

// vetJSON checks that a body is JSON-RPC: the response to the request, or to a batch of them.
func (x *exchange) vetJSON(resp *http.Response) error {
	data, err := io.ReadAll(io.LimitReader(resp.Body, x.fw.o.MaxResponse+1))
	switch {
	case err != nil:
		return err
	case int64(len(data)) > x.fw.o.MaxResponse:
		return mcp.Errorf(mcp.KindUpstreamProtocol, "the response of %s has more than the bound of %d bytes", x.who(), x.fw.o.MaxResponse)
	case len(data) > 0 || x.e.id != "":
		if err := x.vetMessages(data); err != nil {
			return err
		}
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(data)), int64(len(data))
	resp.Header["Content-Length"] = []string{fmt.Sprint(len(data))}
	return nil
}

func (x *exchange) vetMessages(data []byte) error {
	msgs, batch, err := jsonrpc.Split(data)
	if err != nil || batch && x.e.id != "" {
		return x.noMCP("%s with JSON that is no response to it", clip(x.method()))
	}
	for _, raw := range msgs {
		m, err := jsonrpc.Parse(raw)
		if err != nil || x.e.id != "" && (m.Method != "" || m.ID != x.e.id && (m.Err == nil || m.ID != "")) {
			return x.noMCP("%s with JSON that is no response to it", clip(x.method()))
		}
		if err := x.vetResult(&m); err != nil {
			return err
		}
	}
	return nil
}

func (x *exchange) method() string {
	if x.e.method == "" {
		return "a message"
	}
	return x.e.method
}

// vetResult checks the result of a handshake.
func (x *exchange) vetResult(m *jsonrpc.Message) error {
	if !x.greets() || m.Err != nil {
		return nil
	}
	version := rawjson.Get(m.Result, "protocolVersion")
	if x.e.method == "server/discover" {
		version = rawjson.Get(m.Result, "supportedVersions")
	}
	if len(version) == 0 || version[0] != '"' && version[0] != '[' || !rawjson.IsObject(rawjson.Get(m.Result, "capabilities")) {
		return x.noMCP("%s without a protocol version and capabilities", x.e.method)
	}
	return nil
}

// vetGreeting reads an event stream up to the answer to a handshake, and puts the bytes back.
func (x *exchange) vetGreeting(resp *http.Response) error {
	var read bytes.Buffer
	body := resp.Body
	events := streamable.NewEventReader(io.TeeReader(io.LimitReader(body, maxGreeting), &read), maxGreeting)
	for {
		ev, err := events.Next()
		if err != nil {
			return x.noMCP("%s with an event stream that has no response to it", x.e.method)
		}
		if len(bytes.TrimSpace(ev.Data)) == 0 {
			continue
		}
		m, err := jsonrpc.Parse(ev.Data)
		if err != nil {
			return x.noMCP("%s with events that are no JSON-RPC", x.e.method)
		}
		if m.Method != "" || m.ID != x.e.id {
			continue
		}
		if err := x.vetResult(&m); err != nil {
			return err
		}
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.MultiReader(&read, body), body}
		return nil
	}
}

// weirsOwn reports whether weir never forwards a header, even if it is configured, because it
// identifies the client or its connection.
func weirsOwn(name string) bool {
	switch name {
	case "Authorization", "Cookie", "Host", "Forwarded", "Via", "Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
		"Content-Length", "Expect", "Accept-Encoding", "Metadata-Flavor", "X-Aws-Ec2-Metadata-Token", "X-Aws-Ec2-Metadata-Token-Ttl-Seconds":
		return true
	}
	return name == invocation.Header || isForged(name) || strings.HasPrefix(name, "Proxy-") || strings.HasPrefix(name, "X-Forwarded-")
}
