// Package gateway shows thousands of tools at the price of three: an agent
// browses cards, executes a tool by its id, and views the parts it wants of a
// result that was too large to read.
//
// It is a Handler over any number of upstreams, which it knows only as Peers and
// as a snapshot of what they offer. It knows nothing of transports, of how
// upstreams are started or of configuration files.
//
//	tools/call tool_browse  ─▶ search.Index (query) or catalog.Catalog (path) ─▶ cards
//	tools/call tool_execute ─▶ catalog: exact tool_id ─▶ validate ─▶ … ─▶ dispatch ─▶ Peer of the upstream
//	                                                                          │ raw result
//	                           agent ◀── content blocks as they came, or ◀── firewall ─▶ artifact.Store
//	                                     a description, a handle, views                        │
//	tools/call tool_view    ─▶ handle, selector ───────────────────────────────────────────────┘
//
// The dispatch path is a chain of [Middleware], each in a file of its own:
// validate.go, and whatever [Options].Dispatch adds behind it. Failures that the gateway
// finds are tool results with isError and the error's JSON as text (errors.go);
// what the tool itself answers, its errors included, passes.
//
// In proxy mode (proxy.go) every tool is listed by itself, stripped of its
// schema, and executed through tool_execute all the same.
package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"

	"github.com/weir-mcp/weir/artifact"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/rawjson"
	"github.com/weir-mcp/weir/token"
)

// Upstreams is what a Gateway needs of the servers behind it. Both methods are
// called concurrently.
type Upstreams interface {
	// Peer returns the connection to an upstream by its configured name,
	// waking it if need be, for calls on behalf of the session that
	// mcp.Caller(ctx) names. The error is best an *mcp.Error, whose kind
	// decides the code that the agent sees.
	Peer(ctx context.Context, upstream string) (mcp.Peer, error)
	// Snapshot returns what there is now. It never returns nil, and what it
	// returned does not change.
	Snapshot() *Snapshot
}

// Mode is how tools are exposed.
type Mode uint8

// The modes (gateway-surface §4).
const (
	ModeGateway Mode = iota // three meta-tools
	ModeProxy               // every tool, stripped, and the meta-tools to use them
)

// Options of a Gateway. Upstreams and Artifacts must be set.
type Options struct {
	Upstreams Upstreams
	Artifacts artifact.Store

	Mode Mode
	// ProxyFirewall has results pass the firewall in proxy mode, too, and
	// lists tool_view there.
	ProxyFirewall bool
	// Names is how proxy mode writes tool ids in tools/list.
	Names NameForm
	// ExposeHydrate lists tool_hydrate in gateway mode.
	ExposeHydrate bool

	Firewall Firewall
	// Format is used where a request does not ask for one; FormatDefault is
	// FormatText.
	Format Format
	// MaxViewChars bounds what one tool_view shows; 0 is MaxViewChars.
	MaxViewChars int

	// Dispatch are the links of the dispatch chain between validation and the
	// call of the upstream, outermost first.
	Dispatch []Middleware
	// Redactor removes secrets from error messages; nil knows none by value.
	Redactor *Redactor
	// RedactResults has the Redactor's secrets replaced in results, too.
	RedactResults bool
	// Logger gets what operators need to know, errors in full; nil discards.
	Logger *slog.Logger
}

// Gateway serves tools/list and tools/call of /mcp. Put it behind an
// mcp.Lifecycle. It is safe for concurrent use and starts no goroutines.
type Gateway struct {
	opts     Options
	tools    json.RawMessage // the tools/list result in gateway mode
	meta     map[string]metaTool
	dispatch Dispatcher
	proxied  atomic.Pointer[proxyList] // of the newest snapshot seen
}

var _ mcp.Handler = (*Gateway)(nil)

// metaTool answers one meta-tool.
type metaTool func(ctx context.Context, c *metaCall) (json.RawMessage, error)

// New returns a Gateway.
func New(opts Options) *Gateway {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Format == FormatDefault {
		opts.Format = FormatText
	}
	if opts.Firewall.CountTokens == nil {
		opts.Firewall.CountTokens = token.Count
	}
	g := &Gateway{opts: opts}
	g.dispatch = chain(DispatcherFunc(g.call), append([]Middleware{Validate(g.keepSchema)}, opts.Dispatch...)...)
	g.meta = map[string]metaTool{ToolExecute: g.execute}
	switch {
	case opts.Mode == ModeProxy:
		g.meta[ToolHydrate] = g.hydrate
		if opts.ProxyFirewall {
			g.meta[ToolView] = g.view
		}
	default:
		g.meta[ToolBrowse] = g.browse
		g.meta[ToolView] = g.view
		if opts.ExposeHydrate {
			g.meta[ToolHydrate] = g.hydrate
		}
	}
	g.tools = slices.Clip(append(append([]byte(`{"tools":[`), g.definitions()...), `]}`...))
	return g
}

