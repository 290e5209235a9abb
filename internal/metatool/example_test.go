package metatool_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/mcp"
)

// clock is an upstream with one tool.
type clock struct{ snapshot *metatool.Snapshot }

func (c clock) Snapshot() *metatool.Snapshot                        { return c.snapshot }
func (c clock) Peer(context.Context, string) (mcp.Peer, error)      { return c, nil }
func (clock) Notify(context.Context, string, json.RawMessage) error { return nil }
func (clock) Call(context.Context, string, json.RawMessage, mcp.Handler) (json.RawMessage, error) {
	return json.RawMessage(`{"content":[{"type":"text","text":"12:00"}]}`), nil
}

func Example() {
	snapshot, _ := metatool.NewSnapshot(catalog.Limits{}).With(primitive.Listing{
		Upstream: "clock", Namespace: "clock",
		Tools: []json.RawMessage{json.RawMessage(`{"name":"now","description":"Tell the time.","inputSchema":{"type":"object"},"_meta":{"version":"1"}}`)},
	})
	store := artifact.NewMemory(artifact.Options{})
	defer store.Close()
	g := metatool.New(metatool.Options{Upstreams: clock{snapshot}, Artifacts: store})

	ask := func(params string) {
		result, err := g.Serve(context.Background(), &mcp.Request{
			ID: "1", Method: "tools/call", Params: json.RawMessage(params),
			Session: mcp.NewSession("", mcp.LocalPrincipal), Peer: mcp.NoPeer,
		})
		fmt.Println(string(rawjson.Get(result, "content")), err)
	}
	ask(`{"name":"tool_browse","arguments":{"query":"what time is it"}}`)
	ask(`{"name":"tool_execute","arguments":{"tool_id":"clock:now@1","args":{}}}`)
	// Output:
	// [{"type":"text","text":"clock:now@1 (tool) — Tell the time. side-effects"}] <nil>
	// [{"type":"text","text":"12:00"}] <nil>
}
