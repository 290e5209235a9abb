package metatool

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/weir-mcp/weir/internal/audit/calls"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/flow"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/mcp"
)

// auditing tells the audit log of calls. Its zero value, without a Recorder, tells nothing.
//
//	account ▶ outcome ┐      … ▶ cache ▶ audit ▶ task ▶ retry ▶ server
//	                  └─ refusal, end, view, or the end of the call that audit has recorded
type auditing struct {
	to     *calls.Recorder
	flow   *flow.Flow // records have the labels of what the session has read; nil: there are none
	probes *probes    // of a class of callers; nil: every entry exists for all callers
}

// steps records that a call starts before it reaches its server. A required log that cannot be written
// refuses the call. There is no step without a log.
func (a auditing) steps() []dispatch.Step {
	if a.to == nil {
		return nil
	}
	return []dispatch.Step{{Phase: dispatch.PhaseRecord, Name: "audit", Before: func(ctx context.Context, c *dispatch.Call) error {
		if c.Starts != nil {
			return nil // its Sender tells of it, when the run has an id
		}
		if err := a.start(ctx, c); err != nil {
			return dispatch.Classify(ctx, c.Entry.Upstream, err)
		}
		return nil
	}}}
}

// start records the start of a call, once.
func (a auditing) start(ctx context.Context, c *dispatch.Call) (err error) {
	if a.to == nil || c.Audited != nil {
		return nil
	}
	about := a.about(c)
	c.Audited, err = a.to.Begin(ctx, &about)
	return err
}

// resume records that a call of before reaches its server again, by a method about its task.
func (a auditing) resume(ctx context.Context, c *dispatch.Call, method string, params json.RawMessage) (err error) {
	if a.to == nil {
		return nil
	}
	about := a.about(c)
	about.Method, about.Args, about.Handle = method, params, c.Task
	if c.Audited, err = a.to.Begin(ctx, &about); err != nil {
		return dispatch.Classify(ctx, c.Entry.Upstream, err)
	}
	return nil
}

// about describes a call to the log.
func (a auditing) about(c *dispatch.Call) calls.Call {
	out := calls.Call{Request: c.Request, Method: c.Method, Args: c.Args}
	out.Decision, out.Rule = c.Decision()
	out.Run, out.Detail = runOf(c)
	out.Labels = a.labelsOf(c)
	if c.Entry == nil {
		out.Method, out.Args = cmp.Or(c.Method, c.Verb), c.Arguments
		return out
	}
	if out.Method == "" {
		out.Method = methodCall
		if c.Entry.Kind == primitive.KindPrompt {
			out.Method = dispatch.MethodGet
		}
	}
	out.Server, out.ToolID = c.Entry.Upstream, shownID(c)
	if name := c.Entry.ServerName(); name != c.Entry.RawName && out.Detail == "" {
		out.Detail = "the server's name of the tool is " + name
	}
	return out
}

// labelsOf returns the labels of a call: of what its session, or its program, has read, of its result, and of the rows in
// its arguments. A program that gets declassified values has their types.
func (a auditing) labelsOf(c *dispatch.Call) []string {
	if a.flow == nil {
		return nil
	}
	l := c.Session.Flow().Seen()
	if c.Run != nil {
		l = l.Join(c.Run.Flow.Label())
	}
	names := l.Join(c.Label).Join(c.Carried).Names()
	if c.Run != nil && c.Label.Untrusted {
		types, _ := a.flow.Declassified(c.Entry)
		for _, one := range types {
			names = append(names, "declassified:"+one)
		}
	}
	return names
}

// outcome records how a call of a meta-tool ended. shown is what the agent reads, and err the error
// in it or in its place.
func (a auditing) outcome(ctx context.Context, c *dispatch.Call, shown json.RawMessage, err error) {
	if a.to == nil {
		return
	}
	switch {
	case c.Audited != nil:
		a.end(c, err)
	case refused(err):
		about := a.about(c)
		if own := (*result.Error)(nil); errors.As(err, &own) {
			about.Decision, about.Rule = rawjson.Text(rawjson.Get(own.Details, "action")), rawjson.Text(rawjson.Get(own.Details, "rule"))
		}
		a.to.Refused(ctx, &about, outcomeOf(err, false))
	case notFound(err):
		a.probes.tell(ctx, c.Request, c.URI)
	case err != nil || c.DryRun:
	case c.Provenance.CacheHit:
		about := a.about(c)
		a.to.Cached(ctx, &about, c.Answer)
	case c.Verb == ToolView:
		about := a.about(c)
		args := understoodView(c.Arguments)
		a.to.Viewed(ctx, &about, rawjson.Text(rawjson.Get(args, "handle")), rawjson.Get(args, "selector"), shown)
	}
}

// end records the end of a call that has started.
func (a auditing) end(c *dispatch.Call, err error) {
	outcome := outcomeOf(err, c.IsError)
	if err == nil && c.Task != "" {
		outcome = "task"
	}
	c.Audited.Labelled(a.labelsOf(c))
	c.Audited.End(outcome, c.Answer)
}

// ended records the end of a call without a meta-tool, with the server's result.
func (a auditing) ended(c *dispatch.Call, answered json.RawMessage, err error) {
	c.Audited.Labelled(a.labelsOf(c))
	c.Audited.End(outcomeOf(err, false), answered)
}

// refused reports whether the gateway decided against a call. Errors in a call, such as wrong
// arguments, are no decisions.
func refused(err error) bool {
	var own *result.Error
	if errors.As(err, &own) {
		return own.Code == result.PermissionDenied || own.Code == result.RateLimited
	}
	var wire *mcp.Error
	return errors.As(err, &wire) && (wire.Kind == mcp.KindPermissionDenied || wire.Kind == mcp.KindRateLimited || wire.Kind == mcp.KindInsufficientScope)
}

// outcomeOf names an outcome: the code of the gateway's own errors in lower case.
func outcomeOf(err error, isError bool) string {
	var own *result.Error
	if errors.As(err, &own) {
		return strings.ToLower(string(own.Code))
	}
	return calls.Outcome(err, isError)
}
