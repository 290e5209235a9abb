package web

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestTracedMessages: a message to /messages has the trace context of its own HTTP request. Everything
// else passes byte by byte.
func TestTracedMessages(t *testing.T) {
	const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	large := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"a":"` + strings.Repeat("x", maxTraced) + `"}}`
	for name, c := range map[string]struct{ parent, body, want string }{
		"a request":          {parent, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"a":1}}`, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"a":1,"_meta":{"traceparent":"` + parent + `"}}}`},
		"without params":     {parent, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"traceparent":"` + parent + `"}}}`},
		"a trace of its own": {parent, `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"traceparent":"own"}}}`, ""},
		"no header":          {"", `{"jsonrpc":"2.0","id":1,"method":"ping" }`, ""},
		"no trace":           {"00-x", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, ""},
		"a notification":     {parent, `{"jsonrpc":"2.0","method":"notifications/x"}`, ""},
		"an answer":          {parent, `{"jsonrpc":"2.0","id":1,"result":{}}`, ""},
		"a batch":            {parent, `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, ""},
		"no JSON":            {parent, `{"jsonrpc"`, ""},
		"too large":          {parent, large, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var got string
			h := traced(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if err != nil || int64(len(body)) != r.ContentLength {
					t.Errorf("%d bytes of %d: %v", len(body), r.ContentLength, err)
				}
				got = string(body)
				w.WriteHeader(http.StatusAccepted)
			}))
			r := httptest.NewRequest(http.MethodPost, "/messages?sessionId=1", strings.NewReader(c.body))
			if c.parent != "" {
				r.Header.Set("Traceparent", c.parent)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			want := c.want
			if want == "" {
				want = c.body
			}
			if got != want || w.Code != http.StatusAccepted {
				t.Errorf("%d, got %.300s\nwant %.300s", w.Code, got, want)
			}
		})
	}
}
