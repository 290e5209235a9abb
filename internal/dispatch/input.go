package dispatch

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/weir-mcp/weir/internal/access/authz"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/mcp"
	syncbody "github.com/weir-mcp/weir/s2sp/dispatch"
)

// conditional reports whether any rule of a policy has a condition.
func (p *Policy) conditional() bool {
	return p != nil && slices.ContainsFunc(p.Rules, func(r PolicyRule) bool { return r.If != nil })
}

// observes reports whether any rule of a policy is only logged.
func (p *Policy) observes() bool {
	return p != nil && slices.ContainsFunc(p.Rules, func(r PolicyRule) bool { return r.Observe })
}

// Asks reports whether any rule of a policy has a person asked.
func (p *Policy) Asks() bool {
	return p != nil && (p.Default == RequireApproval || slices.ContainsFunc(p.Rules, func(r PolicyRule) bool { return r.Action == RequireApproval && !r.Observe }))
}

// inputFrom returns what conditions look at of the caller of a request.
func inputFrom(ctx context.Context) *authz.Input {
	route := identity.RouteOf(ctx)
	return &authz.Input{Identity: identity.From(ctx), Source: route.Source, Profile: route.Profile, Now: time.Now()}
}

// input returns what the conditions of the policy look at in an act; nil if there are none.
func (c *Controls) input(ctx context.Context, a *Act) *authz.Input {
	if !c.conditional {
		return nil
	}
	in := inputFrom(ctx)
	in.Method = a.mcpMethod()
	in.Calls, in.Age = a.Ledger.session(in.Now)
	in.RunCalls, in.RunWrites = a.made.calls, a.made.writes
	if c.Flow != nil && a.Flow != nil && len(a.About) > 0 && a.About[0].Entry != nil {
		in.Flow = func() authz.Flow { return c.facts(ctx, a) }
	}
	switch {
	case a.Free || in.Method == methodComplete:
		in.Unknown = authz.Args
	case rawjson.IsObject(a.args):
		in.Args = a.args
		if a.filled {
			in.UnknownArgs = filledLater(a.args)
		}
	}
	return in
}

// methodComplete asks for values of an argument, and has none of the arguments of a call.
const methodComplete = "completion/complete"

// mcpMethod returns the method of MCP that an act is or corresponds to; for meta-tools that reach no
// server, it is their name.
func (a *Act) mcpMethod() string {
	switch {
	case a.Direct:
		return a.Request.Method
	case a.method != "":
		return a.method
	case a.Verb == VerbExecute:
		return "tools/call"
	case a.Verb == VerbRead:
		return MethodRead
	case a.Verb == VerbGet:
		return MethodGet
	}
	return a.Verb
}

// filledLater returns the names of the arguments with references in them, whose values are not known
// when a call is judged.
func filledLater(args []byte) []string {
	var names []string
	_ = rawjson.EachMember(args, func(m rawjson.Member) bool { // args is an object, in weir's own encoding
		if bytes.Contains(m.Value, []byte(`"$table"`)) || bytes.Contains(m.Value, []byte(syncbody.Scheme)) {
			names = append(names, string(m.Key))
		}
		return true
	})
	return names
}

// session returns the number of calls of the session before this one, and its age.
func (l *Ledger) session(now time.Time) (calls int64, age time.Duration) {
	if l == nil {
		return 0, 0
	}
	if !l.Started.IsZero() {
		age = now.Sub(l.Started)
	}
	return l.calls.Load(), age
}

// notice logs the rules that are only observed and would have decided about an act.
func (c *Controls) notice(ctx context.Context, in *authz.Input, a *Act, decided verdict) {
	for _, s := range orNone(a.About) {
		for i := range c.Policy.Rules {
			r := &c.Policy.Rules[i]
			if decided.rule >= 0 && i > decided.rule {
				break
			}
			if !r.Observe || !r.Matches(a.Verb, s) || !r.holds(inputOf(in, a.Verb, s), strictly, s) {
				continue
			}
			tool := ""
			if s.Entry != nil {
				tool = s.Entry.ID
			}
			c.log.InfoContext(ctx, "a rule of the policy would have decided, and is only observed", "rule", verdict{rule: i}.decidedBy(), "action", string(r.Action),
				"decided", string(decided.action), "principal", identity.From(ctx).Principal, "meta_tool", a.Verb, "tool_id", tool)
			break
		}
	}
}

func orNone(about []Subject) []Subject {
	if len(about) == 0 {
		return []Subject{{}}
	}
	return about
}

// stepUp returns the error for a refused act that further scopes would admit, or nil. The caller must
// have an issuer that can give them.
func (c *Controls) stepUp(in *authz.Input, a *Act, refused string) error {
	needed := c.Policy.scopesFor(in, a.Verb, a.About)
	if len(needed) == 0 {
		return nil
	}
	data := rawjson.NewWriter(nil).Object().Key("kind").String(mcp.KindInsufficientScope.String()).Key("scopes").Strings(needed).EndObject().Bytes()
	return &mcp.Error{Kind: mcp.KindInsufficientScope, Message: refused + "; a token with more scopes may, and data.scopes has all that the call needs", Data: data}
}

// scopesFor returns all scopes that a refused act needs, if only scopes are missing and the caller has
// an issuer that can give them; otherwise nil.
func (p *Policy) scopesFor(in *authz.Input, verb string, about []Subject) []string {
	if in == nil || in.Identity.Issuer == "" {
		return nil
	}
	in.Granted = true
	defer func() { in.Granted = false }()
	var needed []string
	for _, s := range orNone(about) {
		v := p.decide(in, strictly, verb, s)
		if s.Odd != "" || v.action == Deny {
			return nil
		}
		if v.rule >= 0 && p.Rules[v.rule].If != nil {
			needed = append(needed, p.Rules[v.rule].If.Scopes...)
		}
	}
	if len(needed) > 0 { // a client asks its issuer for exactly these
		needed = append(needed, in.Identity.Needed...)
	}
	// A client asks for offline_access by itself, and a resource does not want it of all clients.
	needed = slices.DeleteFunc(needed, func(scope string) bool { return scope == "offline_access" })
	slices.Sort(needed)
	return slices.Compact(needed)
}

// orDiscard returns a logger that is never nil.
func orDiscard(log *slog.Logger) *slog.Logger {
	if log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return log
}
