package dispatch

import (
	"github.com/weir-mcp/weir/internal/access/authz"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/identity"
)

// Hides reports whether entries that a caller cannot call do not exist for that caller.
func (p *Policy) Hides() bool { return p != nil && p.Hide }

// Classes returns the classes of callers that the conditions of the policy tell apart.
func (p *Policy) Classes() *authz.Classes {
	conditions := make([]*authz.Condition, 0, len(p.Rules))
	for i := range p.Rules {
		if !p.Rules[i].Observe {
			conditions = append(conditions, p.Rules[i].If)
		}
	}
	return authz.ClassesOf(conditions)
}

// Sight decides which entries exist for one caller. It serves one goroutine.
type Sight struct {
	policy *Policy
	in     *authz.Input
}

// SightOf returns the sight of a caller at a profile, "" for none. Without Policy.Hide it sees
// everything.
func (p *Policy) SightOf(id *identity.Identity, profile string) *Sight {
	if !p.Hides() {
		return &Sight{}
	}
	s := &Sight{policy: p}
	if p.conditional() {
		s.in = &authz.Input{Identity: id, Profile: profile}
	}
	return s
}

// Sees reports whether the caller could call an entry with some arguments, at some time. About are
// the subjects that a call of the entry concerns. Missing scopes count as held if the caller has an
// issuer that could give them. Whatever Controls.Admit admits is seen.
func (s *Sight) Sees(verb string, about []Subject) bool {
	action, _ := s.Refusal(verb, about)
	return action == ""
}

// Refusal returns the action and the rule that hide an entry from the caller, "" if Sees reports
// true.
func (s *Sight) Refusal(verb string, about []Subject) (action, rule string) {
	if s.policy == nil {
		return "", ""
	}
	if s.in != nil {
		s.in.Unknown = authz.OfCall
		if verb == VerbRead && (len(about) == 0 || about[0].URI != "" && !isTemplate(about[0])) {
			s.in.Unknown &^= authz.Args // the URI is all there is
		}
		if s.in.Identity.Issuer != "" {
			s.in.Unknown |= authz.Scopes
		}
	}
	_, v := s.policy.strictest(s.in, possibly, verb, about)
	if v.action != Deny {
		return "", ""
	}
	return string(v.action), v.decidedBy()
}

// isTemplate reports whether the URI of a subject is a template, so that the URI of a call is not
// known.
func isTemplate(s Subject) bool {
	return s.Entry != nil && s.Entry.Kind == primitive.KindTemplate && s.URI == s.Entry.URI
}

// MayAllow reports whether a rule with a pattern for which about returns true could allow a call of
// the caller at a profile. It is for servers whose entries are not known yet.
func (p *Policy) MayAllow(id *identity.Identity, profile string, about func(pattern string) bool) bool {
	in := &authz.Input{Identity: id, Profile: profile, Unknown: ^authz.Parts(0) &^ (authz.Principal | authz.Groups | authz.Roles | authz.Claims | authz.Client | authz.Profile)}
	for i := range p.Rules {
		r := &p.Rules[i]
		if r.Action != Deny && !r.Observe && r.Tool != "" && about(r.Tool) && r.holds(in, possibly, Subject{}) {
			return true
		}
	}
	return false
}
