package dispatch

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/catalog"
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
	// Tool is a pattern for the tool_id or the upstream's own name of the tool,
	// and for the URI of what is read: "*" stands for any text, "?" for one
	// character. Case counts. URIs are compared in every way to write them.
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

// oddName is the rule of a verdict that no rule has made: a name that reads like
// another one is refused.
const oddName = -2

// decidedBy names what a verdict comes from, as the configuration calls it.
func (v verdict) decidedBy() string {
	switch v.rule {
	case -1:
		return "policy.default"
	case oddName:
		return "a name that reads like another"
	}
	return fmt.Sprintf("policy.rules[%d]", v.rule)
}

// known is how much of an entry is known.
type known uint8

const (
	knownWhole known = iota // it is in the catalog
	KnownName               // what its upstream calls it, and where it is
	KnownPlace              // where it is; it may go by another name
)

// Subject is one thing that an act may be about.
type Subject struct {
	Entry *catalog.Entry // nil: about no entry
	Known known
	URI   string // one way to write the URI that is read; "" where none is
	// Folds says that the entry has a folded name, for rules with folded ones.
	Folds bool
	// Odd says why the name is refused before any rule; "" where it is not.
	Odd string
}

// decide returns the verdict on an act of a verb. Of the rules that may match a
// subject that is not in the catalog, up to the first that does, the strictest
// counts: what is unknown speaks against a call, or leaving a tool out of the
// catalog would take it out of the policy.
func (p *Policy) decide(verb string, s Subject) verdict {
	if p == nil {
		return verdict{Allow, "", -1}
	}
	perhaps := verdict{Allow, "", -1}
	for i := range p.Rules {
		r := &p.Rules[i]
		v := verdict{r.Action, r.Reason, i}
		switch {
		case s.Known == KnownPlace && r.Action == Allow && r.Tool != "": // it may be another tool's name
		case r.Matches(verb, s):
			return perhaps.orStricter(v)
		case s.Known != knownWhole && r.mayMatch(verb, s):
			perhaps = perhaps.orStricter(v)
		}
	}
	if p.Default == "" || !ActsOnUpstream(verb) {
		return perhaps
	}
	return perhaps.orStricter(verdict{p.Default, "", -1})
}

// Strictest returns the strictest verdict on what an act may be about, and the
// subject that it is on.
func (p *Policy) Strictest(verb string, about []Subject) (s Subject, v verdict) {
	if len(about) == 0 {
		return s, p.decide(verb, s)
	}
	for i, one := range about {
		decided := p.decide(verb, one)
		if one.Odd != "" {
			decided = verdict{Deny, one.Odd, oddName}
		}
		if i == 0 || decided.action.severity() > v.action.severity() {
			s, v = one, decided
		}
	}
	return s, v
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

// ActsOnUpstream reports whether a meta-tool runs or reads something of an
// upstream, rather than showing what the gateway has.
func ActsOnUpstream(metaTool string) bool {
	return metaTool == VerbExecute || metaTool == VerbRead || metaTool == VerbGet
}

// mayMatch reports whether a rule that keeps calls back could match an entry of
// which not all is known.
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

// names reports whether the rule's pattern matches what a subject is called: its
// id, its short id, its raw name or its URI. The short id counts too, or a server
// would leave a rule by listing a second tool with it.
func (r *PolicyRule) names(s Subject) bool {
	pattern, e := r.Tool, s.Entry
	if s.Folds {
		pattern = Folded(pattern)
	}
	return matchPattern(pattern, e.ID) || matchPattern(pattern, e.RawName) || e.Short != e.ID && e.Short != "" && matchPattern(pattern, e.Short) ||
		s.URI != "" && matchSpelled(pattern, s.URI)
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
