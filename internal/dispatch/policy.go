package dispatch

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/access/authz"
	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/text"
)

// Action is the verdict of a rule.
type Action string

// Actions.
const (
	Allow           Action = "allow"
	Deny            Action = "deny"
	RequireApproval Action = "require_approval" // a person at the agent's client decides
)

// Policy decides which calls are allowed. The first matching rule counts, then Default. A Policy
// must not change while it is in use; nil allows everything.
//
// Default and rules without a meta-tool concern the meta-tools that run or read something of an
// upstream: tool_execute, resource_read and prompt_get. Other meta-tools are refused only by a rule
// that names them, so that an agent under `default: deny` still sees what it may ask for.
type Policy struct {
	Default Action // "" is Allow
	Rules   []PolicyRule
	// Hide means that an entry does not exist for a caller who could not call it with any arguments.
	Hide bool
}

// PolicyRule matches a call if all its set fields match.
type PolicyRule struct {
	Action Action
	// MetaTool limits the rule to one meta-tool; "" means all that run or read something.
	MetaTool string
	// Namespace is the exact namespace of the tool.
	Namespace string
	// Tool is a pattern for the tool_id or the upstream's name of the tool, and for a URI: "*"
	// matches any text, "?" one character. Case counts. URIs are compared in all their spellings.
	Tool string
	// Tags must all be on the tool.
	Tags []string
	// ReadOnly matches tools that declare themselves read-only, or those that do not. It is an
	// unverified hint of the upstream.
	ReadOnly *bool
	// If is what the rule asks of the caller and of the request; nil asks nothing.
	If *authz.Condition
	// Observe means that the rule is logged where it would decide, and decides nothing.
	Observe bool
	// Reason is shown to the agent and to the person who is asked.
	Reason string
}

// reading says how a rule counts whose condition depends on what is not known.
type reading uint8

const (
	// strictly: it matches if it denies or asks, and not if it allows.
	strictly reading = iota
	// possibly: it matches if it allows or asks, and not if it denies. A verdict other than Deny then
	// means that some call is not refused.
	possibly
)

// verdict is the decision of a policy about one call.
type verdict struct {
	action Action
	reason string
	rule   int // its index, -1 for the default
	hook   string
	lines  string // for a person, of the labels
}

// oddName is the rule number of a verdict without a rule: the name could be confused with another
// name.
const oddName = -2

// heldSecret is the rule number of a verdict without a rule: a secret stands in the arguments.
const heldSecret = -3

// byHook is the rule number of a verdict without a rule: a hook has refused.
const byHook = -4

// byFlow is the rule number of a verdict without a rule: the label of the session decides.
const byFlow = -5

// decidedBy names the origin of a verdict as the configuration writes it.
func (v verdict) decidedBy() string {
	switch v.rule {
	case -1:
		return "policy.default"
	case oddName:
		return "a name that reads like another"
	case heldSecret:
		return "guards.secrets.args"
	case byHook:
		return v.hook
	case byFlow:
		return "flow"
	}
	return fmt.Sprintf("policy.rules[%d]", v.rule)
}

// known says how much of an entry is known.
type known uint8

const (
	knownWhole known = iota // it is in the catalog
	KnownName               // its upstream's name for it, and its place
	KnownPlace              // only its place; its name may differ there
)

// Subject is one entry or URI that an act may concern.
type Subject struct {
	Entry *catalog.Entry // nil: no entry
	Known known
	URI   string // one spelling of the URI; "" for none
	// Lenient means that the URI is a spelling for the most lenient readers; see Spelling.
	Lenient bool
	// Folds means that the entry has a folded name, for rules with folded names.
	Folds bool
	// Odd is the reason why the name is refused before any rule, or "".
	Odd string
}

// decide returns the verdict on an act. For a subject outside the catalog, it takes the strictest
// of the rules that might match, up to the first that certainly does. Otherwise removing a tool
// from the catalog would bypass the policy. The input is for rules with conditions; without one,
// they fail.
func (p *Policy) decide(in *authz.Input, how reading, verb string, s Subject) verdict {
	if p == nil {
		return verdict{action: Allow, rule: -1}
	}
	perhaps := verdict{action: Allow, rule: -1}
	if in != nil {
		inputOf(in, verb, s)
	}
	for i := range p.Rules {
		r := &p.Rules[i]
		v := verdict{action: r.Action, reason: r.Reason, rule: i}
		switch {
		case r.Observe:
		case s.Known == KnownPlace && r.Action == Allow && r.Tool != "": // it may be another tool's name
		case r.Matches(verb, s):
			if r.holds(in, how, s) {
				return perhaps.orStricter(v)
			}
		case s.Known != knownWhole && r.mayMatch(verb, s):
			if r.holds(in, strictly, s) {
				perhaps = perhaps.orStricter(v)
			}
		}
	}
	if p.Default == "" || !ActsOnUpstream(verb) {
		return perhaps
	}
	return perhaps.orStricter(verdict{action: p.Default, rule: -1})
}

