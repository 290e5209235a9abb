package streamable_test

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/streamable"
)

// FuzzServerPost sends whatever it likes: the answer is one of the statuses
// that the specification has, and its body is JSON, a stream, or nothing.
func FuzzServerPost(f *testing.F) {
	for _, body := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a",` + modernMeta + `}}`,
		`[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"x"},3,{"jsonrpc":"2.0","id":1,"result":{}}]`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`,
		`{"jsonrpc":"2.0","id":1,"error":{}}`, `[[]]`, `[`, ``, `null`, `{"id":{}}`,
	} {
		f.Add(body, "2026-07-28", "tools/call", "a", false)
		f.Add(body, "", "", "", true)
	}
	s := streamable.NewServer(streamable.ServerOptions{Sessionless: true, Handler: mcp.HandlerFunc(func(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
		return json.RawMessage(`{}`), r.Peer.Notify(ctx, r.Method, nil)
	})})
	f.Cleanup(func() {
		if err := s.Shutdown(context.Background()); err != nil {
			f.Error(err)
		}
	})
	f.Fuzz(func(t *testing.T, body, version, method, name string, sse bool) {
		r := httptest.NewRequest("POST", "/", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json")
		if sse {
			r.Header.Set("Accept", "application/json, text/event-stream")
		}
		for k, v := range map[string]string{"Mcp-Protocol-Version": version, "Mcp-Method": method, "Mcp-Name": name} {
			if v != "" {
				r.Header.Set(k, v)
			}
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if !slices.Contains([]int{200, 202, 400, 404, 503}, w.Code) {
			t.Errorf("status %d", w.Code)
		}
		switch w.Header().Get("Content-Type") {
		case "":
			if w.Code != 202 || w.Body.Len() > 0 {
				t.Errorf("%d with %q", w.Code, w.Body)
			}
		case "application/json":
			if err := rawjson.Valid(w.Body.Bytes()); err != nil {
				t.Errorf("body %q: %v", w.Body, err)
			}
		case "text/event-stream":
			if !sse || w.Code != 200 {
				t.Errorf("a stream, with %d", w.Code)
			}
		}
	})
}
