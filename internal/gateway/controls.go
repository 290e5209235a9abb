package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/gateway/result"
	"github.com/weir-mcp/weir/internal/rawjson"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/s2sp/dispatch"
)

// Controls are what an operator has set about calls. They are applied here, once,
// for all methods and all URLs that an agent uses:
//
//	tools/call, resource_read, prompts/get,      ┌─ admit ───────────────────────────────┐
//	resources/subscribe, completion/complete, ──▶│ one reading ▶ pin ▶ policy ▶ quota    │──▶ pass ──▶ upstream
//	tasks/*, methods that weir does not know     │                      └▶ asks a person │
//	                                             └───────────────────────────────────────┘
//
// What leads to an upstream asks for a pass, and only admit makes one.
type controls struct {
	pin      Pin
	policy   *Policy
	limits   RateLimits
	redactor *result.Redactor
	started  time.Time // quotas count from here
}

func newControls(o *Options, started time.Time) *controls {
	return &controls{pin: o.Pin, policy: o.Policy, limits: o.RateLimits, redactor: o.Redactor, started: started}
}

// none reports whether nothing is set, so that everything passes as it is.
func (c *controls) none() bool { return c.policy == nil && c.limits.empty() && !c.pin.Strict }

// pass says that an act was admitted.
type pass struct{ granted bool }

// check is the error for what was sent on its way without being admitted.
func (p pass) check(method string) error {
	if p.granted {
		return nil
	}
	return mcp.Errorf(mcp.KindInternal, "%s was not admitted", method)
}

// act is what an agent asks for. Several subjects are those that it may be about:
// the strictest verdict on one of them counts.
type act struct {
	request *mcp.Request // whose Peer is asked where a person decides
	verb    string       // the meta-tool that does the same
	what    string       // for people; "" is the verb and what it is about
	about   []subject    // none: about no entry
	catalog *catalog.Catalog
	// args are what a server gets to work with, a JSON value, and nil where there
	// are none. admit puts them into weir's own encoding.
	args json.RawMessage
	// argsKey is the member of the request's params that holds args, where they are
	// not set before.
	argsKey string
	// params are set by admit: those of the request in weir's own encoding.
	params json.RawMessage
	// filled says that references in args stand for more, which is put in later.
	filled bool
	direct bool // it did not come through the gateway's own methods; see Judge

	ledger *ledger
	count  string // the meta-tool that it counts as; "" is none
	// free says that it is part of an act that was admitted, and counted, before.
	free   bool
	dryRun bool

	status string // set by admit: what the policy says, "" where there is none
}

// admit decides about an act: a pass; or an *Error, which is PermissionDenied or
// RateLimited; or an *mcp.Error for a message that two readers could read
// differently; or the context's error. It may ask a person and wait for the
// answer. A dry run asks no person and counts nothing; its status says what would
// have happened.
func (c *controls) admit(ctx context.Context, a *act) (pass, error) {
	if c.none() {
		return pass{true}, nil
	}
	if actsOnUpstream(a.verb) {
		if err := a.rewrite(); err != nil {
			return pass{}, err
		}
		if err := c.pin.check(a.catalog); err != nil {
			return pass{}, err
		}
		if err := c.pin.checkSeen(a.about); err != nil {
			return pass{}, err
		}
	}
	s, v := c.policy.strictest(a.verb, a.about)
	if c.policy != nil {
		a.status = "pass"
	}
	switch {
	case v.action == Allow, v.action == RequireApproval && a.free:
	case v.action == RequireApproval && a.dryRun:
		a.status = "approval_required"
	case v.action == RequireApproval:
		if err := c.approve(ctx, a, s, v); err != nil {
			return pass{}, err
		}
	default:
		return pass{}, v.refusal(a, s, "the policy of this gateway refuses it")
	}
	if a.free {
		return pass{true}, nil
	}
	if b := a.ledger.take(time.Since(c.started), !a.dryRun, c.limits.scopes(a.count, a.about)); b != nil {
		return pass{}, b.error()
	}
	return pass{true}, nil
}

// refuses reports whether an act is refused for certain, without asking anybody.
func (c *controls) refuses(verb string, about []subject) bool {
	_, v := c.policy.strictest(verb, about)
	return v.action != Allow && v.action != RequireApproval
}

// paramNames are the members of params that servers look for. One in another case
// is refused: a server that ignores case would read it.
var paramNames = []string{
	"name", "arguments", "uri", "ref", "argument", "context", "_meta", "task", "taskId", "cursor", "level", "notifications", "requestId", "inputResponses", "requestState",
}

// refNames are those of completion/complete's ref.
var refNames = []string{"type", "name", "uri"}