// holds reports whether the condition of a rule counts as met by a call of the subject of an input.
func (r *PolicyRule) holds(in *authz.Input, how reading, s Subject) bool {
	if r.If == nil {
		return true
	}
	value := authz.Failed
	if in != nil {
		granted := in.Granted
		in.Granted = granted && r.Action != Deny
		value = r.If.Holds(in)
		in.Granted = granted
	}
	switch {
	case value == authz.NotYes && how == possibly && s.Known == knownWhole:
		return r.Action == RequireApproval
	case value == authz.Unknown && how == possibly && s.Known == knownWhole:
		return r.Action != Deny
	case value == authz.Unknown || value == authz.Failed || value == authz.NotYes:
		return r.Action != Allow
	}
	return value == authz.Yes
}

// inputOf stores a subject in the input of a call, and returns the input.
func inputOf(in *authz.Input, verb string, s Subject) *authz.Input {
	if in == nil {
		return nil
	}
	in.Unknown &^= authz.ToolID | authz.ToolName | authz.ToolHints
	in.Server, in.Tool = "", nil
	if s.Entry == nil {
		return in
	}
	e := s.Entry
	in.Server = e.Upstream
	in.Tool = &authz.Tool{ID: e.ID, Namespace: e.Namespace, Name: e.RawName, Tags: e.Tags, ReadOnly: e.ReadOnly, Destructive: e.Destructive, Idempotent: e.Idempotent, OpenWorld: e.OpenWorld}
	switch {
	case s.Known == KnownPlace || s.Folds:
		in.Unknown |= authz.ToolID | authz.ToolName | authz.ToolHints
	case s.Known == KnownName:
		in.Unknown |= authz.ToolID | authz.ToolHints
	}
	if verb == VerbRead && s.URI != "" && in.Unknown&authz.Args == 0 {
		in.SetArgs(append(rawjson.AppendString([]byte(`{"uri":`), s.URI), '}'))
	}
	return in
}

// strictest returns the strictest verdict on the subjects of an act, and its subject.
func (p *Policy) strictest(in *authz.Input, how reading, verb string, about []Subject) (s Subject, v verdict) {
	if len(about) == 0 {
		return s, p.decide(in, how, verb, s)
	}
	for i, one := range about {
		decided := p.decide(in, how, verb, one)
		if one.Odd != "" {
			decided = verdict{action: Deny, reason: one.Odd, rule: oddName}
		}
		if i == 0 || decided.action.severity() > v.action.severity() {
			s, v = one, decided
		}
	}
	return s, v
}

// orStricter returns the stricter of two verdicts. Of two equal ones, it returns other if it
// allows, otherwise v.
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

// ActsOnUpstream reports whether a meta-tool runs or reads something of an upstream, rather than
// showing the gateway's own data.
func ActsOnUpstream(metaTool string) bool {
	return metaTool == VerbExecute || metaTool == VerbRead || metaTool == VerbGet
}

// mayMatch reports whether a rule that denies or asks could match an entry that is not fully known.
func (r *PolicyRule) mayMatch(verb string, s Subject) bool {
	if r.Action == Allow {
		return false
	}
	byName := *r
	byName.Tags, byName.ReadOnly = nil, nil
	if i := strings.IndexAny(r.Tool, "@#"); i > 0 && !byName.Matches(verb, s) {
		byName.Tool = r.Tool[:i] // an id without version and hash
	}
	if s.Known == KnownPlace {
		byName.Tool = ""
	}
	return byName.Matches(verb, s)
}

func (r *PolicyRule) Matches(verb string, s Subject) bool {
	if r.MetaTool != verb && (r.MetaTool != "" || !ActsOnUpstream(verb)) {
		return false
	}
	e := s.Entry
	if e == nil {
		return r.Namespace == "" && r.Tool == "" && len(r.Tags) == 0 && r.ReadOnly == nil
	}
	if r.Namespace != "" && r.Namespace != e.Namespace || r.Tool != "" && !r.names(s) || r.ReadOnly != nil && *r.ReadOnly != e.ReadOnly {
		return false
	}
	for _, tag := range r.Tags {
		if !slices.Contains(e.Tags, tag) {
			return false
		}
	}
	return true
}

// names reports whether the rule's pattern matches a name of the subject's entry or its URI.
func (r *PolicyRule) names(s Subject) bool {
	pattern := r.Tool
	if s.Folds {
		pattern = Folded(pattern)
	}
	return s.Entry.NamedBy(pattern) || s.URI != "" && matchSpelled(pattern, Spelling{s.URI, s.Lenient})
}

// matchPattern reports whether a pattern matches all of s.
func matchPattern(pattern, s string) bool { return text.Match(pattern, s) }
