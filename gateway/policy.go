package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/catalog"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/rawjson"
)

// Action is what a policy says about a call.
type Action string

// The actions.
const (
	Allow           Action = "allow"
	Deny            Action = "deny"
	RequireApproval Action = "require_approval" // a person at the agent's client decides
)

// Policy decides which calls are made. The first rule that matches counts, then
// Default. It is immutable once it is in use; nil allows everything.
//
// Default and rules that name no meta-tool are about what runs or reads
// something of an upstream: tool_execute, resource_read and prompt_get. The
// other meta-tools are refused only by a rule that names them, so that an agent
// under `default: deny` still sees what it may ask for.
type Policy struct {
	Default Action // "" is Allow
	Rules   []PolicyRule
}

// PolicyRule matches calls by everything that is set in it.
type PolicyRule struct {
	Action Action
	// MetaTool is the only meta-tool that the rule is about; "" stands for all
	// that run or read something.
	MetaTool string
	// Namespace is the namespace of the tool, exactly.
	Namespace string
	// Tool is a pattern for the tool_id or the upstream's own name of the tool:
	// "*" stands for any text, "?" for one character. Case counts. A resource
	// that no list has shown goes by its URI.
	Tool string
	// Tags must all be on the tool.
	Tags []string
	// ReadOnly matches tools that declare themselves read-only, or those that
	// do not. It is an unverified hint of the upstream.
	ReadOnly *bool
	// Reason is told to the agent and to the person who is asked.
	Reason string
}

// verdict is what a policy says about one call.
type verdict struct {
	action Action
	reason string
	rule   int // its index, -1 for the default
}

// decidedBy names what a verdict comes from, as the configuration calls it.
func (v verdict) decidedBy() string {
	if v.rule < 0 {
		return "policy.default"
	}
	return fmt.Sprintf("policy.rules[%d]", v.rule)
}

// decide returns the verdict on a call of a meta-tool, e being nil where it is
// about no tool.
func (p *Policy) decide(metaTool string, e *catalog.Entry) verdict {
	return p.decideAs(metaTool, e, knownWhole)
}

// known is how much of an entry is known.
type known uint8

const (
	knownWhole known = iota // it is in the catalog
	knownName               // what its upstream calls it, and where it is
	knownPlace              // where it is; it may go by another name
)

// decideAs is decide for an entry that is not in the catalog, too. Of the rules
// that may match one, up to the first that does, the strictest counts: what is
// unknown speaks against a call, or leaving a tool out of the catalog would take
// it out of the policy.
func (p *Policy) decideAs(metaTool string, e *catalog.Entry, k known) verdict {
	if p == nil {
		return verdict{Allow, "", -1}
	}
	perhaps := verdict{Allow, "", -1}
	for i := range p.Rules {
		r := &p.Rules[i]
		v := verdict{r.Action, r.Reason, i}
		switch {
		case k == knownPlace && r.Action == Allow && r.Tool != "": // it may be another tool's name
		case r.matches(metaTool, e):
			return perhaps.orStricter(v)
		case k != knownWhole && r.mayMatch(metaTool, e, k):
			perhaps = perhaps.orStricter(v)
		}
	}
	if p.Default == "" || !actsOnUpstream(metaTool) {
		return perhaps
	}
	return perhaps.orStricter(verdict{p.Default, "", -1})
}

// orStricter returns the stricter of two verdicts; of equals, other where it
// allows, else v.
func (v verdict) orStricter(other verdict) verdict {
	if other.action.severity() > v.action.severity() || other.action == Allow && v.action == Allow {
		return other
	}
	return v
}

// severity orders actions.
func (a Action) severity() int {
	switch a {
	case Allow:
		return 0
	case RequireApproval:
		return 1
	}
	return 2
}

// actsOnUpstream reports whether a meta-tool runs or reads something of an
// upstream, rather than showing what the gateway has.
func actsOnUpstream(metaTool string) bool {
	return metaTool == ToolExecute || metaTool == ResourceRead || metaTool == PromptGet
}

