package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/gateway/result"
	"github.com/weir-mcp/weir/internal/rawjson"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/internal/visible"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/s2sp/plane"
)

// Call is one execution of a tool on its way through the dispatch chain.
type Call struct {
	// Request is the agent's tools/call of tool_execute.
	Request *mcp.Request
	// Entry is the tool.
	Entry *catalog.Entry
	// Args are the raw arguments, a JSON value; a link may replace them by
	// others.
	Args json.RawMessage
	// Provenance ends up in the result's envelope.
	Provenance result.Provenance
	// DryRun asks for a report instead of a result: what stands behind the
	// DryRun link is not run.
	DryRun bool
	// Attempts counts how often the upstream was asked.
	Attempts int

	// Asked says that the upstream has asked the agent something, so that the
	// result depends on more than the arguments.
	Asked bool

	pass    pass             // that the controls have given
	params  json.RawMessage  // those of Request as they were judged; nil: Request's own
	uri     string           // of a resource that is read
	onAsk   func()           // called when the upstream asks the agent something; may be nil
	method  string           // at the upstream; "" is tools/call
	tables  *tableArgs       // of arguments with $table references
	key     json.RawMessage  // what the cache takes for Args, nil: Args
	catalog *catalog.Catalog // the one that Entry was found in
	state   *sessionState
	policy  string          // status of the policy, "" where there is none
	report  json.RawMessage // of a dry run: the answer, which is no tool result
}

// Dispatcher takes a call to its raw result. It is called concurrently. The
// error is an *Error, or the context's own where the agent went away.
type Dispatcher interface {
	Dispatch(ctx context.Context, c *Call) (json.RawMessage, error)
}

// DispatcherFunc is a function as a Dispatcher.
type DispatcherFunc func(ctx context.Context, c *Call) (json.RawMessage, error)

// Dispatch calls f.
func (f DispatcherFunc) Dispatch(ctx context.Context, c *Call) (json.RawMessage, error) {
	return f(ctx, c)
}

// Middleware is a link of the dispatch chain. It answers, or changes the call
// and hands it on.
type Middleware func(Dispatcher) Dispatcher

// chain wraps d so that the first link is the outermost.
func chain(d Dispatcher, links ...Middleware) Dispatcher {
	for i := len(links) - 1; i >= 0; i-- {
		d = links[i](d)
	}
	return d
}

var executeKeys = []string{"tool_id", "args", "dry_run", plane.ParamDomains, plane.ParamMode}

