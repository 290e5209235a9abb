package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/gateway/dispatch"
	"github.com/weir-mcp/weir/internal/gateway/result"
	"github.com/weir-mcp/weir/internal/rawjson"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/s2sp/plane"
)

var executeKeys = []string{"tool_id", "args", "dry_run", plane.ParamDomains, plane.ParamMode}

// execute answers tool_execute (spec/gateway §4.2).
func (g *Gateway) execute(ctx context.Context, c *metaCall) (json.RawMessage, error) {
	var out [5][]byte
	if err := c.read(ToolExecute, executeKeys, out[:]); err != nil {
		return nil, err
	}
	switch string(out[2]) {
	case "", "false":
	case "true":
		c.dryRun = true
	default:
		return nil, metaArgs(ToolExecute, "dry_run must be true or false, not %s", text.Value(out[2]))
	}
	from := g.opts.Upstreams.Snapshot().Catalog
	entry, repaired, err := g.lookup(c, from, out[0])
	if err != nil {
		return nil, err
	}
	c.entry = entry
	c.state.hydrated(from, entry.ID, g.opts.CacheStable)
	if out[1] == nil {
		out[1] = []byte("{}")
	}
	call := &dispatch.Call{Request: c.request, Entry: entry, Args: out[1], Domains: out[3], Mode: out[4], DryRun: c.dryRun, Catalog: from, Ledger: &c.state.ledger, Waiting: c.state,
		Provenance: result.Provenance{Tool: entry.RawName, Protocol: "mcp", ToolID: entry.ID, Selection: repaired}}
	raw, err := g.dispatch.Dispatch(ctx, call)
	c.attempts, c.cacheHit, c.raw = call.Attempts, call.Provenance.CacheHit, call.Answer
	switch {
	case err != nil:
		return nil, err
	case call.Report != nil && c.format == result.FormatJSON:
		return result.Texts(call.Report, string(call.Report)), nil
	case call.Report != nil:
		return result.Texts(nil, string(call.Report)), nil
	}
	firewall := g.opts.Firewall
	if detect := g.opts.Tables.Detect; detect != nil {
		firewall.Tables = detect(entry.Upstream)
	}
	if !g.holdsBack() {
		firewall.ThresholdChars = math.MaxInt32 // there is no tool_view to read the rest with
	}
	if !g.holdsBack() && c.format != result.FormatJSON {
		c.isError = string(rawjson.Get(raw, "isError")) == "true"
		return raw, nil
	}
	principal := c.request.Session.Principal()
	answer, about, err := firewall.Shape(raw, &call.Provenance, c.format, func(mediaType, label string, data []byte) (artifact.Artifact, error) {
		return g.opts.Artifacts.Put(ctx, principal, mediaType, label, data)
	})
	if err != nil {
		return nil, &result.Error{Code: result.UpstreamError, Cause: err,
			Message: fmt.Sprintf("server %q answered %s with something that is no tool result", entry.Upstream, entry.ID)}
	}
	c.passed, c.isError = about.Tokens, about.IsError
	return answer, nil
}

// lookup finds the tool that a tool_id names in a catalog. Only the exact id
// does: a prefix or a guess could run another tool than the one that was meant.
// For tool_execute, an id that differs only in case from exactly one that the
// session was offered is repaired, and the repair is returned.
func (g *Gateway) lookup(c *metaCall, from *catalog.Catalog, raw []byte) (*catalog.Entry, *result.Selection, error) {
	if raw == nil {
		return nil, nil, metaArgs(c.name, "tool_id is missing")
	}
	id, err := rawjson.String(raw)
	if err != nil {
		return nil, nil, metaArgs(c.name, "tool_id must be a string, not %s", text.Value(raw))
	}
	e, ok := from.Lookup(id)
	if !ok {
		if listed := g.lists.idOf(id); listed != "" {
			e, ok = from.Lookup(listed)
		}
	}
	if ok && e.Kind == catalog.KindTool {
		return e, nil, nil
	}
	if !ok && c.name == ToolExecute {
		if e, repaired := c.state.repair(from, id); e != nil {
			return e, repaired, nil
		}
	}
	if !ok {
		if e := g.outages.absent(id); e != nil {
			return nil, nil, e
		}
	}
	fail := &result.Error{Code: result.HydrateFailed}
	var nearest []string
	if ok {
		fail.Message = notTheKind(e, g.opts.Mode == ModeProxy)
	} else {
		// What is near has to be a tool, whatever kind the id says that it is of.
		body := id
		if _, after, found := strings.Cut(id, "::"); found {
			body = after
		}
		nearest = from.Nearest(body, 5)
		fail.Message = fmt.Sprintf("no tool has the id %q", text.Fit(id, 120))
		if len(nearest) > 0 {
			fail.Message += "; close to it: " + strings.Join(nearest[:min(3, len(nearest))], ", ")
		} else {
			fail.Message += "; find tools with " + g.lists.discovery()
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
