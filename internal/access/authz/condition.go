package authz

import (
	"slices"

	"github.com/weir-mcp/weir/internal/text"
)

// Truth is the value of a condition.
type Truth uint8

// The values. Of the parts of a condition, the lowest value counts; Failed and Unknown together are
// NotYes, because the unknown part may be No.
const (
	No Truth = iota
	NotYes
	Failed
	Unknown
	Yes
)

// and returns the value of two parts together.
func (t Truth) and(other Truth) Truth {
	if t == Failed && other == Unknown || t == Unknown && other == Failed {
		return NotYes
	}
	return min(t, other)
}

// String returns the value as it is shown to operators.
func (t Truth) String() string {
	return [...]string{No: "no", NotYes: "no or failed", Failed: "failed", Unknown: "unknown", Yes: "yes"}[t]
}

// Condition is a rule's condition on the caller and the request. All parts that are set must hold.
// A nil Condition always holds. A Condition must not change while it is in use.
type Condition struct {
	// Groups holds if the caller is in one of them.
	Groups []string
	// Principals holds if the caller is one of them. "*" stands for any text, "?" for one character.
	Principals []string
	// Roles holds if the caller has one of them.
	Roles []string
	// Scopes holds if the caller's credential has all of them.
	Scopes []string
	// Profile holds if the request was made to this profile; it is a pattern, as Principals are. "*"
	// stands for any profile. "" asks nothing.
	Profile string
	// When is an expression; nil always holds.
	When *Expression
}

// Part is the value of one part of a condition.
type Part struct {
	Name  string // the key in the configuration
	Value Truth
	Why   string // for Failed and Unknown, otherwise ""
}

// Holds returns the value of the condition for a request.
func (c *Condition) Holds(in *Input) Truth {
	if c == nil {
		return Yes
	}
	value := Yes
	for _, part := range parts {
		if value = value.and(part.of(c, in)); value == No {
			return No
		}
	}
	if c.When == nil {
		return value
	}
	of, _ := c.When.Eval(in)
	return value.and(of)
}

// Explain returns the value of each part that is set.
func (c *Condition) Explain(in *Input) []Part {
	if c == nil {
		return nil
	}
	var list []Part
	for _, part := range parts {
		if len(part.set(c)) == 0 {
			continue
		}
		one := Part{Name: part.name, Value: part.of(c, in)}
		if one.Value == Failed {
			one.Why = "the issuer has more groups of the caller than it wrote down"
		}
		list = append(list, one)
	}
	if c.When != nil {
		one := Part{Name: "when"}
		var err error
		if one.Value, err = c.When.Eval(in); err != nil {
			one.Why = err.Error()
		}
		list = append(list, one)
	}
	return list
}

// parts are the parts of a condition without the expression.
var parts = []struct {
	name string
	set  func(*Condition) []string
	of   func(*Condition, *Input) Truth
}{
	{"groups", func(c *Condition) []string { return c.Groups }, groupsOf},
	{"principals", func(c *Condition) []string { return c.Principals }, principalsOf},
	{"roles", func(c *Condition) []string { return c.Roles }, rolesOf},
	{"scopes", func(c *Condition) []string { return c.Scopes }, scopesOf},
	{"profile", profileSet, profileOf},
}

func groupsOf(c *Condition, in *Input) Truth {
	switch {
	case len(c.Groups) == 0:
		return Yes
	case in.Identity.GroupsMissing:
		return Failed
	}
	return truth(slices.ContainsFunc(c.Groups, in.Identity.InGroup))
}

func principalsOf(c *Condition, in *Input) Truth {
	return truth(len(c.Principals) == 0 || slices.ContainsFunc(c.Principals, func(pattern string) bool {
		return text.Match(pattern, in.Identity.Principal)
	}))
}

func rolesOf(c *Condition, in *Input) Truth {
	switch {
	case len(c.Roles) == 0 || slices.ContainsFunc(c.Roles, in.Identity.HasRole):
		return Yes
	case slices.ContainsFunc(c.Roles, func(role string) bool { return slices.Contains(in.Identity.RolesMissing, role) }):
		return Failed
	}
	return No
}

func scopesOf(c *Condition, in *Input) Truth {
	for _, scope := range c.Scopes {
		if !in.Granted && !in.Identity.HasScope(scope) {
			if in.Unknown&Scopes != 0 {
				return Unknown
			}
			return No
		}
	}
	return Yes
}

// profileSet returns the profile of a condition as a list.
func profileSet(c *Condition) []string {
	if c.Profile == "" {
		return nil
	}
	return []string{c.Profile}
}

func profileOf(c *Condition, in *Input) Truth {
	return truth(c.Profile == "" || in.Profile != "" && text.Match(c.Profile, in.Profile))
}

func truth(holds bool) Truth {
	if holds {
		return Yes
	}
	return No
}
