package passthrough

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/weir-mcp/weir/mcp"
)

// Upstream is one MCP server. All methods may be called concurrently, and two Upstreams can be
// compared with ==. Calls are made on behalf of the session mcp.Caller(ctx): a server may have a
// separate connection for each session.
//
// As a Peer it waits for a server that is starting, within bounds. If the server cannot be reached,
// the error is of mcp.KindUpstreamUnavailable, KindUpstreamStarting or KindUpstreamTimeout.
type Upstream interface {
	mcp.Peer
	Greeting
	Endpoint
	Feed
	// CheckParamHeaders compares the Mcp-Param-* headers of a modern tools/call with its params; a
	// mismatch is an error of mcp.KindHeaderMismatch. Only the upstream knows which arguments its
	// tools repeat.
	CheckParamHeaders(ctx context.Context, tool string, params json.RawMessage, h http.Header) error
}

// Greeting returns the server's part of the handshake.
type Greeting interface {
	// Ready waits until the server can be called, or woken by a call, and returns its Hello.
	Ready(ctx context.Context) (mcp.Hello, error)
	// Hello is the same for one era: an HTTP server that speaks both is greeted in that era as
	// well. The Hello has the era of the answer.
	Hello(ctx context.Context, modern bool) (mcp.Hello, error)
}

// Endpoint gives access to a streamable HTTP server without a Peer.
type Endpoint interface {
	// Target returns the endpoint; ok is false for a server with another transport. It is called
	// for each request.
	Target() (t Target, ok bool)
	// Hold waits until a server that weir runs can be called, and keeps it running until release.
	// For other servers it returns at once. Call release with an error if the server has become
	// unusable: the next Hold waits until it was restarted.
	//
	// stream says that the hold is for a stream, which lasts as long as the agent wants: a change
	// of the server does not wait for its end.
	Hold(ctx context.Context, stream bool) (release func(lost error), err error)
}

// Feed delivers the messages of a server outside calls.
type Feed interface {
	// Subscribe calls fn for each notification that belongs to no call, except updates of
	// resources, until stop is called. fn must not block, and must clone the params that it keeps.
	Subscribe(ctx context.Context, fn func(method string, params json.RawMessage)) (stop func())
	// SubscribeResource calls fn for each update of a resource, until stop is called. Subscriptions
	// are counted: the server sees the first of each URI and the end of the last. A refusal of the
	// server is a *jsonrpc.Error.
	SubscribeResource(ctx context.Context, uri string, fn func(params json.RawMessage)) (stop func(), err error)
	// SetLogLevel sets the session's log level until the session ends. The server gets the most
	// verbose level of all sessions.
	SetLogLevel(ctx context.Context, level string) error
}

// Target is the endpoint of a streamable HTTP server. It must not be changed.
type Target struct {
	URL *url.URL
	// Header has the headers of each request, which replace the agent's. Its keys are canonical.
	Header http.Header
	// Timeout bounds one call; zero sets no bound. Streams and subscriptions last as long as the
	// agent wants.
	Timeout time.Duration
	// Process says that weir runs the server, so callers must hold it while they send requests.
	Process bool
	// Cluster says that all nodes of a cluster reach the same server. It is set if ok is false as
	// well.
	Cluster bool
	// Version is the negotiated version, "" before the handshake.
	Version string
}

// The kinds of request in a path.
const (
	mcpPath  = "mcp"
	taskPath = "task"
)

// TaskStatusPath is the path for tasks at an agent server, which the parameter agent names.
const TaskStatusPath = "/getTaskStatus"

// Name returns the name of the upstream in the URL of a request to a Router.
func Name(u *url.URL) (name string, ok bool) {
	name, _, ok = nameOf(u)
	return name, ok
}

// nameOf returns the upstream's name in /mcps/{name}/mcp, /mcp/{name}/mcp, the same with task or
// getTaskStatus at the end, or /getTaskStatus?agent={name}. what is the kind of request.
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
