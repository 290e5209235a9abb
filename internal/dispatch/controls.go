package dispatch

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/access/authz"
	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/flow"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/observe/telemetry"
	"github.com/weir-mcp/weir/internal/policy/hook"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/internal/text/redact"
	"github.com/weir-mcp/weir/mcp"
	syncbody "github.com/weir-mcp/weir/s2sp/dispatch"
	"github.com/weir-mcp/weir/s2sp/plane"
)

// Controls are the operator's rules for calls. They apply here, once, to all methods and all URLs:
//
//	tools/call, resource_read, prompts/get,      ┌─ admit ─────────────────────────────────────────────────┐
//	resources/subscribe, completion/complete, ──▶│ one reading ▶ pin ▶ secrets ▶ policy ▶ quota ▶ hooks    │──▶ pass ──▶ upstream
//	tasks/*, methods that weir does not know     │                                └▶ asks a person         │
//	                                             └─────────────────────────────────────────────────────────┘
//
// A call that has waited is judged once more before it runs; see Present.
//
// Each path to an upstream requires a pass, and only admit creates one.
type Controls struct {
	Pin    Pin
	Policy *Policy
	// Leaks finds the secrets that may not be in what a server gets; nil lets all pass.
	Leaks *redact.Finder
	// Hooks are asked about what a server gets, and what an agent gets of it; nil asks none.
	Hooks *hook.Set
	// Flow asks about sinks by what the model has read, or refuses them; nil has no labels.
	Flow   *flow.Flow
	limits RateLimits

	operators Operators
	present   Present

	redactor *result.Redactor
	started  time.Time // quotas count from here
	log      *slog.Logger

	conditional, observes bool // of the policy
}

// NewControls returns controls. The logger, which may be nil, receives what observed rules would have
// decided.
func NewControls(pin Pin, policy *Policy, limits RateLimits, redactor *result.Redactor, started time.Time, log *slog.Logger) *Controls {
	return &Controls{Pin: pin, Policy: policy, limits: limits, redactor: redactor, started: started, log: orDiscard(log), conditional: policy.conditional(), observes: policy.observes()}
}

// None reports whether there are no rules, so that every call passes unchanged.
func (c *Controls) None() bool {
	return c.Policy == nil && c.limits.empty() && !c.Pin.refuses() && c.Leaks == nil && c.Hooks == nil && !c.Flow.Decides()
}

// OfUpstreams reports whether any rule concerns calls that run or read something at a server.
func (c *Controls) OfUpstreams() bool {
	return c.Pin.refuses() || len(c.limits.Tools) > 0 || c.Policy != nil || c.Leaks != nil || c.Hooks != nil || c.Flow.Decides()
}

