package calltest

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/mcp"
)

// Harness is a client of a handler over a Fleet.
type Harness[S Snapshot[S]] struct {
	*Fleet[S]
	Store     *artifact.Local // of kept results, for the handler
	Session   *mcp.Session
	Handler   mcp.Handler // set before the first call
	catalogOf func(S) *catalog.Catalog
}

// New returns a harness with the servers "files", whose tools are read_file and drop, and "web", whose tool is search.
// All of them echo. empty lists nothing, and catalogOf returns the catalog of a snapshot.
func New[S Snapshot[S]](t testing.TB, empty S, catalogOf func(S) *catalog.Catalog) *Harness[S] {
	t.Helper()
	f := NewFleet(empty)
	f.Add("files", Echo, ReadTool, `{"name":"drop","description":"Delete a file.","inputSchema":{"type":"object"},"annotations":{"destructiveHint":true}}`)
	f.Add("web", Echo, `{"name":"search","description":"Search the web for pages.","inputSchema":{"type":"object","properties":{"q":{"type":"string"}}}}`)
	h := &Harness[S]{Fleet: f, Store: artifact.NewMemory(artifact.Options{}), Session: mcp.NewSession("s", "ann"), catalogOf: catalogOf}
	t.Cleanup(func() { h.Store.Close() })
	t.Cleanup(h.Session.Close)
	return h
}

// ID returns the id of an entry, by the name that its server gives it.
func (h *Harness[S]) ID(t testing.TB, upstream, name string) string {
	t.Helper()
	for _, e := range h.catalogOf(h.Snapshot()).Of(upstream) {
		if e.RawName == name {
			return e.ID
		}
	}
	t.Fatalf("no entry %s of %s", name, upstream)
	return ""
}

// request returns a request of the harness's session.
func (h *Harness[S]) request(method, params string) *mcp.Request {
	return &mcp.Request{ID: "1", Method: method, Params: json.RawMessage(params), Version: mcp.V20251125, Session: h.Session, Peer: mcp.NoPeer}
}

// Ask sends a request.
func (h *Harness[S]) Ask(t testing.TB, method, params string) (json.RawMessage, error) {
	t.Helper()
	return h.Handler.Serve(t.Context(), h.request(method, params))
}

// AskAs is Ask for a caller.
func (h *Harness[S]) AskAs(ctx context.Context, id *identity.Identity, method, params string) (json.RawMessage, error) {
	return h.Handler.Serve(identity.With(ctx, id), h.request(method, params))
}

// Tool calls a tool of the handler. The answer of a meta-tool has its envelope.
func (h *Harness[S]) Tool(t testing.TB, name, arguments string) Answer {
	t.Helper()
	return h.Raw(t, fmt.Sprintf(`{"name":%q,"arguments":%s}`, name, arguments))
}

// AsJSON is Tool with the answer for programs, whose envelope has the summary and the facts.
func (h *Harness[S]) AsJSON(t testing.TB, name, arguments string) Answer {
	t.Helper()
	return h.Raw(t, fmt.Sprintf(`{"name":%q,"arguments":%s,"_meta":{"weir/format":"json"}}`, name, arguments))
}

// Raw sends tools/call with parameters.
func (h *Harness[S]) Raw(t testing.TB, params string) Answer {
	t.Helper()
	out, err := h.Ask(t, "tools/call", params)
	if err != nil {
		t.Fatalf("%s: %v", params, err)
	}
	return read(t, out)
}

// Execute calls a tool of a server with tool_execute; more are further members of its arguments.
func (h *Harness[S]) Execute(t testing.TB, upstream, tool, args, more string) Answer {
	t.Helper()
	return h.Tool(t, "tool_execute", fmt.Sprintf(`{"tool_id":%q,"args":%s%s}`, h.ID(t, upstream, tool), args, more))
}

// Library attaches a Shelf as the server "docs".
func (h *Harness[S]) Library() *Shelf {
	s := NewShelf()
	h.Attach(Docs(), s)
	return s
}
