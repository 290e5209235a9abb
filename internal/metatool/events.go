package metatool

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/internal/observe/telemetry"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/internal/result/usage"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/mcp"
)

// Event reports a call to operators: the tool, the principal, the duration and the outcome. It
// never holds argument values, query text, results or session ids (spec/gateway §3.4).
type Event = telemetry.Event

// accounts counts the tokens of answers and reports events.
type accounts struct {
	state       *State
	faces       *faces
	countTokens func(string) int
	onEvent     func(Event) // nil: no events
	capture     Capture     // nil: events have no Exchange
	audit       auditing
}

// step counts and reports each call of a meta-tool, with the answer as the agent gets it.
func (a *accounts) step() dispatch.Step {
	return dispatch.Step{Phase: dispatch.PhaseAccount, Name: "account", After: func(ctx context.Context, c *dispatch.Call, err error) error {
		failure := err
		if c.Failure != nil {
			failure = c.Failure
		}
		a.audit.outcome(ctx, c, c.Reply, failure)
		a.conclude(c, memory.FromContext(ctx), c.Reply, failure)
		return err
	}}
}

// conclude counts an answer in tokens and reports the event of the call. err is the *Error in the
// result, or a protocol error. Files that hold parts of the answer are released with scope.
func (a *accounts) conclude(c *dispatch.Call, scope *memory.Scope, result json.RawMessage, err error) {
	took := time.Since(c.Start)
	a.state.account.Call(&sessionOf(c).usage, err != nil)
	var tell func(n usage.Count, counted bool)
	if a.onEvent != nil {
		if !c.Steps.Measured() {
			c.Lap(telemetry.StepCheck) // it ended before it was admitted
		}
		c.Lap(telemetry.StepResult)
		e := a.event(c, err, took)
		if a.capture != nil {
			e.Exchange = a.capture(c.Arguments, result)
		}
		tell = func(n usage.Count, counted bool) {
			e.TokensRead, e.TokensRaw, e.Counted, e.Estimated = n.Read, n.Raw, counted, n.Estimated
			a.onEvent(e)
		}
	}
	a.count(c, scope, result, err, tell)
}

func (a *accounts) event(c *dispatch.Call, err error, took time.Duration) Event {
	e := Event{
		Time: time.Now(), Name: strings.TrimPrefix(c.Verb, "tool_") + ".completed",
		Session: sessionOf(c).tag, Principal: sessionOf(c).principal, MetaTool: c.Verb,
		Duration: took, Steps: c.Steps, Attempts: c.Attempts, DryRun: c.DryRun, IsError: c.IsError,
	}
	if c.Entry != nil {
		e.Upstream, e.ToolID = c.Entry.Upstream, shownID(c)
	}
	e.Run, e.Detail = runOf(c)
	e.Client = clientOf(c.Request)
	e.Decision, e.Rule = decisionOf(c, err)
	switch {
	case err != nil:
		e.Name = strings.TrimPrefix(c.Verb, "tool_") + ".failed"
		e.Code, e.Scope = codeOf(err)
	case c.DryRun:
		e.Name = telemetry.ExecuteDryRun
	case c.Provenance.CacheHit:
		e.Name = telemetry.ExecuteCacheHit
	}
	return e
}

// runOf returns the id of the run to which a call belongs, and the program if the call starts it.
func runOf(c *dispatch.Call) (id, detail string) {
	switch {
	case c.Starts != nil:
		return c.Starts.ID, "program " + c.Starts.Hash
	case c.Run != nil:
		return c.Run.ID, ""
	}
	return "", ""
}

// codeOf returns the code of a failure in an event, and the scope of a quota that was used up.
func codeOf(err error) (code, scope string) {
	var own *result.Error
	if errors.As(err, &own) {
		return string(own.Code), own.Scope
	}
	kind, _ := mcp.KindOf(err)
	return strings.ToUpper(kind.String()), ""
}

// maxClient bounds the name of a client in an event, in characters.
const maxClient = 100

// clientOf returns the name that the client of a request gives itself: in the request (modern era)
// or in the handshake (legacy era).
func clientOf(r *mcp.Request) string {
	if r == nil || r.Session == nil {
		return ""
	}
	info, _ := r.Session.Client()
	if r.Modern() {
		if m, err := r.Fields().Meta(); err == nil {
			info = m.ClientInfo
		}
	}
	if info == nil {
		return ""
	}
	return text.Line(rawjson.Text(rawjson.Get(info, "name")), maxClient)
}

// decisionOf returns what the policy decided about a call, and the rule that did: of a call that it
// admitted, or of one that it refused with err.
func decisionOf(c *dispatch.Call, err error) (decided, rule string) {
	if err != nil {
		if own := (*result.Error)(nil); errors.As(err, &own) && own.Code == result.PermissionDenied {
			if rule = rawjson.Text(rawjson.Get(own.Details, "rule")); rule != "" {
				return rawjson.Text(rawjson.Get(own.Details, "action")), rule
			}
		}
	}
	return c.Decision()
}

// shownID returns the id of a call's entry for events and the audit log. It is "" for a resource that
// a result links to and no list has: its URI may have a secret in it.
func shownID(c *dispatch.Call) string {
	if (c.Method == dispatch.MethodRead || c.Method == methodSubscribe) && c.Entry.Raw == nil {
		return ""
	}
	return c.Entry.ID
}
