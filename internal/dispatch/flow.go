package dispatch

import (
	"context"
	"encoding/json"

	"github.com/weir-mcp/weir/internal/access/authz"
	"github.com/weir-mcp/weir/internal/flow"
	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// Labels are the labels of a call.
type Labels struct {
	// Label is the label of what the call has got: of its server, of a kept result, of rows in its arguments.
	Label flow.Label
	// Meanwhile is the label of what the server tells during the call.
	Meanwhile flow.Label
	// Unread says that the answer has only sizes and types of the result.
	Unread bool
	// Carried is the label of the rows that are put into the arguments.
	Carried flow.Label
	// OnTell is called before the upstream tells the agent something; it may be nil.
	OnTell func(params json.RawMessage)
}

// reader is whose labels decide about an act.
type reader struct {
	Flow    *flow.Session
	carried flow.Label // of the rows that are put into the arguments
}

// Reads gives the session of an act the labels of what it may get, where results are not read.
func (c *Controls) Reads(ctx context.Context, a *Act) {
	for _, s := range a.About {
		c.Flow.Read(ctx, a.Flow, c.Flow.Of(a.flow(s)), nil)
	}
}

// strictest returns the strictest verdict of the policy and of the labels on an act, and its subject.
func (c *Controls) strictest(ctx context.Context, in *authz.Input, how reading, a *Act) (Subject, verdict) {
	s, v := c.Policy.strictest(in, how, a.Verb, a.About)
	if c.Flow == nil || a.Free || a.Flow == nil || !ActsOnUpstream(a.Verb) {
		return s, v
	}
	for _, one := range a.About {
		if one.Entry == nil {
			continue
		}
		call := a.flow(one)
		if !c.Flow.Decides() {
			c.Flow.Observe(ctx, a.Flow, call)
			continue
		}
		judged := c.Flow.Judge(ctx, a.Flow, call)
		decided := verdict{action: Allow, reason: judged.Reason, rule: byFlow, lines: judged.Lines}
		switch judged.Action {
		case flow.Ask:
			decided.action = RequireApproval
		case flow.Refuse:
			decided.action = Deny
		}
		if decided.action.severity() > v.action.severity() {
			s, v = one, decided
		}
	}
	return s, v
}

// refuses says who refuses a call.
func (v verdict) refuses() string {
	if v.rule == byFlow {
		return "refused by what this session has read (flow); a new session has read nothing; the operator may give the tools rules in flow.label and flow.sinks"
	}
	return "the policy of this gateway refuses it"
}

// flow returns the call of an act as the labels judge it.
func (a *Act) flow(s Subject) flow.Call {
	out := flow.Call{Entry: s.Entry, Args: a.args, Carried: a.carried}
	if a.Verb == VerbRead {
		out.URI = rawjson.Text(a.args)
		out.Odd = Unclear(out.URI) != ""
	}
	if a.Run != nil {
		out.Program = a.Run.Flow
	}
	return out
}

// Flow returns the call as the labels see it.
func (c *Call) Flow() flow.Call {
	out := flow.Call{Entry: c.Entry, Args: c.Args, URI: c.URI, Odd: c.URI != "" && Unclear(c.URI) != "", Carried: c.Carried}
	if c.Run != nil {
		out.Program = c.Run.Flow
	}
	return out
}

// facts returns what conditions look at of the labels.
func (c *Controls) facts(ctx context.Context, a *Act) authz.Flow {
	call := a.flow(a.About[0])
	l := a.Flow.Label(ctx)
	if call.Program != nil {
		l = call.Program.Label()
	}
	l = l.Join(a.carried)
	return authz.Flow{Integrity: l.Integrity(), Confidentiality: l.Confidentiality, Sources: l.Sources, ArgsTrusted: c.Flow.ArgsTrusted(a.Flow, call)}
}

// Tells lets the session of a call read what the server tells the agent meanwhile: the agent gets it also where a
// program makes the call.
func (c *Call) Tells(ctx context.Context, f *flow.Flow) {
	if f != nil {
		c.OnTell = func(params json.RawMessage) {
			f.Read(ctx, c.Session.Flow(), c.Meanwhile, func() json.RawMessage { return params })
		}
	}
}

// Shows returns the step in which the model, or a program of it, gets what a call has got. There is no step without
// labels.
func Shows(f *flow.Flow) []Step {
	if f == nil {
		return nil
	}
	return []Step{{Phase: PhaseAnswer, Name: "label", Before: func(ctx context.Context, c *Call) error {
		c.Tells(ctx, f)
		return nil
	}, After: func(ctx context.Context, c *Call, err error) error {
		if c.DryRun {
			return err
		}
		if len(c.Split.Domains) > 0 {
			c.Session.Flow().Keeps(c.Label)
		}
		definition := f.Definition(c.Entry)
		read := f.Declassify(c.Label, c.Entry, c.Reply).Join(definition)
		if c.Run != nil {
			f.ProgramRead(c.Run.Flow, read, c.Entry, c.Args, c.Reply)
			return err
		}
		if c.Unread {
			f.Read(ctx, c.Session.Flow(), definition, nil)
			return err
		}
		f.Read(ctx, c.Session.Flow(), read, func() json.RawMessage { return c.Reply })
		return err
	}}}
}
