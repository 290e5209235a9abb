package calltest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/mcp"
)

// A Snapshot is the state of a catalog, as the handler under test keeps it.
type Snapshot[S any] interface {
	With(l primitive.Listing) (S, catalog.Report)
}

// Fleet is a few servers in memory. Its fields may be changed while it is used, with Mu held.
type Fleet[S Snapshot[S]] struct {
	Mu     sync.Mutex // guards below
	Listed S
	Peers  map[string]Peer
	Others map[string]mcp.Peer // in place of Peers
	calls  []string
}

// NewFleet returns a Fleet without servers. empty lists nothing.
func NewFleet[S Snapshot[S]](empty S) *Fleet[S] {
	return &Fleet[S]{Listed: empty, Peers: map[string]Peer{}, Others: map[string]mcp.Peer{}}
}

// Peer answers tools/call.
type Peer func(ctx context.Context, params json.RawMessage, back mcp.Handler) (json.RawMessage, error)

// member is one server of a Fleet.
type member struct {
	name string
	call Peer
	note func(call string)
}

func (m member) Call(ctx context.Context, method string, params json.RawMessage, back mcp.Handler) (json.RawMessage, error) {
	m.note(m.name + " " + string(params))
	if method != "tools/call" {
		return nil, mcp.MethodNotFound(method)
	}
	return m.call(ctx, params, back)
}

func (m member) Notify(context.Context, string, json.RawMessage) error { return nil }

func (f *Fleet[S]) note(call string) {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	f.calls = append(f.calls, call)
}

// Peer returns the server of a name.
func (f *Fleet[S]) Peer(_ context.Context, upstream string) (mcp.Peer, error) {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	if p := f.Others[upstream]; p != nil {
		return p, nil
	}
	if f.Peers[upstream] == nil {
		return nil, mcp.Errorf(mcp.KindUpstreamUnavailable, "server %q is down", upstream)
	}
	return member{upstream, f.Peers[upstream], f.note}, nil
}

// Snapshot returns what the servers list.
func (f *Fleet[S]) Snapshot() S {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	return f.Listed
}

// Add lists the tools of a server, in place of those that it has. Its calls go to peer; nil leaves the one it has.
func (f *Fleet[S]) Add(upstream string, peer Peer, tools ...string) {
	f.List(primitive.Listing{Upstream: upstream, Namespace: upstream, Tools: Raws(tools...)})
	f.Mu.Lock()
	defer f.Mu.Unlock()
	if peer != nil {
		f.Peers[upstream] = peer
	}
}

// List takes a listing in place of the one that its server has.
func (f *Fleet[S]) List(l primitive.Listing) {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	f.Listed, _ = f.Listed.With(l)
}

// Attach takes the listing of a server, and sends its calls to p.
func (f *Fleet[S]) Attach(l primitive.Listing, p mcp.Peer) {
	f.List(l)
	f.Mu.Lock()
	defer f.Mu.Unlock()
	f.Others[l.Upstream] = p
}

// Called returns the calls that reached servers of Peers, as "server params".
func (f *Fleet[S]) Called() []string {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	return slices.Clone(f.calls)
}

// ReadTool is a tool with a required argument, a title and a tag.
const ReadTool = `{"name":"read_file","title":"Read","description":"Read a file from disk.","inputSchema":{"type":"object","properties":{"path":{"type":"string"},"limit":{"type":"integer"}},"required":["path"]},"annotations":{"readOnlyHint":true}}`

// SumTool is a tool that takes a list of rows.
const SumTool = `{"name":"sum","description":"Sum.","inputSchema":{"type":"object","properties":{"label":{"type":"string"},"rows":{"type":"array","minItems":2,"maxItems":40,"items":{"type":"object","properties":{"event":{"type":"string"},"wind":{"type":"number"}},"required":["event"],"additionalProperties":false}},"nested":{"type":"array"}},"additionalProperties":false},"annotations":{"readOnlyHint":true}}`

// GetTool is a read-only tool with a version.
const GetTool = `{"name":"get","description":"Get a thing.","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true},"_meta":{"version":"1"}}`

// Echo answers with the arguments as text.
func Echo(_ context.Context, params json.RawMessage, _ mcp.Handler) (json.RawMessage, error) {
	return json.RawMessage(Text(string(rawjson.Get(params, "arguments")))), nil
}

// Say answers every call with a result.
func Say(result string) Peer {
	return func(context.Context, json.RawMessage, mcp.Handler) (json.RawMessage, error) {
		return json.RawMessage(result), nil
	}
}

// Fail answers every call with an error.
func Fail(err error) Peer {
	return func(context.Context, json.RawMessage, mcp.Handler) (json.RawMessage, error) { return nil, err }
}

// Counted answers each call with its number.
func Counted() Peer {
	var n atomic.Int64
	return func(_ context.Context, params json.RawMessage, _ mcp.Handler) (json.RawMessage, error) {
		return json.RawMessage(Text(fmt.Sprint("answer ", n.Add(1)))), nil
	}
}

// Text returns a tool result with blocks of text.
func Text(texts ...string) string {
	var blocks []string
	for _, text := range texts {
		blocks = append(blocks, `{"type":"text","text":`+string(rawjson.Quote(text))+`}`)
	}
	return `{"content":[` + strings.Join(blocks, ",") + `]}`
}

// Raws returns definitions as a Listing has them.
func Raws(defs ...string) (list []json.RawMessage) {
	for _, d := range defs {
		list = append(list, json.RawMessage(d))
	}
	return list
}
