package dispatch

import (
	"encoding/json"
	"time"

	"github.com/weir-mcp/weir/internal/access/authz"
	"github.com/weir-mcp/weir/internal/identity"
)

// Question is a call that is not made: would a policy admit it?
type Question struct {
	Identity *identity.Identity
	Source   string
	Profile  string
	Subject  Subject
	Args     json.RawMessage // an object; nil for none
	Now      time.Time
}

// Answer says how a policy decides about a Question.
type Answer struct {
	Action Action
	Rule   int // that decided, -1 for the default, -2 for a name or URI that can be read in several ways
	Reason string
	// Tried are the rules up to the one that decided.
	Tried []Tried
	// Possible means that the caller could call the subject with some arguments.
	Possible bool
	// Scopes are all scopes that the call needs, if only scopes are missing.
	Scopes []string
}

// Tried is a rule as it was looked at.
type Tried struct {
	Rule     int
	Action   Action
	Observe  bool
	Subject  bool // it is about the subject
	Parts    []authz.Part
	Decisive bool
}

// Explain answers a question. It decides as Controls.Admit does.
func (p *Policy) Explain(q Question) Answer {
	verb := VerbExecute
	if q.Subject.Entry != nil {
		verb = VerbOf(q.Subject.Entry.Kind)
	}
	a := Act{Verb: verb, About: []Subject{q.Subject}}
	in := func() *authz.Input {
		return &authz.Input{Identity: q.Identity, Source: q.Source, Profile: q.Profile, Now: q.Now, Args: q.Args, Method: a.mcpMethod()}
	}
	v := p.decide(in(), strictly, verb, q.Subject)
	out := Answer{Action: v.action, Rule: v.rule, Reason: v.reason, Possible: p.possible(in(), verb, q.Subject)}
	if p == nil {
		return out
	}
	if q.Subject.Odd != "" {
		return Answer{Action: Deny, Rule: oddName, Reason: q.Subject.Odd}
	}
	for i := range p.Rules {
		if v.rule >= 0 && i > v.rule {
			break
		}
		r := &p.Rules[i]
		one := Tried{Rule: i, Action: r.Action, Observe: r.Observe, Subject: r.Matches(verb, q.Subject), Decisive: i == v.rule}
		if one.Subject {
			one.Parts = r.If.Explain(inputOf(in(), verb, q.Subject))
		}
		out.Tried = append(out.Tried, one)
	}
	if v.action == Deny {
		out.Scopes = p.scopesFor(in(), verb, a.About)
	}
	return out
}

// possible reports whether a caller could call a subject with some arguments, at some time.
func (p *Policy) possible(in *authz.Input, verb string, s Subject) bool {
	in.Unknown |= authz.OfCall
	if in.Identity.Issuer != "" {
		in.Unknown |= authz.Scopes
	}
	return p.decide(in, possibly, verb, s).action != Deny
}