// execute answers tool_execute (gateway-surface §4.2).
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
	choice, err := readSelected(out[3], out[4])
	if err != nil {
		return nil, err
	}
	choice, args, err := g.selecting(choice, entry, out[1])
	if err == nil {
		err = g.mayKeep(choice)
	}
	if err != nil {
		return nil, err
	}
	call := &Call{Request: c.request, Entry: entry, Args: args, DryRun: c.dryRun, catalog: from, state: c.state,
		Provenance: result.Provenance{Tool: entry.RawName, Protocol: "mcp", ToolID: entry.ID, Selection: repaired}}
	raw, err := g.dispatch.Dispatch(ctx, call)
	c.attempts, c.cacheHit = call.Attempts, call.Provenance.CacheHit
	switch {
	case err != nil:
		return nil, err
	case call.report != nil && c.format == result.FormatJSON:
		return result.Texts(call.report, string(call.report)), nil
	case call.report != nil:
		return result.Texts(nil, string(call.report)), nil
	}
	c.raw = raw
	if raw, err = g.split(ctx, call, choice, raw); err != nil {
		return nil, err
	}
	firewall := g.opts.Firewall
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
	if !ok && g.opts.Mode == ModeProxy {
		if listed := g.proxyTools().ids[id]; listed != "" {
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
		if e := g.absent(id); e != nil {
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
			fail.Message += "; find tools with " + g.discovery()
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

// discovery is what an agent finds tools with.
func (g *Gateway) discovery() string {
	if g.opts.Mode == ModeProxy {
		return "tools/list"
	}
	return ToolBrowse
}

// upstreamParams are the agent's params with the upstream's own name and the
// arguments put in, or the URI of a resource. Everything else stays: the progress token, the
// answers of a round of input and what later versions add.
func upstreamParams(c *Call) (json.RawMessage, error) {
	// The agent's params hold the arguments already: room for both would double
	// what a large call costs. Other arguments, put in by a link, may make it grow.
	params := c.Request.Params
	if c.params != nil {
		params = c.params
	}
	room := max(len(params), len(c.Args)) + len(c.Entry.RawName) + 64
	out := make([]byte, 0, room)
	if c.method == methodRead {
		out = append(append(out, `{"uri":`...), c.Args...)
	} else {
		out = append(out, `{"name":`...)
		out = rawjson.AppendString(out, c.Entry.RawName)
		out = append(out, `,"arguments":`...)
		out = append(out, c.Args...)
	}
	var failed error
	err := rawjson.EachMember(params, func(m rawjson.Member) bool {
		value := m.Value
		// Servers that do not mind case would take a "Name" for the name.
		switch key := string(m.Key); {
		case strings.EqualFold(key, "name"), strings.EqualFold(key, "arguments"), c.method == methodRead && strings.EqualFold(key, "uri"):
			return true
		case key == "_meta":
			if !rawjson.IsObject(value) {
				break
			}
			if value, failed = rawjson.Delete(value, result.MetaFormat); failed != nil || string(value) == "{}" {
				return failed == nil
			}
		}
		out = append(out, ',')
		out = rawjson.AppendString(out, string(m.Key))
		out = append(append(out, ':'), value...)
		return true
	})
	if err := errors.Join(err, failed); err != nil {
		return nil, mcp.Errorf(mcp.KindInvalidParams, "tools/call: %v", err)
	}
	return append(out, '}'), nil
}

var hydrateKeys = []string{"tool_id"}

// shownSchema is a definition, or a part of one, as a model reads it: as the upstream wrote
// it, without what nobody sees.
func shownSchema(e *catalog.Entry, raw []byte) []byte {
	if e.Hidden == 0 {
		return raw
	}
	return catalog.VisibleTexts(raw)
}

// hydrate answers tool_hydrate (gateway-surface §4.3) with the definition as
// the upstream wrote it.
func (g *Gateway) hydrate(ctx context.Context, c *metaCall) (json.RawMessage, error) {
	var out [1][]byte
	if err := c.read(ToolHydrate, hydrateKeys, out[:]); err != nil {
		return nil, err
	}
	from := g.opts.Upstreams.Snapshot().Catalog
	e, _, err := g.lookup(c, from, out[0])
	if err != nil {
		return nil, err
	}
	c.entry = e
	a := act{request: c.request, verb: ToolHydrate, count: ToolHydrate, about: []subject{{entry: e}}, ledger: &c.state.ledger}
	if _, err := g.ctl.admit(ctx, &a); err != nil {
		return nil, err
	}
	c.state.hydrated(from, e.ID, g.opts.CacheStable)
	doc := []byte(`{"tool_id":`)
	doc = rawjson.AppendString(doc, e.ID)
	member := func(key string, value []byte) {
		if len(value) > 0 {
			doc = append(append(append(doc, ',', '"'), key...), '"', ':')
			doc = append(doc, value...)
		}
	}
	member("name", rawjson.Quote(e.RawName))
	if e.Title != "" {
		member("title", rawjson.Quote(visible.Text(e.Title)))
	}
	member("description", rawjson.Quote(visible.Text(e.Description)))
	schema := e.InputSchema
	if schema == nil {
		schema = json.RawMessage(`{"type":"object"}`)
	}
	member("inputSchema", shownSchema(e, schema))
	member("outputSchema", shownSchema(e, e.OutputSchema))
	member("annotations", shownSchema(e, e.Annotations))
	doc = append(doc, '}')
	if c.format == result.FormatJSON {
		return result.Texts(doc, string(doc)), nil
	}
	return result.Texts(nil, string(doc)), nil
}