// rewrite puts the message into weir's own encoding and refuses what two readers
// could read differently: what is judged is what runs.
func (a *act) rewrite() error {
	r := a.request
	refused := func(what string, err error) error {
		return mcp.Errorf(mcp.KindInvalidParams, "%s: %s: %v; a message that is judged has to mean the same to all who read it", clipMethod(r.Method), what, err)
	}
	if len(r.Params) > 0 {
		err := rawjson.CheckCase(r.Params, paramNames...)
		if ref := rawjson.Get(r.Params, "ref"); err == nil && rawjson.IsObject(ref) {
			err = rawjson.CheckCase(ref, refNames...)
		}
		if err == nil {
			a.params, err = rawjson.AppendRewritten(make([]byte, 0, len(r.Params)), r.Params)
		}
		if err != nil {
			return refused("params", err)
		}
	}
	if a.argsKey != "" {
		a.args = rawjson.Get(a.params, a.argsKey)
	} else if len(a.args) > 0 {
		args, err := rawjson.AppendRewritten(make([]byte, 0, len(a.args)), a.args)
		if err != nil {
			return refused("arguments", err)
		}
		a.args = args
	}
	return nil
}

// clipMethod is a method as a message shows it.
func clipMethod(method string) string { return text.Line(method, 80) }

// name is what an act is called where people read of it.
func (a *act) name(s subject) string {
	switch {
	case a.direct:
		return fmt.Sprintf("%s at server %q", a.what, s.entry.Upstream)
	case a.what != "":
		return a.what
	case s.entry == nil:
		return a.verb
	}
	return a.verb + " of " + s.entry.ID
}

// refusal is the error for an act.
func (v verdict) refusal(a *act, s subject, why string) *result.Error {
	if v.rule == oddName {
		why = v.reason
		v.reason = ""
	}
	message := a.name(s) + ": " + why
	if a.direct && v.rule != oddName {
		message += ", by " + v.decidedBy()
	}
	details := append(rawjson.AppendString([]byte(`{"meta_tool":`), a.verb), `,"action":`...)
	details = rawjson.AppendString(details, string(v.action))
	details = rawjson.AppendString(append(details, `,"rule":`...), v.decidedBy())
	if s.entry != nil {
		details = rawjson.AppendString(append(details, `,"tool_id":`...), s.entry.ID)
	}
	if v.reason != "" {
		message += " (" + v.reason + ")"
		details = rawjson.AppendString(append(details, `,"reason":`...), text.Line(v.reason, text.MaxMessageChars))
	}
	return &result.Error{Code: result.PermissionDenied, Message: message, Details: append(details, '}')}
}

// admission is the link of the dispatch chains that asks for the pass.
func admission(ctl *controls, snapshot func() *Snapshot) Middleware {
	return func(next Dispatcher) Dispatcher {
		return DispatcherFunc(func(ctx context.Context, c *Call) (json.RawMessage, error) {
			if err := ctl.admitCall(ctx, c, snapshot); err != nil {
				return nil, err
			}
			return next.Dispatch(ctx, c)
		})
	}
}

// admitCall admits a call of the gateway's own methods and notes in it what runs.
func (c *controls) admitCall(ctx context.Context, call *Call, snapshot func() *Snapshot) (err error) {
	if c.none() {
		call.pass = pass{true}
		return nil
	}
	verb := verbOf(call.Entry.Kind)
	a := act{request: call.Request, verb: verb, count: verb, catalog: call.catalog, args: call.Args, ledger: &call.state.ledger, dryRun: call.DryRun}
	if call.method != "" && call.method != methodRead && call.method != methodGet {
		a.what = call.method + " of " + call.Entry.ID
	}
	if call.tables != nil { // the references, not the few rows that were put in to validate them
		a.args = call.tables.original
	}
	a.filled = call.tables != nil || verb == ToolExecute && bytes.Contains(a.args, []byte(dispatch.Scheme))
	s := snapshot()
	if a.catalog == nil {
		a.catalog = s.Catalog
	}
	a.about = s.about(call.Entry, call.uri)
	if call.pass, err = c.admit(ctx, &a); err != nil {
		return err
	}
	if call.tables != nil {
		call.tables.original = a.args
	} else {
		call.Args = a.args
	}
	call.params, call.policy = a.params, a.status
	return nil
}

// verbOf is the meta-tool that runs or reads entries of a kind.
func verbOf(kind catalog.Kind) string {
	switch kind {
	case catalog.KindTool:
		return ToolExecute
	case catalog.KindPrompt:
		return PromptGet
	}
	return ResourceRead
}
