package cli

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestMemoryOfMethods: the bound of TestMemoryOfReferences holds for MCP's own methods, with 9 MB in each member of
// their params that is a text, in a session of the legacy era. Each has a gateway of its own.
func TestMemoryOfMethods(t *testing.T) {
	long := `"` + strings.Repeat("a long text of words ", 9<<20/21) + `"`
	for _, m := range []struct{ method, params string }{
		{"resources/read", `{"uri":LONG}`},
		{"resources/subscribe", `{"uri":LONG}`},
		{"resources/unsubscribe", `{"uri":LONG}`},
		{"prompts/get", `{"name":LONG}`},
		{"prompts/get", `{"name":"prompt","arguments":{"text":LONG}}`},
		{"tools/call", `{"name":LONG}`},
		{"tools/list", `{"cursor":LONG}`},
		{"prompts/list", `{"cursor":LONG}`},
		{"resources/list", `{"cursor":LONG}`},
		{"resources/templates/list", `{"cursor":LONG}`},
		{"completion/complete", `{"ref":{"type":"ref/prompt","name":LONG},"argument":{"name":"text","value":"x"}}`},
		{"completion/complete", `{"ref":{"type":"ref/resource","uri":LONG},"argument":{"name":"text","value":"x"}}`},
		{"completion/complete", `{"ref":{"type":"ref/prompt","name":"prompt"},"argument":{"name":"text","value":LONG}}`},
		{"logging/setLevel", `{"level":LONG}`},
		{"tasks/get", `{"taskId":LONG}`},
		{"initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":LONG,"version":"1"}}`},
		{"initialize", `{"protocolVersion":LONG,"capabilities":{},"clientInfo":{"name":"x","version":"1"}}`},
		{"tools/call", `{"name":"resource_read","arguments":{"resource_id":LONG}}`},
		{"tools/call", `{"name":"resource_read","arguments":{"resource_id":"up:parts","args":{"part":LONG}}}`},
	} {
		params := strings.Replace(m.params, "LONG", long, 1)
		t.Run(m.method+" "+m.params, func(t *testing.T) {
			l := newLoad(t)
			answer := l.do(l.legacy(m.method, params)())
			if refused := strings.Contains(answer, "may have 65536") || strings.Contains(answer, "for no server"); refused == strings.Contains(params, `"arguments":{"text"`) {
				t.Errorf("%.300s", answer)
			}
			for _, atOnce := range []int{1, 16} {
				l.drive(sent{m.params, l.legacy(m.method, params)}, atOnce)
			}
		})
	}
}

// legacy returns a request of MCP in a session, or of one.
func (l *load) legacy(method, params string) func() *http.Request {
	session := ""
	post := func(method, params string) *http.Request {
		req, err := http.NewRequest(http.MethodPost, l.url, strings.NewReader(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params)))
		if err != nil {
			l.t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+heapToken)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		if session != "" {
			req.Header.Set("Mcp-Session-Id", session)
		}
		return req
	}
	if method != "initialize" {
		resp, err := l.client.Do(post("initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}`))
		if err != nil {
			l.t.Fatal(err)
		}
		defer resp.Body.Close()
		if session = resp.Header.Get("Mcp-Session-Id"); session == "" {
			l.t.Fatalf("there is no session: %s", resp.Status)
		}
	}
	return func() *http.Request { return post(method, params) }
}