// Capabilities is the value for mcp.Lifecycle.
func (g *Gateway) Capabilities(*mcp.Request) json.RawMessage {
	return json.RawMessage(`{"logging":{},"tools":{}}`)
}

// Instructions tell a model in a few words how to use the gateway; the value
// for mcp.Lifecycle.
func (g *Gateway) Instructions() string {
	if g.opts.Mode == ModeProxy {
		return "The tools listed here are cards without schemas. Run one with tool_execute(tool_id, args); tool_hydrate(tool_id) shows its schema first."
	}
	return "Many tools of many servers are behind these: find one with tool_browse, run it with tool_execute, read more of a long result with tool_view."
}

// Serve implements mcp.Handler for tools/list and tools/call.
func (g *Gateway) Serve(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
	switch r.Method {
	case "tools/call":
		return g.callTool(ctx, r)
	case "tools/list":
		return g.listTools(r)
	}
	if r.IsNotification() {
		return nil, nil
	}
	return nil, mcp.MethodNotFound(r.Method)
}

// metaTTL is how long a client may keep the list of meta-tools: it changes only
// with the configuration.
const metaTTL = 300_000 // milliseconds

func (g *Gateway) listTools(r *mcp.Request) (json.RawMessage, error) {
	if cursor := rawjson.Get(r.Params, "cursor"); cursor != nil && string(cursor) != "null" {
		return nil, mcp.Errorf(mcp.KindInvalidParams, "tools/list: unknown cursor: the list has one page")
	}
	if g.opts.Mode == ModeProxy {
		list := g.proxyTools()
		if r.Modern() {
			return mcp.Cacheable(list.result, 0, "private"), nil
		}
		return list.result, nil
	}
	if r.Modern() {
		return mcp.Cacheable(g.tools, metaTTL, "public"), nil
	}
	return g.tools, nil
}

// metaCall is a tools/call of a meta-tool, taken apart once. All bytes are
// slices of the request's params.
type metaCall struct {
	request   *mcp.Request
	arguments json.RawMessage // nil where there are none
	format    Format
}

var callKeys = []string{"name", "arguments", "_meta"}

func (g *Gateway) callTool(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
	var fields [3][]byte
	if err := rawjson.Fields(r.Params, callKeys, fields[:]); err != nil {
		return nil, mcp.Errorf(mcp.KindInvalidParams, "tools/call: %v", err)
	}
	name, err := rawjson.String(fields[0])
	if err != nil {
		return nil, mcp.Errorf(mcp.KindInvalidParams, "tools/call: name must be a string")
	}
	tool := g.meta[name]
	if tool == nil {
		return nil, g.notMeta(name)
	}
	c := metaCall{request: r, arguments: fields[1], format: g.opts.Format}
	if fields[2] != nil {
		if c.format, err = formatOf(fields[2], g.opts.Format); err != nil {
			return nil, err
		}
	}
	result, err := tool(ctx, &c)
	if err == nil {
		return result, nil
	}
	var e *Error
	if !errors.As(err, &e) {
		return nil, err
	}
	if e.Cause != nil {
		g.opts.Logger.WarnContext(ctx, "a call failed", "tool", name, "code", e.Code, "err", e.Cause)
	}
	return g.errorResult(e, c.format), nil
}

// formatOf reads the format that a request asks for.
func formatOf(meta []byte, otherwise Format) (Format, error) {
	raw := rawjson.Get(meta, MetaFormat)
	switch string(raw) {
	case "", "null":
		return otherwise, nil
	case `"json"`:
		return FormatJSON, nil
	case `"text"`:
		return FormatText, nil
	}
	return 0, mcp.Errorf(mcp.KindInvalidParams, `_meta[%q] must be "text" or "json"`, MetaFormat)
}

// errorResult is a failure of the gateway as a tool result (gateway-surface
// §3.4).
func (g *Gateway) errorResult(e *Error, format Format) json.RawMessage {
	doc := e.AppendJSON(nil, g.opts.Redactor)
	out := append([]byte(`{"content":[`), appendTextBlock(nil, string(doc))...)
	out = append(out, ']')
	if format == FormatJSON {
		out = append(append(out, `,"structuredContent":`...), doc...)
	}
	return append(out, `,"isError":true}`...)
}

// textBlocks is a result of text blocks, empty ones left out beside others, and
// of structuredContent where there is some.
func textBlocks(structured []byte, texts ...string) json.RawMessage {
	var blocks []byte
	for _, text := range texts {
		if text != "" || len(texts) == 1 {
			blocks = appendTextBlock(blocks, text)
		}
	}
	out := append([]byte(`{"content":[`), blocks...)
	out = append(out, ']')
	if structured != nil {
		out = append(append(out, `,"structuredContent":`...), structured...)
	}
	return append(out, `,"isError":false}`...)
}