// mayMatch reports whether a rule that keeps calls back could match an entry of
// which not all is known.
func (r *PolicyRule) mayMatch(metaTool string, e *catalog.Entry, k known) bool {
	if r.Action == Allow {
		return false
	}
	byName := *r
	byName.Tags, byName.ReadOnly = nil, nil
	if i := strings.IndexAny(r.Tool, "@#"); i > 0 && !byName.matches(metaTool, e) {
		byName.Tool = r.Tool[:i] // an id without version and hash
	}
	if k == knownPlace {
		byName.Tool = ""
	}
	return byName.matches(metaTool, e)
}

func (r *PolicyRule) matches(metaTool string, e *catalog.Entry) bool {
	if r.MetaTool != metaTool && (r.MetaTool != "" || !actsOnUpstream(metaTool)) {
		return false
	}
	if e == nil {
		return r.Namespace == "" && r.Tool == "" && len(r.Tags) == 0 && r.ReadOnly == nil
	}
	if r.Namespace != "" && r.Namespace != e.Namespace ||
		r.Tool != "" && !r.names(e) ||
		r.ReadOnly != nil && *r.ReadOnly != e.ReadOnly {
		return false
	}
	for _, tag := range r.Tags {
		if !slices.Contains(e.Tags, tag) {
			return false
		}
	}
	return true
}

// names reports whether the rule's pattern matches an entry's id, its short id or
// its raw name. The short id counts too, or a server would leave a rule by listing a
// second tool with it.
func (r *PolicyRule) names(e *catalog.Entry) bool {
	return matchPattern(r.Tool, e.ID) || matchPattern(r.Tool, e.RawName) || e.Short != e.ID && e.Short != "" && matchPattern(r.Tool, e.Short)
}

// matchPattern reports whether a pattern matches all of s. The time is bounded
// by the product of the lengths.
func matchPattern(pattern, s string) bool {
	p, t := []rune(pattern), []rune(s)
	star, mark, i, j := -1, 0, 0, 0
	for j < len(t) {
		switch {
		case i < len(p) && p[i] == '*':
			star, mark = i, j
			i++
		case i < len(p) && (p[i] == '?' || p[i] == t[j]):
			i++
			j++
		case star >= 0:
			mark++
			i, j = star+1, mark
		default:
			return false
		}
	}
	for i < len(p) && p[i] == '*' {
		i++
	}
	return i == len(p)
}

// enforce applies the policy to a call of a meta-tool: nil, or
// PermissionDenied. A dry run asks nobody; what it would have come to is the
// returned status.
func (g *Gateway) enforce(ctx context.Context, r *mcp.Request, metaTool string, e *catalog.Entry, args json.RawMessage, dryRun bool) (status string, err error) {
	v := g.opts.Policy.decide(metaTool, e)
	if v.action == RequireApproval && dryRun {
		return "approval_required", nil
	}
	if err := g.carryOut(ctx, r, v, deed{metaTool: metaTool, entry: e, subject: subject(metaTool, e)}, args); err != nil {
		return "", err
	}
	return "pass", nil
}

// deed is what a verdict is about.
type deed struct {
	metaTool string
	entry    *catalog.Entry // nil: about no tool
	subject  string         // for people
	direct   bool           // see Judge
}

// carryOut does what a verdict says: nil, or PermissionDenied.
func (g *Gateway) carryOut(ctx context.Context, r *mcp.Request, v verdict, d deed, args json.RawMessage) error {
	switch v.action {
	case Allow:
		return nil
	case RequireApproval:
		return g.approve(ctx, r, d, args, v)
	}
	return v.refusal(d, "the policy of this gateway refuses it")
}

// policyLink is the link that applies the policy to executions.
func (g *Gateway) policyLink() Middleware {
	return func(next Dispatcher) Dispatcher {
		return DispatcherFunc(func(ctx context.Context, c *Call) (_ json.RawMessage, err error) {
			if c.policy, err = g.enforce(ctx, c.Request, ToolExecute, c.Entry, c.Args, c.DryRun); err != nil {
				return nil, err
			}
			return next.Dispatch(ctx, c)
		})
	}
}

