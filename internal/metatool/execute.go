package metatool

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/internal/tables"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/s2sp/plane"
)

var executeKeys = []string{"tool_id", "args", "dry_run", plane.ParamDomains, plane.ParamMode}

// finder resolves the tool, resource or prompt that a call of a meta-tool names.
type finder struct {
	upstreams Upstreams
	lists     *listing
	outages   outages
	store     tables.Store
	links     *links
	stable    bool // see Options.CacheStable
}

// step returns the step that finds the entry of a call with one of the functions of f.
func (f *finder) step(find func(ctx context.Context, c *dispatch.Call) error) dispatch.Step {
	return dispatch.Step{Phase: dispatch.PhaseFind, Name: "find", Before: find}
}

// execute parses a call of tool_execute (spec/gateway §4.2) and finds its tool.
func (f *finder) execute(_ context.Context, c *dispatch.Call) error {
	var out [5][]byte
	if err := readArguments(c, executeKeys, out[:]); err != nil {
		// Only arguments in another form are refused here, so the usual form is read once.
		c.Arguments = understoodExecute(c.Arguments)
		clear(out[:])
		if err := readArguments(c, executeKeys, out[:]); err != nil {
			return err
		}
	}
	switch string(out[2]) {
	case "", "false":
	case "true":
		c.DryRun = true
	default:
		return metaArgs(ToolExecute, "dry_run must be true or false, not %s", text.Value(out[2]))
	}
	repaired, err := f.tool(c, out[0])
	if err != nil {
		return err
	}
	sessionOf(c).hydrated(c.Catalog, c.Entry.ID, f.stable)
	if out[1] == nil {
		out[1] = []byte("{}")
	}
	c.Args, c.Split.Asked, c.Split.AskedMode = out[1], out[3], out[4]
	c.Provenance = result.Provenance{Tool: c.Entry.RawName, Protocol: "mcp", ToolID: c.Entry.ID, Selection: repaired}
	return nil
}

// tool stores in c the tool of a tool_id, and the catalog that contains it. If tool_execute was
// called with an id that had to be repaired, it returns the repair.
func (f *finder) tool(c *dispatch.Call, raw []byte) (*result.Selection, error) {
	from := f.upstreams.Snapshot().Catalog
	e, repaired, err := f.lookup(c, from, raw)
	if err != nil {
		return nil, err
	}
	c.Catalog, c.Entry = from, e
	return repaired, nil
}

// lookup finds the tool of a tool_id in a catalog. The id must be exact: a prefix or a guess could
// run the wrong tool. There are two exceptions, for tool_execute, in which lookup returns the repair: an
// id that differs only in case from exactly one offered id, and an id that lacks only the version or
// the hash of exactly one tool that the session was shown as it is now.
func (f *finder) lookup(c *dispatch.Call, from *catalog.Catalog, raw []byte) (*catalog.Entry, *result.Selection, error) {
	if raw == nil {
		return nil, nil, metaArgs(c.Verb, "tool_id is missing")
	}
	id, err := rawjson.String(raw)
	if err != nil {
		return nil, nil, metaArgs(c.Verb, "tool_id must be a string, not %s", text.Value(raw))
	}
	e, ok := from.Lookup(id)
	if !ok {
		if listed := f.lists.idOf(id); listed != "" {
			e, ok = from.Lookup(listed)
		}
	}
	if ok && e.Kind == primitive.KindTool {
		return e, nil, nil
	}
	if !ok && c.Verb == ToolExecute {
		if e, repaired := sessionOf(c).repair(from, id); e != nil {
			return e, repaired, nil
		}
	}
	if !ok {
		if e := f.outages.absent(id); e != nil {
			return nil, nil, e
		}
	}
	fail := &result.Error{Code: result.HydrateFailed}
	var nearest []string
	if ok {
		fail.Message = notTheKind(e, f.lists.mode != ModeGateway)
	} else {
		// Suggestions must be tools, even if the id has the form of another kind.
		body := id
		if _, after, found := strings.Cut(id, "::"); found {
			body = after
		}
		if artifact.IsHandle(id) {
			fail.Message = fmt.Sprintf(`%s is the handle of a result and no tool_id: read it with tool_view {"handle":%[1]q,"selector":{"type":"head"}}`, text.Fit(id, 60))
			return nil, nil, fail
		}
		nearest = wholeIDs(from, body)
		whole := len(nearest) > 0
		if !whole {
			nearest = from.Nearest(body, 5)
		}
		switch fail.Message = fmt.Sprintf("no tool has the id %q", text.Fit(id, 120)); {
		case whole:
			fail.Message = "part of a tool_id; call again with all of it: " + strings.Join(nearest, ", or ")
		case len(nearest) > 0:
			fail.Message += "; close to it: " + nearest[0]
		default:
			fail.Message += "; find tools with " + f.lists.discovery()
		}
	}
	fail.Details = append(json.RawMessage(nil), `{"nearest":[`...)
	for i, id := range nearest {
		if i > 0 {
			fail.Details = append(fail.Details, ',')
		}
		fail.Details = rawjson.AppendString(fail.Details, id)
	}
	fail.Details = append(fail.Details, `]}`...)
	return nil, nil, fail
}

// wholeIDs returns the ids of tools of which an id lacks only the version or the hash, at most three.
func wholeIDs(from *catalog.Catalog, id string) []string {
	if id == "" {
		return nil
	}
	near := slices.DeleteFunc(from.Nearest(id, 5), func(one string) bool { return !isPart(id, one) })
	return near[:min(len(near), 3)]
}
