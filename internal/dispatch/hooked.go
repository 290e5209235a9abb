package dispatch

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/observe/telemetry"
	"github.com/weir-mcp/weir/internal/observe/trace"
	"github.com/weir-mcp/weir/internal/policy/hook"
	"github.com/weir-mcp/weir/mcp"
)

// ofTarget are members of params that say what is called, or with what. A question names them.
var ofTarget = []string{"name", "arguments", "uri"}

// askOfCall asks the hooks about an act that the other controls admit. A dry run asks none, and a part
// of an act was asked about before.
func (c *Controls) askOfCall(ctx context.Context, a *Act, s Subject) error {
	if a.dryRun || !ActsOnUpstream(a.Verb) || !c.Hooks.Asks(hook.Call) {
		return nil
	}
	q := a.question(ctx, hook.Call, s)
	q.Arguments = a.args
	if len(a.Params) > 0 {
		params, others := rawjson.NewWriter(nil).Object(), 0
		err := rawjson.EachMember(a.Params, func(m rawjson.Member) bool {
			if key := string(m.Key); !slices.Contains(ofTarget, key) {
				params.Key(key).Raw(m.Value)
				others++
			}
			return true
		})
		if err != nil {
			return err // cannot happen: Rewrite wrote them
		}
		if others > 0 {
			q.Params = params.EndObject().Bytes()
		}
	}
	return c.askHooks(ctx, a, s, q)
}

// AdmitResult asks the hooks about the answer of a server to an act. It returns the errors of
// Admit.
func (c *Controls) AdmitResult(ctx context.Context, a *Act, answer json.RawMessage) error {
	if !c.Hooks.Asks(hook.Result) {
		return nil
	}
	s := orNone(a.About)[0]
	q := a.question(ctx, hook.Result, s)
	q.Result = answer
	return c.askHooks(ctx, a, s, q)
}

// AdmitAnswer is AdmitResult for a call of the gateway's own methods.
func (c *Controls) AdmitAnswer(ctx context.Context, call *Call, answer json.RawMessage) error {
	if !c.Hooks.Asks(hook.Result) {
		return nil
	}
	a := Act{Request: call.Request, Verb: VerbOf(call.Entry.Kind), method: call.Method, About: []Subject{{Entry: call.Entry, URI: call.URI}}}
	return c.AdmitResult(ctx, &a, answer)
}

// Results asks the hooks about the results of servers. A result that the cache keeps was asked about
// before it was kept. There is no step if no hook wants to be asked.
func Results(ctl *Controls) []Step {
	if !ctl.Hooks.Asks(hook.Result) {
		return nil
	}
	return []Step{{Phase: PhaseSettle, Name: "hooks", After: func(ctx context.Context, c *Call, err error) error {
		if err != nil {
			return err
		}
		return ctl.AdmitAnswer(ctx, c, c.Reply)
	}}}
}

// question returns what hooks are told of an act.
func (a *Act) question(ctx context.Context, kind hook.Kind, s Subject) *hook.Question {
	q := &hook.Question{Kind: kind, Method: a.mcpMethod(), Trace: trace.ID(ctx)}
	if s.Entry != nil {
		q.Server = s.Entry.Upstream
		if s.Entry.Name != "" { // otherwise only the server is known
			q.ToolID = s.Entry.ID
		}
	}
	if session := a.Request.Session; session != nil {
		q.Principal = session.Principal()
		if id := session.ID(); id != "" {
			q.Session = telemetry.SessionTag(id)
		}
	}
	if parent := rawjson.Text(rawjson.Get(a.Request.Fields().RawMeta, "traceparent")); q.Trace == "" && len(parent) == 55 {
		q.Trace = parent[3:35]
	}
	return q
}

// askHooks returns the error for an act that a hook refuses.
func (c *Controls) askHooks(ctx context.Context, a *Act, s Subject, q *hook.Question) error {
	refusal, err := c.Hooks.Ask(ctx, q)
	if err != nil || refusal == nil {
		return mcp.NoRoom("the question to a hook", err)
	}
	v := verdict{action: Deny, rule: byHook, hook: refusal.Hook, reason: refusal.Reason}
	a.decided, a.Of = decision{made: true, by: v}, s.Entry
	why := "the hook " + refusal.Hook + " refuses "
	if refusal.Failed {
		why = "the hook " + refusal.Hook + " has not judged "
	}
	if q.Kind == hook.Result {
		return v.refusal(a, s, why+"its result")
	}
	return v.refusal(a, s, why+"it")
}
