package dispatch

import (
	syncbody "github.com/weir-mcp/weir/s2sp/dispatch"

	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/audit/calls"
	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/flow"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/observe/telemetry"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/s2sp/plane"
)

// Call is one call of an agent: of a meta-tool, or of a corresponding MCP method. Steps add the
// data that later steps need, and the outcome.
type Call struct {
	// Request is the agent's request.
	Request *mcp.Request
	// Verb is the called meta-tool, or the corresponding one.
	Verb string
	// Arguments are the meta-tool's arguments, slices of the request's params; nil if absent.
	Arguments json.RawMessage
	// Format is the format of the answer.
	Format result.Format
	// Session holds the agent's data between its calls.
	Session Session
	Start   time.Time
	// Run is the run whose program makes the call; nil: an agent makes it.
	Run *Run
	// Starts is the run that the call starts, which has no ID before it is admitted; nil: it starts none.
	Starts *Run

	// Entry is the tool, resource or prompt; nil until it is found.
	Entry *catalog.Entry
	// Args are the raw arguments, a JSON value. A step may replace them.
	Args json.RawMessage
	Labels
	// Provenance becomes part of the result's envelope.
	Provenance result.Provenance
	// DryRun requests a report instead of a result: the steps after DryRun are not run.
	DryRun bool
	// Attempts counts the requests to the upstream.
	Attempts int

	// Asked means that the upstream has sent a request to the agent, so the result depends on more
	// than the arguments.
	Asked bool
	// Ran means that the tool has run, whatever became of its answer. It is not set for reads, and
	// for a task not before the task has a result.
	Ran bool
	// Sent means that a request was handed to the connection of the server.
	Sent bool

	Pass    pass             // from the controls
	Params  json.RawMessage  // the params of Request as judged; nil: unchanged
	URI     string           // of a resource that is read
	OnAsk   func()           // called when the upstream sends a request to the agent; may be nil
	Method  string           // at the upstream; "" is tools/call
	Refs    References       // nil: the arguments hold no $table reference
	Key     json.RawMessage  // replaces Args in the key of the cache; nil: Args
	Catalog *catalog.Catalog // contains Entry
	decided decision         // of the policy, for the audit log

	Split  Split           // of the result
	Answer json.RawMessage // the result of the upstream or the cache; nil if neither was asked
	// Reply is the answer as far as it is made: the Sender's, after the steps that have changed it. With
	// DryRun it is the report, and no tool result.
	Reply json.RawMessage

	MayBe   TaskForm // how the server may answer with a task
	Task    string   // handle of the task that the call became; its result comes later
	Resumed bool     // it brings the result of an earlier call, for the first time

	Audited *calls.Open // what the audit log was told of the call; nil: nothing yet

	IsError bool          // the upstream itself answered an error
	Passed  int           // tokens of Answer if it passed whole and they are known, otherwise -1
	Failure *result.Error // the error that the agent got as a result, nil if there was none

	flight  *flight       // that equal calls wait for; nil: none
	Refusal func() string // returns why the call's rows were refused to its server; nil: nothing waits for it

	Steps  telemetry.Steps // the time since Start by steps
	passed time.Duration   // the sum of Steps
}

// A TaskForm says how the server of a call may answer with a task.
type TaskForm uint8

// The forms of tasks.
const (
	NoTask    TaskForm = iota
	MCPTask            // the server knows that this side understands tasks
	AgentTask          // that, and it is an agent server: an ordinary result may name a task
)

// Lap adds the time since the last Lap, or since Start, to a step. Calls without Start are not measured.
func (c *Call) Lap(s telemetry.Step) {
	if c.Start.IsZero() {
		return
	}
	now := time.Since(c.Start)
	c.Steps[s] += now - c.passed
	c.passed = now
}

// Split says which columns of a result the agent reads, and who keeps the others. Without Domains, the
// call is an ordinary one.
type Split struct {
	Asked, AskedMode json.RawMessage // abstract_domains and mode of tool_execute; nil if absent

	Domains []string
	Mode    plane.Mode
	Native  bool // the tool splits its result itself
	Keep    bool // it was called in mode sync instead of async: the gateway stores the rows
}

// decision is the policy's decision for a call that was admitted.
type decision struct {
	made     bool // there is a policy
	approved bool // a person agreed
	by       verdict
}

// Decision returns what the policy decided about an admitted call, and the rule that did; "" without
// a policy.
func (c *Call) Decision() (decided, rule string) {
	switch {
	case !c.decided.made:
		return "", ""
	case c.decided.approved:
		return "approved", c.decided.by.decidedBy()
	}
	return string(c.decided.by.action), c.decided.by.decidedBy()
}

// Session holds the data of one session. It is safe for concurrent use.
type Session interface {
	// Ledger counts the calls of the session.
	Ledger() *Ledger
	// Flow has the label of what the session's model has read.
	Flow() *flow.Session
	// Bodies keeps the bodies of sync results until the session's next call.
	Bodies() *syncbody.Dispatcher
	// FillBody returns the arguments of a call with the body in place of its handle, wherever the body is.
	FillBody(ctx context.Context, args json.RawMessage) (json.RawMessage, error)
}

// References are the $table references in a call's arguments. During the checks, a few rows replace
// each of them in Args.
type References interface {
	// Arguments returns the arguments with the references in them.
	Arguments() json.RawMessage
	// SetArguments replaces them.
	SetArguments(json.RawMessage)
	// Excuses reports whether err concerns only rows that could not be read yet.
	Excuses(err error) bool
}

// metaKey is the member of params that does not belong to the tool.
var metaKey = []byte("_meta")

// sentParams are the agent's params, as far as controls have not replaced them.
func (c *Call) sentParams() json.RawMessage {
	if c.Params != nil {
		return c.Params
	}
	return c.Request.Params
}

// ParamsRoom returns the number of bytes that UpstreamParams allocates.
func ParamsRoom(c *Call) int64 {
	// The agent's params contain the arguments already; room for both would double the memory of a
	// large call. Larger arguments are not of the params: a step has replaced them.
	params := c.sentParams()
	room := max(len(params), len(c.Args)) + len(c.Entry.ServerName()) + 64
	if len(c.Args) > len(params) {
		room += len(params)
	}
	return int64(room)
}

// UpstreamParams returns the agent's params with the upstream's name and the final arguments, or
// with the URI of a resource. All other members stay: the progress token, answers of an input
// round, and additions of later versions.
func UpstreamParams(c *Call) (json.RawMessage, error) {
	params := c.sentParams()
	out := make([]byte, 0, ParamsRoom(c))
	if c.Method == MethodRead {
		out = append(append(out, `{"uri":`...), c.Args...)
	} else {
		out = append(out, `{"name":`...)
		out = rawjson.AppendString(out, c.Entry.ServerName())
		out = append(out, `,"arguments":`...)
		out = append(out, c.Args...)
	}
	var failed error
	add := func(m rawjson.Member) bool {
		value := m.Value
		// Servers that ignore case would read "Name" as the name.
		switch key := string(m.Key); {
		case strings.EqualFold(key, "name"), strings.EqualFold(key, "arguments"), c.Method == MethodRead && strings.EqualFold(key, "uri"):
			return true
		case c.Method == "" && strings.EqualFold(key, "task"):
			return true // the gateway decides what runs as a task, and reads the result
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

// Meta-tools that reach an upstream. Policies and quotas name them.
const (
	VerbExecute = "tool_execute"
	VerbRead    = "resource_read"
	VerbGet     = "prompt_get"
)
