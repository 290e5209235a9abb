package router

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/weir-mcp/weir/mcp"
)

// Upstream is one MCP server. All methods may be called concurrently, and two
// Upstreams can be compared with ==. Whatever it does is on behalf of the session
// that mcp.Caller(ctx) names: a server may have a connection of its own for each.
//
// As a Peer it waits for a server that is starting, within bounds. One that
// cannot be reached is an error of mcp.KindUpstreamUnavailable,
// KindUpstreamStarting or KindUpstreamTimeout.
type Upstream interface {
	mcp.Peer
	Greeting
	Endpoint
	Feed
	// CheckParamHeaders compares the Mcp-Param-* headers of a modern tools/call
	// with its params; a mismatch is an error of mcp.KindHeaderMismatch. Only the
	// upstream knows which arguments its tools want repeated.
	CheckParamHeaders(tool string, params json.RawMessage, h http.Header) error
}

// Greeting is what a server said of itself.
type Greeting interface {
	// Ready waits until the server can be called, or woken by a call, and
	// returns what it said.
	Ready(ctx context.Context) (mcp.Hello, error)
	// Hello is the same for one era: an HTTP server that speaks both is greeted
	// in that one, too. Which era it answered in is in the Hello.
	Hello(ctx context.Context, modern bool) (mcp.Hello, error)
}

// Endpoint is where a streamable HTTP server can be reached without a Peer.
type Endpoint interface {
	// Target returns where that is; ok is false for a server that is spoken to
	// otherwise. It is called for each request.
	Target() (t Target, ok bool)
	// Hold waits until a server that weir runs can be called, and keeps it
	// running until release. For other servers it returns at once. A release with
	// an error says that the server takes nothing any more: the next Hold waits
	// until it was started again.
	//
	// stream says that the hold is for a stream, which lasts as long as the agent
	// wants: who changes the server does not wait for it to end.
	Hold(ctx context.Context, stream bool) (release func(lost error), err error)
}

// Feed is what a server tells beside calls.
type Feed interface {
	// Subscribe has fn called for each notification that belongs to no call, but
	// updates of resources, until stop is called. fn must not block, and clones
	// what it keeps of params.
	Subscribe(ctx context.Context, fn func(method string, params json.RawMessage)) (stop func())
	// SubscribeResource has fn called for each update of a resource, until stop
	// is called. Subscriptions are counted: the server sees the first of each
	// URI and the end of the last. A refusal of the server is a *jsonrpc.Error.
	SubscribeResource(ctx context.Context, uri string, fn func(params json.RawMessage)) (stop func(), err error)
	// SetLogLevel asks the server for the most verbose log messages that any
	// session wants; a session's wish ends with it.
	SetLogLevel(ctx context.Context, level string) error
}

// Target is the endpoint of a streamable HTTP server. Nothing in it is changed.
type Target struct {
	URL *url.URL
	// Header goes with each request, in place of what the agent sent. Its keys
	// are canonical.
	Header http.Header
	// Timeout bounds one call; zero sets no bound. Streams and subscriptions
	// last as long as the agent wants.
	Timeout time.Duration
	// Process says that weir runs the server, so that it is held while something
	// is sent to it.
	Process bool
	// Version is what was negotiated in the handshake, "" before it.
	Version string
}

// What a path asks an upstream for.
const (
	mcpPath  = "mcp"
	taskPath = "task"
)

// TaskStatusPath tells of tasks as an agent server does, which is named by the
// parameter agent.
const TaskStatusPath = "/getTaskStatus"

// nameOf returns the upstream's name in /mcps/{name}/mcp, /mcp/{name}/mcp and
// the same with task or getTaskStatus at the end, and which of them it is. So
// does /getTaskStatus?agent={name}.
func nameOf(u *url.URL) (name, what string, ok bool) {
	path := u.EscapedPath()
	if path == TaskStatusPath {
		name = u.Query().Get("agent")
		return name, taskPath, name != ""
	}
	rest, ok := strings.CutPrefix(path, "/mcps/")
	if !ok {
		if rest, ok = strings.CutPrefix(path, "/mcp/"); !ok {
			return "", "", false
		}
	}
	name, end, ok := strings.Cut(rest, "/")
	if !ok || name == "" {
		return "", "", false
	}
	switch strings.TrimSuffix(end, "/") {
	case mcpPath:
		what = mcpPath
	case taskPath, "getTaskStatus":
		what = taskPath
	default:
		return "", "", false
	}
	if strings.IndexByte(name, '%') >= 0 {
		plain, err := url.PathUnescape(name)
		return plain, what, err == nil
	}
	return name, what, true
}
