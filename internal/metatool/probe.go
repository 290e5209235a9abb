package metatool

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/weir-mcp/weir/internal/audit/calls"
	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/mcp"
)

// A call may name an entry that exists, but not for its caller. The caller gets the answer for a name
// that does not exist, and the audit log gets a refusal: an operator sees who tries what.

// probes records such calls of one class of callers. A nil one records nothing. It is safe for
// concurrent use.
type probes struct {
	to    *calls.Recorder
	part  *part
	faces *faces // of the class
}

// failed records a request that was answered with a protocol error, if it named a hidden entry.
func (p *probes) failed(ctx context.Context, r *mcp.Request, err error) {
	if p == nil || err == nil {
		return
	}
	switch kind, _ := mcp.KindOf(err); kind {
	case mcp.KindInvalidParams, mcp.KindResourceNotFound, mcp.KindMethodNotFound:
		p.tell(ctx, r, "")
	}
}

// tell records a request that found nothing, if it named a hidden entry. uri is the URI that a
// template has made for it, "" if none has.
func (p *probes) tell(ctx context.Context, r *mcp.Request, uri string) {
	if p == nil {
		return
	}
	w := p.wish(ctx, r)
	if uri != "" {
		w = wish{kind: primitive.KindResource, name: uri, args: rawjson.Quote(uri)}
	}
	if w.name == "" {
		return
	}
	whole := p.part.Upstreams.Snapshot()
	for _, e := range w.entries(whole) {
		about := calls.Call{Request: r, Method: r.Method, Server: e.Upstream, ToolID: e.ID, Args: w.args}
		if about.Decision, about.Rule = p.part.refusal(whole, e, w.name); about.Decision == "" {
			continue
		}
		if r.Method == methodCall && e.Kind != primitive.KindTool {
			about.Method = dispatch.MethodRead
			if e.Kind == primitive.KindPrompt {
				about.Method = dispatch.MethodGet
			}
		}
		p.to.Refused(ctx, &about, outcomeOf(&result.Error{Code: result.PermissionDenied}, false))
		return
	}
}

// refusal returns the action and the rule, or the profile, that hide an entry, or a URI of a template, from the callers
// of the part. It returns "" for an entry that they see.
func (p *part) refusal(whole *Snapshot, e *catalog.Entry, name string) (action, rule string) {
	sight, verb := p.sight(), dispatch.VerbOf(e.Kind)
	action, rule = sight.Refusal(verb, whole.about(e, e.URI))
	if action == "" && e.Kind == primitive.KindTemplate && name != e.URI && name != e.ID {
		about := slices.DeleteFunc(whole.about(e, name), func(s dispatch.Subject) bool { return s.Known != 0 })
		action, rule = sight.Refusal(verb, about)
	}
	if action == "" && !p.selected.has(e) {
		return string(dispatch.Deny), "profiles." + p.by.profile
	}
	return action, rule
}

// wish is what a request asks for by name.
type wish struct {
	kind primitive.Kind // KindTool, KindPrompt or KindResource, which is also the kind of templates
	name string         // "" if the request names nothing
	args json.RawMessage
}

// wish reads what a request asks for.
func (p *probes) wish(ctx context.Context, r *mcp.Request) wish {
	f := r.Fields()
	switch r.Method {
	case methodCall:
		return p.called(ctx, rawjson.Text(f.Name), f.Arguments)
	case dispatch.MethodGet:
		return wish{primitive.KindPrompt, rawjson.Text(f.Name), f.Arguments}
	case dispatch.MethodRead, methodSubscribe, methodListen:
		return wish{primitive.KindResource, rawjson.Text(f.URI), f.URI}
	case methodComplete:
		ref := rawjson.Get(r.Params, "ref")
		if rawjson.Text(rawjson.Get(ref, "type")) == "ref/prompt" {
			return wish{kind: primitive.KindPrompt, name: rawjson.Text(rawjson.Get(ref, "name"))}
		}
		return wish{kind: primitive.KindResource, name: rawjson.Text(rawjson.Get(ref, "uri"))}
	}
	return wish{}
}

// called reads what a tools/call asks for: a tool by its listed name, or an entry by a meta-tool.
func (p *probes) called(ctx context.Context, name string, arguments json.RawMessage) wish {
	switch name {
	case ToolExecute, ToolHydrate:
		arguments = understoodExecute(arguments)
		name = rawjson.Text(rawjson.Get(arguments, "tool_id"))
		arguments = rawjson.Get(arguments, "args")
	case ResourceRead:
		name = rawjson.Text(rawjson.Get(understoodRead(arguments), "resource_id"))
		return wish{primitive.KindResource, name, rawjson.Quote(name)}
	case PromptGet:
		return wish{primitive.KindPrompt, rawjson.Text(rawjson.Get(arguments, "prompt_id")), rawjson.Get(arguments, "args")}
	}
	for _, face := range p.faces.callable(choiceOf(ctx)) {
		if id := face.lists.main.idOf(name); id != "" {
			name = id
			break
		}
	}
	return wish{primitive.KindTool, name, arguments}
}

// entries returns the entries of a snapshot that a name may mean.
func (w *wish) entries(whole *Snapshot) []*catalog.Entry {
	if e, ok := whole.Catalog.Lookup(w.name); ok {
		return []*catalog.Entry{e}
	}
	switch w.kind {
	case primitive.KindTool:
		if ids := wholeIDs(whole.Catalog, w.name); len(ids) == 1 {
			if e, ok := whole.Catalog.Lookup(ids[0]); ok {
				return []*catalog.Entry{e}
			}
		}
		return nil
	case primitive.KindPrompt:
		return whole.Catalog.Named(primitive.KindPrompt, w.name)
	}
	return slices.Concat(whole.Catalog.Named(primitive.KindTemplate, w.name), whole.Catalog.Named(primitive.KindResource, w.name), whole.madeBy(w.name))
}

// notFound reports whether a meta-tool has found no entry of a name.
func notFound(err error) bool {
	var own *result.Error
	return errors.As(err, &own) && (own.Code == result.HydrateFailed || own.Code == result.ResourceNotFound || own.Code == result.PromptNotFound)
}