// subject is what a verdict is about, for people.
func subject(metaTool string, e *catalog.Entry) string {
	if e == nil {
		return metaTool
	}
	return metaTool + " of " + e.ID
}

func (v verdict) refusal(d deed, why string) *Error {
	message := d.subject + ": " + why
	if d.direct {
		message += ", by " + v.decidedBy()
	}
	details := append(rawjson.AppendString([]byte(`{"meta_tool":`), d.metaTool), `,"action":`...)
	details = rawjson.AppendString(details, string(v.action))
	details = rawjson.AppendString(append(details, `,"rule":`...), v.decidedBy())
	if d.entry != nil {
		details = rawjson.AppendString(append(details, `,"tool_id":`...), d.entry.ID)
	}
	if v.reason != "" {
		message += " (" + v.reason + ")"
		details = rawjson.AppendString(append(details, `,"reason":`...), oneLine(v.reason, MaxMessageChars))
	}
	return &Error{Code: PermissionDenied, Message: message, Details: append(details, '}')}
}

// maxShownArgs bounds the arguments that a person is shown, in characters.
const maxShownArgs = 600

// approve asks the person at the agent's client, by elicitation. Everything but
// a clear yes is a no.
func (g *Gateway) approve(ctx context.Context, r *mcp.Request, d deed, args json.RawMessage, v verdict) error {
	if !canElicit(r) && d.direct {
		return v.refusal(d, "a person has to approve it: a client is asked that declares the elicitation capability in a session, here or at /mcp, and this one has not")
	}
	if !canElicit(r) {
		return v.refusal(d, "a person has to approve it, and this client cannot be asked (it does not declare the elicitation capability); ask the operator to allow it in the policy")
	}
	var ask strings.Builder
	ask.WriteString("Allow " + d.subject + "?")
	if d.entry != nil {
		fmt.Fprintf(&ask, "\nServer: %s", d.entry.Upstream)
		if d.entry.Destructive {
			ask.WriteString("\nThe server says that this tool may destroy something.")
		}
	}
	if v.reason != "" {
		ask.WriteString("\nReason: " + oneLine(v.reason, MaxMessageChars))
	}
	if len(args) > 0 {
		ask.WriteString("\nArguments: " + oneLine(g.opts.Redactor.Redact(string(args)), maxShownArgs))
	}
	params := append(rawjson.AppendString([]byte(`{"message":`), ask.String()), `,"requestedSchema":{"type":"object","properties":{}}}`...)
	answer, err := r.Peer.Call(ctx, "elicitation/create", params, nil)
	switch {
	case err != nil && ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		refusal := v.refusal(d, "a person has to approve it, and asking this client failed")
		var own *mcp.Error
		if errors.As(err, &own) && own.Kind == mcp.KindNoBackChannel {
			refusal = v.refusal(d, "a person has to approve it, and there is no way to ask this client during a call; ask the operator to allow it in the policy")
		}
		refusal.Cause = err
		return refusal
	}
	if rawjson.Text(rawjson.Get(answer, "action")) != "accept" {
		return v.refusal(d, "a person was asked and did not approve it")
	}
	return nil
}

// canElicit reports whether the client of a request declares that it can show a
// form to a person. A client that names modes must name that one.
func canElicit(r *mcp.Request) bool {
	_, capabilities := r.Session.Client()
	if r.Modern() {
		meta, err := mcp.ParseMeta(r.Params)
		if err != nil {
			return false
		}
		capabilities = meta.ClientCapabilities
	}
	elicitation := rawjson.Get(capabilities, "elicitation")
	if !rawjson.IsObject(elicitation) {
		return false
	}
	return rawjson.IsObject(rawjson.Get(elicitation, "form")) || rawjson.Get(elicitation, "url") == nil
}
