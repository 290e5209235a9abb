package metatool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/flow"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/internal/tasks"
	"github.com/weir-mcp/weir/internal/text"
)

var viewKeys = []string{"handle", "selector"}

// view returns the Sender that answers tool_view (spec/gateway §4.2): one text block with the selected
// part. If that is not everything, a second block says what was cut and how to get the rest.
func (g *Gateway) view(work *taskCalls) dispatch.Sender {
	return dispatch.Sender{Names: []string{"view"}, Send: func(ctx context.Context, c *dispatch.Call) (json.RawMessage, error) {
		if handle := rawjson.Text(rawjson.Get(c.Arguments, "handle")); tasks.IsHandle(handle) {
			return work.viewed(ctx, c, handle)
		}
		return g.viewArtifact(ctx, c)
	}}
}

// showsCSV reports whether the reader of a view takes rows as comma-separated values: a model does. Programs read JSON,
// and secrets are found by the names that stand before them in JSON.
func (g *Gateway) showsCSV(c *dispatch.Call) bool {
	return c.Format != result.FormatJSON && c.Run == nil && !g.opts.RedactResults
}

// viewArtifact answers tool_view of a result that was held back.
func (g *Gateway) viewArtifact(ctx context.Context, c *dispatch.Call) (json.RawMessage, error) {
	var out [2][]byte
	c.Arguments = understoodView(c.Arguments)
	if err := readArguments(c, viewKeys, out[:]); err != nil {
		return nil, err
	}
	if out[0] == nil {
		return nil, metaArgs(ToolView, "handle and selector are needed")
	}
	handle, err := rawjson.String(out[0])
	if err != nil {
		return nil, metaArgs(ToolView, "handle must be a string, not %s", text.Value(out[0]))
	}
	if out[1] == nil {
		e := metaArgs(ToolView, `selector is missing, such as {"type":"head"}`)
		e.Details = fmt.Appendf(nil, `{"example":{"handle":%s,"selector":{"type":"head","chars":2000}}}`, rawjson.Quote(text.Fit(handle, 60)))
		return nil, e
	}
	lease, err := g.opts.Artifacts.At(identity.RouteOf(ctx).Profile).Open(ctx, c.Request.Session.Principal(), handle)
	if err != nil {
		var ae *artifact.Error
		if !errors.As(err, &ae) {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			return nil, &result.Error{Code: result.ViewFailed, Message: "the artifact store cannot be read now", Cause: err}
		}
		return nil, &result.Error{Code: result.ViewFailed, Message: "handle: " + ae.Error()}
	}
	defer lease.Close()
	a := lease.Artifact
	c.Label = c.Label.Join(flow.Marked(a.Mark))
	hold := g.opts.Memory.Hold("principal ", c.Request.Session.Principal())
	defer hold.Release()
	v, err := result.Select(ctx, lease, out[1], result.ViewOptions{MaxChars: g.opts.MaxViewChars, Turns: g.opts.Turns, Room: result.Room(&hold), Screen: g.opts.Screen, CSV: g.showsCSV(c)})
	if err != nil {
		return nil, err
	}
	if c.Format != result.FormatJSON {
		if v.Notice == "" {
			return result.Texts(nil, v.Text), nil
		}
		return result.Texts(nil, v.Text, v.Notice), nil
	}
	doc := []byte(`{"artifact":`)
	doc = result.AppendArtifact(doc, &a)
	doc = append(doc, `,"text":`...)
	doc = rawjson.AppendString(doc, v.Text)
	doc = append(doc, `,"notice":`...)
	doc = rawjson.AppendString(doc, v.Notice)
	doc = append(doc, `,"next":`...)
	if v.Next == nil {
		doc = append(doc, "null"...)
	} else {
		doc = append(doc, v.Next...)
	}
	doc = append(doc, '}')
	return result.Texts(doc, string(doc)), nil
}
