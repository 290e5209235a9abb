package dispatch

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/gateway/result"
	"github.com/weir-mcp/weir/internal/rawjson"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/mcp"
	syncbody "github.com/weir-mcp/weir/s2sp/dispatch"
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
type Controls struct {
	Pin      Pin
	Policy   *Policy
	limits   RateLimits
	redactor *result.Redactor
	started  time.Time // quotas count from here
}

func NewControls(pin Pin, policy *Policy, limits RateLimits, redactor *result.Redactor, started time.Time) *Controls {
	return &Controls{Pin: pin, Policy: policy, limits: limits, redactor: redactor, started: started}
}

// None reports whether nothing is set, so that everything passes as it is.
func (c *Controls) None() bool { return c.Policy == nil && c.limits.empty() && !c.Pin.Strict }

// OfUpstreams reports whether anything is set about calls that run or read something at a server.
func (c *Controls) OfUpstreams() bool {
	return c.Pin.Strict || len(c.limits.Tools) > 0 || c.Policy != nil
}

// Concern reports whether anything is set that could refuse a call that runs or reads something in
// a namespace.
func (c *Controls) Concern(namespace string) bool {
	if c.Pin.Strict {
		return true
	}
	for id := range c.limits.Tools {
		if _, body, ok := strings.Cut(id, "::"); ok {
			id = body // of a resource or a prompt
		}
		if strings.HasPrefix(id, namespace+":") {
			return true
		}
	}
	return c.Policy.concerns(namespace)
}

// concerns reports whether a policy could refuse a call that runs or reads something in a
// namespace.
func (p *Policy) concerns(namespace string) bool {
	if p == nil {
		return false
	}
	for i := range p.Rules {
		r := &p.Rules[i]
		if r.Action != Allow && (r.Namespace == "" || r.Namespace == namespace) && (r.MetaTool == "" || ActsOnUpstream(r.MetaTool)) {
			return true
		}
	}
	return p.Default != "" && p.Default != Allow
}

// pass says that an act was admitted.
type pass struct{ granted bool }

// Check is the error for what was sent on its way without being admitted.
func (p pass) Check(method string) error {
	if p.granted {
		return nil
	}
	return mcp.Errorf(mcp.KindInternal, "%s was not admitted", method)
}

// Act is what an agent asks for. Several subjects are those that it may be about:
// the strictest verdict on one of them counts.
type Act struct {
	Request *mcp.Request // whose Peer is asked where a person decides
	Verb    string       // the meta-tool that does the same
	What    string       // for people; "" is the verb and what it is about
	About   []Subject    // none: about no entry
	Catalog *catalog.Catalog
	// args are what a server gets to work with, a JSON value, and nil where there
	// are none. admit puts them into weir's own encoding.
	args json.RawMessage
	// ArgsKey is the member of the request's params that holds args, where they are
	// not set before.
	ArgsKey string
	// Params are set by admit: those of the request in weir's own encoding.
	Params json.RawMessage
	// filled says that references in args stand for more, which is put in later.
	filled bool
	Direct bool // it did not come through the gateway's own methods; see Judge

	Ledger *Ledger
	Count  string // the meta-tool that it counts as; "" is none
	// Free says that it is part of an act that was admitted, and counted, before.
	Free   bool
	dryRun bool

	status string // set by admit: what the policy says, "" where there is none
}

// Admit decides about an act: a pass; or an *Error, which is PermissionDenied or
// RateLimited; or an *mcp.Error for a message that two readers could read
// differently; or the context's error. It may ask a person and wait for the
// answer. A dry run asks no person and counts nothing; its status says what would
// have happened.
func (c *Controls) Admit(ctx context.Context, a *Act) (pass, error) {
	if c.None() {
		return pass{true}, nil
	}
	if ActsOnUpstream(a.Verb) {
		if err := a.Rewrite(); err != nil {
			return pass{}, err
		}
		if err := c.Pin.Check(a.Catalog); err != nil {
			return pass{}, err
		}
		if err := c.Pin.CheckSeen(a.About); err != nil {
			return pass{}, err
		}
	}
	s, v := c.Policy.Strictest(a.Verb, a.About)
	if c.Policy != nil {
		a.status = "pass"
	}
	switch {
	case v.action == Allow, v.action == RequireApproval && a.Free:
	case v.action == RequireApproval && a.dryRun:
		a.status = "approval_required"
	case v.action == RequireApproval:
		if err := c.approve(ctx, a, s, v); err != nil {
			return pass{}, err
		}
	default:
		return pass{}, v.refusal(a, s, "the policy of this gateway refuses it")
	}
	if a.Free {
		return pass{true}, nil
	}
	if b := a.Ledger.take(time.Since(c.started), !a.dryRun, c.limits.scopes(a.Count, a.About)); b != nil {
		return pass{}, b.error()
	}
	return pass{true}, nil
}

// Refuses reports whether an act is refused for certain, without asking a person.
func (c *Controls) Refuses(verb string, about []Subject) bool {
	_, v := c.Policy.Strictest(verb, about)
	return v.action != Allow && v.action != RequireApproval
}

