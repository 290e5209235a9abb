package metatool

import (
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/flow"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
	"github.com/weir-mcp/weir/mcp"
)

// BenchmarkFlow prints what labels cost: the time of a client's call in mode observe in percent of one without labels,
// over the fastest connection that there is, a pipe in memory, to a server that answers at once. The two take turns, and the median of all turns counts, so that a busy machine slows both.
func BenchmarkFlow(b *testing.B) {
	run := func(mode config.FlowMode) func() {
		h := newHarness(b, Options{Flow: flow.New(config.Flow{Mode: mode}, nil)})
		h.Add("mail", calltest.Say(jsonText(map[string]any{"from": "ann@example.com", "text": "Hello."})), tool("read", true))
		here, there := mcp.Pipe()
		server := mcp.NewConn(there, mcp.ConnOptions{Name: "gateway", Handler: &mcp.Lifecycle{ServerInfo: json.RawMessage(`{"name":"weir","version":"1"}`), Capabilities: func(*mcp.Request) json.RawMessage { return h.g.Capabilities(b.Context()) }, Next: h.g}, Session: mcp.NewSession("s1", "ann")})
		client := mcp.NewConn(here, mcp.ConnOptions{Name: "client", Client: true})
		b.Cleanup(func() { client.Close(); server.Close() })
		if _, err := mcp.Handshake(b.Context(), client, json.RawMessage(`{"name":"c","version":"1"}`), json.RawMessage("{}"), mcp.V20251125); err != nil {
			b.Fatal(err)
		}
		params := json.RawMessage(fmt.Sprintf(`{"name":"tool_execute","arguments":{"tool_id":%q,"args":{"to":"x"}}}`, h.ID(b, "mail", "read")))
		return func() {
			if _, err := client.Call(b.Context(), "tools/call", params, nil); err != nil {
				b.Fatal(err)
			}
		}
	}
	off, observe := run(config.FlowOff), run(config.FlowObserve)
	const turn = 20
	took := func(call func()) float64 {
		start := time.Now()
		for range turn {
			call()
		}
		return float64(time.Since(start).Nanoseconds()) / turn
	}
	took(off)
	took(observe)
	runtime.GC()
	var percents, more []float64
	for b.Loop() {
		without, with := took(off), took(observe)
		percents, more = append(percents, with/without*100), append(more, with-without)
	}
	slices.Sort(percents)
	slices.Sort(more)
	b.ReportMetric(percents[len(percents)/2], "%-of-off")
	b.ReportMetric(more[len(more)/2], "ns-more/call")
}
