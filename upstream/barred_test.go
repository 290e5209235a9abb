package upstream

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weir-mcp/weir/config"
	"github.com/weir-mcp/weir/mcp"
)

// TestToolsWithImpossibleHeaders: over modern HTTP, a tool whose schema asks for a
// header that cannot be is neither listed nor called, whoever asks (2026-07-28).
func TestToolsWithImpossibleHeaders(t *testing.T) {
	var calls atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var m struct {
			ID     json.RawMessage
			Method string
		}
		if err != nil || json.Unmarshal(body, &m) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		switch m.Method {
		case "initialize":
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32022,"message":"no","data":{"supported":["2026-07-28"]}}}`, m.ID)
		case "server/discover":
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}}`, m.ID)
		case "tools/list":
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","tools":[{"name":"good","inputSchema":{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"A"}}}},`+
				`{"name":"bad","inputSchema":{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"no spaces"}}}}]}}`, m.ID)
		default:
			calls.Add(1)
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","content":[]}}`, m.ID)
		}
	}))
	defer server.Close()
	m, sink := manage(t, Options{}, &config.Server{Name: "s", Namespace: "s", URL: server.URL, Type: config.TransportHTTP, Start: config.StartBoot})
	if err := m.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(sink.tools("s")); got != "[good]" {
		t.Errorf("listed: %s", got)
	}
	u, _ := m.Upstream("s")
	if _, err := u.Call(t.Context(), "tools/call", json.RawMessage(`{"name":"good","arguments":{"a":"x"}}`), &mcp.Mux{}); err != nil {
		t.Error(err)
	}
	_, err := u.Call(t.Context(), "tools/call", json.RawMessage(`{"name":"bad","arguments":{"a":"x"}}`), &mcp.Mux{})
	if k, _ := mcp.KindOf(err); err == nil || k != mcp.KindInvalidParams || !strings.Contains(err.Error(), `"bad" cannot be called`) {
		t.Errorf("called: %v", err)
	}
	if n := calls.Load(); n != 1 {
		t.Errorf("%d calls reached the server", n)
	}
}