// paramNames are the members of params that servers look for. One in another case
// is refused: a server that ignores case would read it.
var paramNames = []string{
	"name", "arguments", "uri", "ref", "argument", "context", "_meta", "task", "taskId", "cursor", "level", "notifications", "requestId", "inputResponses", "requestState",
}

// refNames are those of completion/complete's ref.
var refNames = []string{"type", "name", "uri"}

// Rewrite puts the message into weir's own encoding and refuses what two readers
// could read differently: what is judged is what runs.
func (a *Act) Rewrite() error {
	r := a.Request
	refused := func(what string, err error) error {
		return mcp.Errorf(mcp.KindInvalidParams, "%s: %s: %v; a message that is judged has to mean the same to all who read it", clipMethod(r.Method), what, err)
	}
	if len(r.Params) > 0 {
		err := rawjson.CheckCase(r.Params, paramNames...)
		if ref := rawjson.Get(r.Params, "ref"); err == nil && rawjson.IsObject(ref) {
			err = rawjson.CheckCase(ref, refNames...)
		}
		if err == nil {
			a.Params, err = rawjson.AppendRewritten(make([]byte, 0, len(r.Params)), r.Params)
		}
		if err != nil {
			return refused("params", err)
		}
	}
	if a.ArgsKey != "" {
		a.args = rawjson.Get(a.Params, a.ArgsKey)
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
func (a *Act) name(s Subject) string {
	switch {
	case a.Direct:
		return fmt.Sprintf("%s at server %q", a.What, s.Entry.Upstream)
	case a.What != "":
		return a.What
	case s.Entry == nil:
		return a.Verb
	}
	return a.Verb + " of " + s.Entry.ID
}

// refusal is the error for an act.
func (v verdict) refusal(a *Act, s Subject, why string) *result.Error {
	if v.rule == oddName {
		why = v.reason
		v.reason = ""
	}
	message := a.name(s) + ": " + why
	if a.Direct && v.rule != oddName {
		message += ", by " + v.decidedBy()
	}
	details := append(rawjson.AppendString([]byte(`{"meta_tool":`), a.Verb), `,"action":`...)
	details = rawjson.AppendString(details, string(v.action))
	details = rawjson.AppendString(append(details, `,"rule":`...), v.decidedBy())
	if s.Entry != nil {
		details = rawjson.AppendString(append(details, `,"tool_id":`...), s.Entry.ID)
	}
	if v.reason != "" {
		message += " (" + v.reason + ")"
		details = rawjson.AppendString(append(details, `,"reason":`...), text.Line(v.reason, text.MaxMessageChars))
	}
	return &result.Error{Code: result.PermissionDenied, Message: message, Details: append(details, '}')}
}

// SubjectsOf returns the newest catalog, and what a call of an entry may be about there.
type SubjectsOf func(e *catalog.Entry, uri string) (*catalog.Catalog, []Subject)

// Admission is the link of the dispatch chains that asks for the pass.
func Admission(ctl *Controls, from SubjectsOf) Link {
	return func(next Dispatcher) Dispatcher {
		return DispatcherFunc(func(ctx context.Context, c *Call) (json.RawMessage, error) {
			if err := ctl.AdmitCall(ctx, c, from); err != nil {
				return nil, err
			}
			return next.Dispatch(ctx, c)
		})
	}
}

// AdmitCall admits a call of the gateway's own methods and notes in it what runs.
func (c *Controls) AdmitCall(ctx context.Context, call *Call, from SubjectsOf) (err error) {
	if c.None() {
		call.Pass = pass{true}
		return nil
	}
	verb := VerbOf(call.Entry.Kind)
	a := Act{Request: call.Request, Verb: verb, Count: verb, Catalog: call.Catalog, args: call.Args, Ledger: call.Session.Ledger(), dryRun: call.DryRun}
	if call.Method != "" && call.Method != MethodRead && call.Method != MethodGet {
		a.What = call.Method + " of " + call.Entry.ID
	}
	if call.Refs != nil { // the references, not the few rows that were put in to validate them
		a.args = call.Refs.Arguments()
	}
	a.filled = call.Refs != nil || verb == VerbExecute && bytes.Contains(a.args, []byte(syncbody.Scheme))
	now, about := from(call.Entry, call.URI)
	if a.Catalog == nil {
		a.Catalog = now
	}
	a.About = about
	if call.Pass, err = c.Admit(ctx, &a); err != nil {
		return err
	}
	if call.Refs != nil {
		call.Refs.SetArguments(a.args)
	} else {
		call.Args = a.args
	}
	call.Params, call.policy = a.Params, a.status
	return nil
}

// VerbOf is the meta-tool that runs or reads entries of a kind.
func VerbOf(kind catalog.Kind) string {
	switch kind {
	case catalog.KindTool:
		return VerbExecute
	case catalog.KindPrompt:
		return VerbGet
	}
	return VerbRead
}
