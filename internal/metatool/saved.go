package metatool

import (
	"context"
	"encoding/json"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/internal/runs"
	"github.com/weir-mcp/weir/internal/text"
)

// A saved program is a tool of the catalog whose calls take the way of all tools, up to the place where another call
// goes to its server:
//
//	find ▶ validate ▶ policy ▶ approval ▶ … ▶ saved ▶ send ─┬▶ server
//	                                                        └▶ runs.Runner ─▶ worker

// isSaved reports whether a tool is a saved program.
func (p *programs) isSaved(e *catalog.Entry) bool {
	return e != nil && p.runner.SavedAt != "" && e.Upstream == p.runner.SavedAt
}

// starts returns the step that names the run that a call of a saved program starts. There is no step without saved
// programs.
func (p *programs) starts() []dispatch.Step {
	if p.runner.SavedAt == "" {
		return nil
	}
	return []dispatch.Step{{Phase: dispatch.PhaseRecord, Name: "saved", Before: func(_ context.Context, c *dispatch.Call) error {
		if !p.isSaved(c.Entry) {
			return nil
		}
		saved, ok := p.runner.Saved[c.Entry.RawName]
		if !ok || saved.ReadOnly != c.Entry.ReadOnly || saved.Hash != rawjson.Text(rawjson.GetPath(c.Entry.Raw, "_meta", runs.MetaProgram)) {
			return &result.Error{Code: result.UpstreamUnavailable, Message: c.Entry.ID + ": a changed configuration is about to replace its program; call it again"}
		}
		c.Starts = dispatch.NewRun("", saved.Hash, saved.Source, c.Args, 0)
		return nil
	}}}
}

// saves returns a Sender that runs saved programs, and gives the other calls to next.
func (p *programs) saves(next dispatch.Sender) dispatch.Sender {
	return dispatch.Sender{Names: next.Names, Send: func(ctx context.Context, c *dispatch.Call) (json.RawMessage, error) {
		if c.Starts == nil {
			return next.Send(ctx, c)
		}
		q := runs.Request{Principal: c.Request.Session.Principal(), Profile: identity.RouteOf(ctx).Profile, Tool: c.Entry.ID, Fixed: true, ReadOnly: c.Entry.ReadOnly, Source: c.Starts.Source, Input: c.Args}
		if raw := rawjson.Get(c.Args, argResume); raw != nil {
			var err error
			if q.Resume, err = rawjson.String(raw); err != nil || q.Resume == "" {
				return nil, result.NewError(result.ArgsInvalid, "resume must be the id of a run, not "+text.Value(raw))
			}
			if q.Input, err = rawjson.Delete(c.Args, argResume); err != nil {
				return nil, result.NewError(result.ArgsInvalid, "the arguments cannot be read: "+err.Error())
			}
		}
		if err := c.Pass.Check(methodCall); err != nil {
			return nil, err
		}
		if err := c.Pass.Holds(ctx); err != nil {
			return nil, err
		}
		c.Attempts++
		c.Sent = true
		reply, err := p.do(ctx, c, q)
		c.Ran = err == nil
		return reply, err
	}}
}
