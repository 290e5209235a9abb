package metatool

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/policy/hook"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/mcp"
)

// Where the policy hides entries, it hides them from direct calls as well: a server's lists lose
// the entries that the caller could not call, and calls of those get the answer for an unknown
// name. A tool or prompt that the catalog does not list at a server counts as unknown there: the
// server's own answer would tell an unknown name from a hidden one.

// listed are the methods whose results list entries: the member with the list, the kind of the
// entries and the member that names one.
var listed = map[string]struct {
	key  string
	kind primitive.Kind
	name string
}{
	"tools/list":               {"tools", primitive.KindTool, "name"},
	"prompts/list":             {"prompts", primitive.KindPrompt, "name"},
	"resources/list":           {"resources", primitive.KindResource, "uri"},
	"resources/templates/list": {"resourceTemplates", primitive.KindTemplate, "uriTemplate"},
}

// Shown returns the result of a direct call without the entries that the policy hides from the
// caller. It returns the result itself if it lists none. A list that it cannot read is an error, and
// so is a result that a hook refuses.
func (d *DirectCalls) Shown(ctx context.Context, places []Place, r *mcp.Request, result json.RawMessage) (json.RawMessage, error) {
	if err := d.admitResult(ctx, places, r, result); err != nil {
		return nil, err
	}
	method := r.Method
	of, lists := listed[method]
	if !lists || len(places) == 0 || !d.ctl.Policy.Hides() {
		return result, nil
	}
	list, err := rawjson.Sole(result, of.key)
	if err != nil || list != nil && !rawjson.IsArray(list) {
		return nil, mcp.Errorf(mcp.KindUpstreamUnavailable, "%s: the server's answer cannot be read, so that nothing of it is shown", method)
	}
	if list == nil {
		return result, nil
	}
	d.await(ctx, places)
	to := target{snapshot: d.whole(ctx), places: places}
	sight := d.ctl.Policy.SightOf(identity.From(ctx), "")
	out, hidden := []byte{'['}, 0
	err = rawjson.EachElement(list, func(v []byte) bool {
		name, err := soleString(v, of.name)
		if err != nil || !to.shows(sight, of.kind, name) {
			hidden++
			return true
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, v...)
		return true
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", method, err) // cannot happen: it is an array
	case hidden == 0:
		return result, nil
	}
	return rawjson.Set(result, of.key, append(out, ']'))
}

// admitResult asks the hooks about the result of a direct call. Lists are no results of calls.
func (d *DirectCalls) admitResult(ctx context.Context, places []Place, r *mcp.Request, result json.RawMessage) error {
	if !d.ctl.Hooks.Asks(hook.Result) || len(places) == 0 || slices.Contains(freeMethods, r.Method) || r.Method == methodListen {
		return nil
	}
	to := target{snapshot: d.whole(ctx), places: places}
	a := dispatch.Act{Request: r, Verb: ToolExecute, Direct: true}
	if err := to.read(&a); err != nil {
		return err // cannot happen: Judge has read it
	}
	return asProtocol(d.ctl.AdmitResult(ctx, &a, result))
}

// shows reports whether an entry that a server lists exists for a caller.
func (t *target) shows(sight *dispatch.Sight, kind primitive.Kind, name string) bool {
	var about []dispatch.Subject
	switch kind {
	case primitive.KindResource:
		about = t.snapshot.readable(t.places, name)
	case primitive.KindTemplate:
		about = t.snapshot.completable(t.places, name)
	default:
		about = t.snapshot.called(t.places, kind, name)
		if t.lists(kind) && isUnlisted(about) {
			return false
		}
	}
	return sight.Sees(dispatch.VerbOf(kind), about)
}

// unknown reports whether an act names a tool or prompt that the catalog does not list, at servers
// whose tools or prompts it lists.
func (t *target) unknown(a *dispatch.Act) bool {
	if t.name == "" || !isUnlisted(a.About) {
		return false
	}
	switch a.Verb {
	case ToolExecute:
		return t.lists(primitive.KindTool)
	case PromptGet:
		return t.lists(primitive.KindPrompt)
	}
	return false
}

// isUnlisted reports whether none of the subjects is an entry of the catalog.
func isUnlisted(about []dispatch.Subject) bool {
	for _, s := range about {
		if s.Known == 0 {
			return false
		}
	}
	return true
}

// lists reports whether the catalog lists entries of a kind at the places.
func (t *target) lists(kind primitive.Kind) bool {
	for _, p := range t.places {
		for _, e := range t.snapshot.Catalog.Of(p.Upstream) {
			if e.Kind == kind {
				return true
			}
		}
	}
	return false
}

// notThere returns the error for a name that does not exist for the caller. It depends on nothing
// but the name.
func (t *target) notThere(a *dispatch.Act) error {
	switch {
	case t.name == "":
		return mcp.MethodNotFound(a.Request.Method)
	case a.Verb == ResourceRead:
		return noResource(t.name)
	case a.Verb == PromptGet:
		return mcp.Errorf(mcp.KindInvalidParams, "no prompt is called %q; prompts/list shows what there is", text.Fit(t.name, 120))
	}
	return mcp.Errorf(mcp.KindInvalidParams, "unknown tool %q: tools/list shows the tools here", text.Fit(t.name, 120))
}

// Whole returns all entries that may exist for the caller of a request, whatever policy and profile
// say.
func (d *DirectCalls) Whole(ctx context.Context) *Snapshot { return d.whole(ctx) }

// View returns the part of the catalog that exists for the caller of a request; see Gateway.View.
func (d *DirectCalls) View(ctx context.Context) *Snapshot { return d.state.front.Load().View(ctx) }