// Concern reports whether any rule could refuse a call that runs or reads something in a namespace.
func (c *Controls) Concern(namespace string) bool {
	if c.Pin.refuses() || c.Leaks != nil || c.Hooks != nil || c.Flow.Decides() {
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

// pass proves that an act was admitted.
type pass struct {
	granted bool
	at      time.Time                       // of the judgement
	still   func(ctx context.Context) error // judges once more; nil: the controls judge nothing
}

// Check returns the error for a call without a pass.
func (p pass) Check(method string) error {
	if p.granted {
		return nil
	}
	return mcp.Errorf(mcp.KindInternal, "%s was not admitted", method)
}

// Act is a request of an agent. If it may concern several subjects, the strictest verdict on any of
// them counts.
type Act struct {
	Request *mcp.Request // its Peer asks the person
	Verb    string       // the corresponding meta-tool
	What    string       // for people; "" means the verb and its subject
	About   []Subject    // none: no entry
	Catalog *catalog.Catalog
	// args is the JSON value that a server receives, or nil. admit rewrites it in weir's own
	// encoding.
	args json.RawMessage
	// ArgsKey is the member of the request's params with args, if args is not set.
	ArgsKey string
	// Params are the request's params in weir's own encoding, set by admit.
	Params json.RawMessage
	// filled means that references in args are replaced by rows later.
	filled bool
	Direct bool // it bypassed the gateway's own methods; see Judge

	method string // of MCP, for conditions; "" is the one of the verb
	Ledger *Ledger
	reader
	Count string // the meta-tool whose quota it uses; "" is none
	// Free marks a part of an act that was admitted and counted before.
	Free   bool
	dryRun bool
	// Run is the run whose program makes the call; nil: no program makes it.
	Run  *Run
	made runCounts // by the program before; set by Admit

	// Again finds catalog and subjects once more, after a wait; nil: they do not change. ok is false if
	// the caller does not have the entry any more.
	Again func(ctx context.Context) (c *catalog.Catalog, about []Subject, ok bool)

	decided decision // set by admit
	// Of is the entry that the verdict is about, set by Admit; nil if it is about none.
	Of *catalog.Entry
}

// Admit decides about an act. It returns a pass; or an *Error with PermissionDenied or RateLimited;
// or an *mcp.Error for a message that two readers could read differently; or the context's error.
// It may ask a person and wait for the answer, and judges once more then. A dry run asks no one and counts nothing.
func (c *Controls) Admit(ctx context.Context, a *Act) (pass, error) {
	if c.None() {
		return pass{granted: true}, nil
	}
	if ActsOnUpstream(a.Verb) {
		if err := a.Rewrite(); err != nil {
			return pass{}, err
		}
	}
	if err := c.fits(ctx, a); err != nil {
		return pass{}, err
	}
	leave, err := a.Run.enter(ctx)
	if err != nil {
		return pass{}, err
	}
	defer leave()
	a.made = a.Run.made()
	was := c.judged(a)
	in, how := c.input(ctx, a), strictly
	if a.Free {
		how = possibly // it was admitted with arguments that are not known here
	}
	s, v := c.strictest(ctx, in, how, a)
	a.Of = s.Entry
	if c.Policy != nil || v.rule == byFlow {
		a.decided = decision{made: true, by: v}
	}
	if c.observes {
		c.notice(ctx, in, a, v)
	}
	switch {
	case v.action == Allow, v.action == RequireApproval && (a.Free || a.dryRun):
	case v.action == RequireApproval:
		q, err := c.approve(ctx, a, s, v, was)
		if err != nil {
			return pass{}, err
		}
		a.decided.approved, was.approved = true, &q
		if c, err = c.still(ctx, a, was); err != nil {
			return pass{}, err
		}
	default:
		refusal := v.refusal(a, s, v.refuses())
		if err := c.stepUp(in, a, refusal.Message); err != nil {
			return pass{}, err
		}
		return pass{}, refusal
	}
	granted := pass{granted: true, at: time.Now(), still: func(ctx context.Context) error {
		again := *a // others may hold the same pass
		_, err := c.still(ctx, &again, was)
		return err
	}}
	if a.Free {
		return granted, nil
	}
	if b := a.Ledger.take(time.Since(c.started), !a.dryRun, c.limits.scopes(a.Count, a.About)); b != nil {
		return pass{}, b.error()
	}
	if c.conditional && !a.dryRun && ActsOnUpstream(a.Verb) && a.Ledger != nil {
		a.Ledger.called()
	}
	if ActsOnUpstream(a.Verb) && !a.dryRun {
		a.Run.count(s)
	}
	leave()
	if err := c.askOfCall(ctx, a, s); err != nil {
		return pass{}, err
	}
	return granted, nil
}

// fits checks an act of an upstream against the pin, and for secrets.
func (c *Controls) fits(ctx context.Context, a *Act) error {
	if !ActsOnUpstream(a.Verb) {
		return nil
	}
	if err := c.Pin.Check(a.Catalog); err != nil {
		return err
	}
	if err := c.Pin.CheckSeen(a.About); err != nil {
		return err
	}
	return c.leak(ctx, a)
}

// Refuses reports whether an act of the caller of a request is certainly refused, with any arguments
// and without asking a person.
func (c *Controls) Refuses(ctx context.Context, verb string, about []Subject) bool {
	var in *authz.Input
	if c.conditional {
		in = inputFrom(ctx)
		in.Unknown = authz.OfCall &^ authz.Now
		if verb == VerbRead {
			in.Unknown &^= authz.Args // the URI
		}
	}
	_, v := c.Policy.strictest(in, possibly, verb, about)
	return v.action != Allow && v.action != RequireApproval
}

// paramNames are the members of params that servers read. The same name in another case is refused,
// because a server that ignores case would read it.
var paramNames = []string{
	"name", "arguments", "uri", "ref", "argument", "context", "_meta", "task", "taskId", "cursor", "level", "notifications", "requestId", "inputResponses", "requestState",
}

// refNames are the members of completion/complete's ref.
var refNames = []string{"type", "name", "uri"}

// Rewrite converts the message into weir's own encoding. It refuses a message that two readers
// could read differently, so that the server runs exactly what was judged.
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

// clipMethod returns a method name as messages show it.
func clipMethod(method string) string { return text.Line(method, 80) }

// name returns the act's name for people.
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

// refusal returns the error for a refused act.
func (v verdict) refusal(a *Act, s Subject, why string) *result.Error {
	if v.rule == oddName {
		why = v.reason
		v.reason = ""
	}
	message := a.name(s) + ": " + why
	if a.Direct && v.rule != oddName && v.rule != byHook {
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

// SubjectsOf returns the newest catalog, and the subjects of a call of an entry there.
type SubjectsOf func(e *catalog.Entry, uri string) (*catalog.Catalog, []Subject)

// Admission obtains the pass of a call.
func Admission(ctl *Controls, from SubjectsOf) Step {
	return Step{Phase: PhaseAdmit, Name: "admit", Before: func(ctx context.Context, c *Call) error {
		c.Lap(telemetry.StepCheck)
		err := ctl.AdmitCall(ctx, c, from)
		c.Lap(telemetry.StepPolicy)
		return err
	}}
}

// AdmitAgain decides about a request that continues a call, such as one for the result of a task. It
// asks no person and counts nothing, as the call was admitted; what may no longer run is refused.
func (c *Controls) AdmitAgain(ctx context.Context, call *Call, from SubjectsOf) (err error) {
	now, about := from(call.Entry, call.URI)
	a := Act{Request: &mcp.Request{Method: call.Request.Method, Session: call.Request.Session, Peer: mcp.NoPeer}, Verb: VerbOf(call.Entry.Kind), Catalog: now, About: about, Ledger: call.Session.Ledger(), Free: true}
	call.Pass, err = c.Admit(ctx, &a)
	call.decided = a.decided
	return err
}

// AdmitCall admits a call of the gateway's own methods and stores the admitted params in it.
func (c *Controls) AdmitCall(ctx context.Context, call *Call, from SubjectsOf) (err error) {
	if err := call.Run.admits(call.Entry); err != nil {
		return err
	}
	if c.None() {
		c.Flow.Observe(ctx, call.Session.Flow(), call.Flow())
		call.Pass = pass{granted: true}
		return nil
	}
	verb := VerbOf(call.Entry.Kind)
	a := Act{Request: call.Request, Verb: verb, Count: verb, Catalog: call.Catalog, args: call.Args, Ledger: call.Session.Ledger(), reader: reader{call.Session.Flow(), call.Carried}, dryRun: call.DryRun, Run: call.Run}
	if call.Method != "" && call.Method != MethodRead && call.Method != MethodGet {
		a.What, a.method = call.Method+" of "+call.Entry.ID, call.Method
	}
	if call.Refs != nil { // the references, not the few rows that replaced them for the validation
		a.args = call.Refs.Arguments()
	}
	if c.Flow != nil && (rawjson.Contains(a.args, syncbody.Scheme) || rawjson.Contains(a.args, plane.ParamURL)) {
		a.carried = a.carried.Join(call.Session.Flow().Rows())
	}
	a.filled = call.Refs != nil || verb == VerbExecute && rawjson.Contains(a.args, syncbody.Scheme)
	now, about := from(call.Entry, call.URI)
	if a.Catalog == nil {
		a.Catalog = now
	}
	a.About = about
	if find := c.present.Subjects; find != nil {
		entry, uri := call.Entry, call.URI
		a.Again = func(ctx context.Context) (*catalog.Catalog, []Subject, bool) { return find(ctx, entry, uri) }
	}
	if call.Pass, err = c.Admit(ctx, &a); err != nil {
		return err
	}
	if call.Refs != nil {
		call.Refs.SetArguments(a.args)
	} else {
		call.Args = a.args
	}
	call.Params, call.decided = a.Params, a.decided
	return nil
}

// VerbOf returns the meta-tool that runs or reads entries of a kind.
func VerbOf(kind primitive.Kind) string {
	switch kind {
	case primitive.KindTool:
		return VerbExecute
	case primitive.KindPrompt:
		return VerbGet
	}
	return VerbRead
}
