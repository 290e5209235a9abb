package dispatch

import (
	syncbody "github.com/weir-mcp/weir/s2sp/dispatch"

	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/gateway/result"
	"github.com/weir-mcp/weir/internal/rawjson"
	"github.com/weir-mcp/weir/mcp"
)

// Call is one call of an agent on its way through the gateway: of a meta-tool, or of a method of MCP
// that does the same. Links fill in what the next ones need, and what became of it.
type Call struct {
	// Request is the agent's request.
	Request *mcp.Request
	// Verb is the meta-tool that was called, or the one that does the same.
	Verb string
	// Arguments are those of the meta-tool, slices of the request's params; nil where there are none.
	Arguments json.RawMessage
	// Format is how the answer is written.
	Format result.Format
	// Session has what is kept for the agent between its calls.
	Session Session
	Start   time.Time

	// Entry is the tool, resource or prompt; nil until it is found.
	Entry *catalog.Entry
	// Args are the raw arguments, a JSON value; a link may replace them by
	// others.
	Args json.RawMessage
	// Provenance ends up in the result's envelope.
	Provenance result.Provenance
	// DryRun asks for a report instead of a result: what stands behind the
	// DryRun link is not run.
	DryRun bool
	// Attempts counts how often the upstream was asked.
	Attempts int

	// Asked says that the upstream has asked the agent something, so that the
	// result depends on more than the arguments.
	Asked bool

	Pass    pass             // that the controls have given
	Params  json.RawMessage  // those of Request as they were judged; nil: Request's own
	URI     string           // of a resource that is read
	OnAsk   func()           // called when the upstream asks the agent something; may be nil
	Method  string           // at the upstream; "" is tools/call
	Refs    References       // nil: the arguments hold no $table reference
	Key     json.RawMessage  // what the cache takes for Args, nil: Args
	Catalog *catalog.Catalog // the one that Entry was found in
	policy  string           // status of the policy, "" where there is none
	Report  json.RawMessage  // of a dry run: the answer, which is no tool result

	Domains, Mode json.RawMessage // abstract_domains and mode of tool_execute; nil where absent
	Answer        json.RawMessage // the upstream's result, or the cache's; nil where neither was asked

	IsError bool          // the upstream itself answered an error
	Passed  int           // tokens of Answer where it passed whole and they are known, else -1
	Failure *result.Error // the error that the agent got as a result, nil if there was none
}

// Session has what is kept of one session. It is safe for concurrent use.
type Session interface {
	// Ledger counts the calls of the session.
	Ledger() *Ledger
	// Bodies keeps the bodies of sync results until the session's next call.
	Bodies() *syncbody.Dispatcher
}

// References are the $table references that a call's arguments hold. While they are checked, a few
// rows stand in Args in place of each.
type References interface {
	// Arguments returns the arguments with the references in them.
	Arguments() json.RawMessage
	// SetArguments replaces them.
	SetArguments(json.RawMessage)
	// Excuses reports whether all that is wrong with Args are rows that could not be looked at.
	Excuses(err error) bool
}

// Dispatcher takes a call to its raw result. It is called concurrently. The
// error is an *Error, or the context's own where the agent went away.
type Dispatcher interface {
	Dispatch(ctx context.Context, c *Call) (json.RawMessage, error)
}

// DispatcherFunc is a function as a Dispatcher.
type DispatcherFunc func(ctx context.Context, c *Call) (json.RawMessage, error)

// Dispatch calls f.
func (f DispatcherFunc) Dispatch(ctx context.Context, c *Call) (json.RawMessage, error) {
	return f(ctx, c)
}

// Link is a link of the dispatch chain. It answers, or changes the call
// and hands it on.
type Link func(Dispatcher) Dispatcher

// Chain wraps d so that the first link is the outermost.
func Chain(d Dispatcher, links ...Link) Dispatcher {
	for i := len(links) - 1; i >= 0; i-- {
		d = links[i](d)
	}
	return d
}

// metaKey is the member of params that is not the tool's.
var metaKey = []byte("_meta")

// UpstreamParams are the agent's params with the upstream's own name and the
// arguments put in, or the URI of a resource. Everything else stays: the progress token, the
// answers of a round of input and what later versions add.
func UpstreamParams(c *Call) (json.RawMessage, error) {
	// The agent's params hold the arguments already: room for both would double
	// what a large call costs. Other arguments, put in by a link, may make it grow.
	params := c.Request.Params
	if c.Params != nil {
		params = c.Params
	}
	room := max(len(params), len(c.Args)) + len(c.Entry.RawName) + 64
	out := make([]byte, 0, room)
	if c.Method == MethodRead {
		out = append(append(out, `{"uri":`...), c.Args...)
	} else {
		out = append(out, `{"name":`...)
		out = rawjson.AppendString(out, c.Entry.RawName)
		out = append(out, `,"arguments":`...)
		out = append(out, c.Args...)
	}
	var failed error
	add := func(m rawjson.Member) bool {
		value := m.Value
		// Servers that do not mind case would take a "Name" for the name.
		switch key := string(m.Key); {
		case strings.EqualFold(key, "name"), strings.EqualFold(key, "arguments"), c.Method == MethodRead && strings.EqualFold(key, "uri"):
			return true
		case key == "_meta":
			if !rawjson.IsObject(value) {
				break
			}
			if value, failed = rawjson.Delete(value, result.MetaFormat); failed != nil || string(value) == "{}" {
				return failed == nil
			}
		}
		out = append(out, ',')
		out = rawjson.AppendString(out, string(m.Key))
		out = append(append(out, ':'), value...)
		return true
	}
	var err error
	if f := c.Request.Fields(); c.Params != nil || !f.Plain() {
		err = rawjson.EachMember(params, add)
	} else if f.RawMeta != nil {
		add(rawjson.Member{Key: metaKey, Value: f.RawMeta})
	}
	if err := errors.Join(err, failed); err != nil {
		return nil, mcp.Errorf(mcp.KindInvalidParams, "tools/call: %v", err)
	}
	return append(out, '}'), nil
}

// Methods of upstreams other than tools/call.
const (
	MethodRead = "resources/read"
	MethodGet  = "prompts/get"
)

// The meta-tools that reach an upstream. Policies and quotas name them.
const (
	VerbExecute = "tool_execute"
	VerbRead    = "resource_read"
	VerbGet     = "prompt_get"
)
