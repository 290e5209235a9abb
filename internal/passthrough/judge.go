package passthrough

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/mcp"
)

// Judge decides about messages to an upstream: requests and notifications of any method, in both
// eras, single or in a batch. If a Judge applies to a server, weir parses its messages instead of
// forwarding bytes: a batch may contain a forbidden message, the server could parse a message
// differently, and only in a session of the router can a person at the agent's client be asked. The
// Judge does not see messages that the router answers, such as the handshake and ping.
type Judge interface {
	// Judges reports whether the Judge applies to an upstream. It is called for each request,
	// concurrently, and must be fast.
	Judges(upstream string) bool
	// Judge returns the params to send instead of r's, or the error that the agent gets instead of
	// a result, preferably an *mcp.Error. All readers must understand the params alike. Judge may
	// ask the agent through r.Peer, and wait for the answer. mcp.Caller(ctx) is the session of the
	// call. taskTool is the tool that made the task of r, by the name that the agent used; "" if it
	// is unknown.
	Judge(ctx context.Context, upstream string, r *mcp.Request, taskTool string) (json.RawMessage, error)
	// Shown returns the result of an admitted request without the entries that do not exist for the
	// caller, or the result itself, or the error that the agent gets instead. It is called for each
	// result of a judged upstream, and must not keep it.
	Shown(ctx context.Context, upstream string, r *mcp.Request, result json.RawMessage) (json.RawMessage, error)
	// Refuses reports, without asking or counting, whether Judge certainly refuses a call:
	// "resources/read" of a URI, or "tools/call" of a tool, where "" is an unknown tool. Agents get
	// no notifications about resources or tools that they may not use. ctx says who the agent is. It
	// is called by an upstream's reader and must not block.
	Refuses(ctx context.Context, upstream, method, name string) bool
}

// judged reports whether a Judge applies to the upstream. With an Auditor each message is judged:
// the log must have the bytes that the upstream reads.
func (p *passthrough) judged() bool {
	return p.judge != nil && (audits(p.audit) || p.judge.Judges(p.name))
}

// admit lets the Judge decide about a message to the upstream, and returns the judged message.
func (p *passthrough) admit(ctx context.Context, r *mcp.Request) (*mcp.Request, error) {
	if !p.judged() {
		return r, nil
	}
	if r.IsNotification() && !strings.HasPrefix(r.Method, "notifications/") {
		return nil, needsID(r.Method)
	}
	tool := ""
	if isTaskMethod(r.Method) {
		tool = p.tasks.tool(ctx, r.Session.Principal(), taskID(r.Params))
	}
	params, err := p.judge.Judge(ctx, p.name, r, tool)
	if err != nil {
		return nil, err
	}
	q := *r
	q.Params = params
	return &q, nil
}

// needsID returns the error for a request without an id. A server may do its work, and no answer says
// so.
func needsID(method string) error {
	return mcp.Errorf(mcp.KindInvalidRequest, "%s is a request: without an id nobody can be told what became of it", clip(method))
}

// shown removes from a result the entries that the Judge hides from the caller, or refuses it.
func (p *passthrough) shown(ctx context.Context, r *mcp.Request, result json.RawMessage) (json.RawMessage, error) {
	if !p.judged() {
		return result, nil
	}
	return p.judge.Shown(ctx, p.name, r, result)
}

// tellsOf reports whether an agent may get an update. It must not name a resource that the agent
// may not read, such as one below a subscribed resource.
func (p *passthrough) tellsOf(ctx context.Context, params json.RawMessage) bool {
	return !p.judged() || !p.judge.Refuses(ctx, p.name, "resources/read", rawjson.Text(rawjson.Get(params, "uri")))
}
