package metatool

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/streamable"
)

// maxSessionBytes bounds what an idle session of the legacy era keeps in memory.
const maxSessionBytes = 3 << 10

// TestSessionMemory opens sessions at /mcp that list the tools, call one, and then say nothing. It
// fails where such a session keeps more than maxSessionBytes: heap and stacks, as the collector
// counts them.
func TestSessionMemory(t *testing.T) {
	h := newHarness(t, Options{})
	server := streamable.NewServer(streamable.ServerOptions{MaxSessions: 10_000, Handler: &mcp.Lifecycle{
		ServerInfo: json.RawMessage(`{"name":"weir","version":"1"}`), Capabilities: func(*mcp.Request) json.RawMessage { return h.g.Capabilities(t.Context()) }, Next: h.g,
	}})
	t.Cleanup(func() { _ = server.Shutdown(t.Context()) })
	post := func(session, body string) http.Header {
		r := httptest.NewRequest(http.MethodPost, "http://127.0.0.1/mcp", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		if session != "" {
			r.Header.Set("Mcp-Session-Id", session)
			r.Header.Set("Mcp-Protocol-Version", mcp.V20251125)
		}
		w := httptest.NewRecorder()
		server.ServeHTTP(w, r)
		if w.Code/100 != 2 || strings.Contains(w.Body.String(), `"error"`) {
			t.Fatalf("%s: %d %s", body, w.Code, w.Body)
		}
		return w.Result().Header
	}
	call := fmt.Sprintf(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"tool_execute","arguments":{"tool_id":%q,"arguments":{"q":"x"}}}}`, h.ID(t, "web", "search"))
	open := func(n int) {
		for range n {
			id := post("", `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"roots":{"listChanged":true}},"clientInfo":{"name":"probe","version":"1.0"}}}`).Get("Mcp-Session-Id")
			post(id, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
			post(id, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`)
			post(id, call)
		}
	}
	const n, tries = 1000, 4
	open(100) // so that tables and pools are there
	var each int64
	for range tries { // other tests, and maps that grow, may add to one measurement, hardly to all
		before := kept()
		open(n)
		if each = (kept() - before) / n; each <= maxSessionBytes {
			break
		}
	}
	t.Logf("%d bytes for each session", each)
	if each > maxSessionBytes {
		t.Errorf("an idle session keeps %d bytes, the bound is %d", each, maxSessionBytes)
	}
}

// kept returns the bytes of heap and stacks after the garbage is collected. What a pool holds takes
// two collections to go.
func kept() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
