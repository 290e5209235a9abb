package router

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/weir-mcp/weir/internal/rawjson"
	"github.com/weir-mcp/weir/mcp"
)

// Judge decides about what reaches an upstream: requests and notifications of any
// method, in both eras, alone or in a batch. Where it has a say, no message is
// forwarded as it comes: a batch may hold one that must not pass, a server may read
// another message than was judged, and a person at the agent's client can be asked
// only in a session that is kept here. The handshake, ping and the like, which are
// answered here, are not judged.
type Judge interface {
	// Judges reports whether there is anything to decide about an upstream's
	// calls. It is called for each request, concurrently, and must be fast.
	Judges(upstream string) bool
	// Judge returns the params to send in place of r's, which mean the same to all
	// who read them, or the error that the agent gets instead of a result, best an
	// *mcp.Error. It may ask the agent through r.Peer, and wait for the
	// answer. mcp.Caller(ctx) is the session on whose behalf the call is made.
	// taskTool is the tool that has made the task which r is about, by the name
	// that the agent called it by; "" where that is not known.
	Judge(ctx context.Context, upstream string, r *mcp.Request, taskTool string) (json.RawMessage, error)
	// Refuses reports, without asking or counting, whether Judge refuses a call for
	// certain: "resources/read" of a URI, or "tools/call" of a tool, "" being one
	// that is not known. What an agent may not read or run, it is not told of. It
	// is called by an upstream's reader and must not block.
	Refuses(upstream, method, name string) bool
}

// judged reports whether a Judge has a say about the upstream.
func (p *passthrough) judged() bool { return p.judge != nil && p.judge.Judges(p.name) }

// admit has the Judge decide about a message that is about to reach the upstream,
// and returns it as it was judged.
func (p *passthrough) admit(ctx context.Context, r *mcp.Request) (*mcp.Request, error) {
	if !p.judged() {
		return r, nil
	}
	if r.IsNotification() && !strings.HasPrefix(r.Method, "notifications/") {
		return nil, mcp.Errorf(mcp.KindInvalidRequest, "%s is a request: without an id nobody can be told what became of it", clip(r.Method))
	}
	tool := ""
	if isTaskMethod(r.Method) {
		tool = p.tasks.tool(r.Session.Principal(), taskID(r.Params))
	}
	params, err := p.judge.Judge(ctx, p.name, r, tool)
	if err != nil {
		return nil, err
	}
	q := *r
	q.Params = params
	return &q, nil
}

// tellsOf reports whether an agent may be told of an update: what it must not read,
// such as a resource below one that it has subscribed to, is not mentioned.
func (p *passthrough) tellsOf(params json.RawMessage) bool {
	return !p.judged() || !p.judge.Refuses(p.name, "resources/read", rawjson.Text(rawjson.Get(params, "uri")))
}
