package passthrough_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/internal/passthrough"
	"github.com/weir-mcp/weir/internal/testkit/fakemcp"
)

// batchOf is a batch of n calls of the tool that counts its calls, and a ping.
func batchOf(n int) string {
	msgs := []string{`{"jsonrpc":"2.0","id":"ping","method":"ping"}`}
	for i := range n {
		msgs = append(msgs, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"counter"}}`, i))
	}
	return "[" + strings.Join(msgs, ",") + "]"
}

// startBatches is startHTTP with a server that takes batches.
func startBatches(t testing.TB, _ fakemcp.Config, change func(*config.Server, *passthrough.Options)) *env {
	var calls atomic.Int32
	answer := func(m anyMessage) string {
		switch m.Method {
		case "initialize":
			return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-03-26","capabilities":{"tools":{}},"serverInfo":{"name":"a","version":"1"}}}`, m.ID)
		case "tools/call":
			return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"%d"}]}}`, m.ID, calls.Add(1))
		case "tools/list":
			return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"tools":[]}}`, m.ID)
		}
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID)
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var one anyMessage
		var many []anyMessage
		w.Header().Set("Content-Type", "application/json")
		switch {
		case json.Unmarshal(body, &many) == nil:
			var out []string
			for _, m := range many {
				out = append(out, answer(m))
			}
			fmt.Fprintf(w, "[%s]", strings.Join(out, ","))
		case json.Unmarshal(body, &one) != nil:
			w.WriteHeader(http.StatusMethodNotAllowed)
		case one.ID == nil:
			w.WriteHeader(http.StatusAccepted)
		default:
			w.Header().Set("Mcp-Session-Id", "s")
			fmt.Fprint(w, answer(one))
		}
	}))
	t.Cleanup(srv.Close)
	return start(t, change, &config.Server{Name: "fake", URL: srv.URL + "/mcp", Type: mcpserver.TransportHTTP})
}

type anyMessage struct {
	ID     json.RawMessage
	Method string
}

// TestLimitsCountTheMessagesOfABatch: a batch is as many requests as it holds. It
// passes whole or not at all, and each of its requests is answered.
func TestLimitsCountTheMessagesOfABatch(t *testing.T) {
	for _, way := range []way{{"forward", startBatches}, ways[1], ways[2]} {
		t.Run(way.name, func(t *testing.T) {
			var limits atomic.Pointer[passthrough.Limits]
			limits.Store(new(passthrough.Limits))
			e := way.start(t, fakemcp.Config{}, func(_ *config.Server, o *passthrough.Options) {
				o.Limits = func(string) passthrough.Limits { return *limits.Load() }
			}).ready()
			session := e.initialize("2025-03-26")
			post := func(body string) result { return e.post(mcpPath, body, "Mcp-Session-Id", session) }
			ran := func() string {
				limits.Store(new(passthrough.Limits))
				return post(`{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"counter"}}`).body
			}

			limits.Store(&passthrough.Limits{PerMinute: 5})
			if res := post(batchOf(3)); res.status != http.StatusOK || strings.Count(res.body, `"result"`) != 4 {
				t.Fatalf("within the rate: %d %s", res.status, res.body)
			}
			res := post(batchOf(3)) // two are left, as a ping is free
			if res.status != http.StatusTooManyRequests || res.header.Get("Retry-After") == "" || strings.Count(res.body, `"kind":"rate_limited"`) != 4 ||
				!strings.Contains(res.body, `"id":"ping"`) || !strings.Contains(res.body, `"id":2,`) || !strings.HasPrefix(res.body, "[") {
				t.Errorf("over the rate: %d %s", res.status, res.body)
			}
			if res := post(batchOf(2)); res.status != http.StatusOK {
				t.Errorf("a refused batch has used up the rate: %d %s", res.status, res.body)
			}
			if res := post(batchOf(6)); res.status != http.StatusRequestEntityTooLarge || strings.Count(res.body, `agents.limits.per_minute`) != 7 {
				t.Errorf("more than a minute's: %d %s", res.status, res.body)
			}
			limits.Store(&passthrough.Limits{InFlight: 3})
			if res := post(batchOf(4)); res.status != http.StatusRequestEntityTooLarge || strings.Count(res.body, `agents.limits.in_flight`) != 5 {
				t.Errorf("more than may be in flight: %d %s", res.status, res.body)
			}
			if res := post(batchOf(3)); res.status != http.StatusOK {
				t.Errorf("as many as may be in flight: %d %s", res.status, res.body)
			}
			if body := ran(); !strings.Contains(body, `"text":"9"`) { // 3 + 2 + 3, and this one
				t.Errorf("what was refused has run: %s", body)
			}
		})
	}
}

// TestLimitsAreNotPassedByDisguise: what a server may take for a call counts as
// one, and two readers of one message find the same in it.
func TestLimitsAreNotPassedByDisguise(t *testing.T) {
	e := startHTTP(t, fakemcp.Config{}, func(_ *config.Server, o *passthrough.Options) {
		o.Limits = func(string) passthrough.Limits { return passthrough.Limits{PerMinute: 3} }
	}).ready() // 1
	session := e.initialize("2025-11-25") // 2
	post := func(body string) result { return e.post(mcpPath, body, "Mcp-Session-Id", session) }
	for _, body := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"ping","Method":"tools/call","params":{"name":"counter"}}`,
		`{"jsonrpc":"2.0","id":1,"METHOD":"tools/call","result":{}}`,
		`{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call"}`,
		`{"jsonrpc":"2.0","id":1,"method":"ping","params":{},"Params":{}}`,
	} {
		if res := post(body); res.status != http.StatusBadRequest || !strings.Contains(res.body, `-32600`) {
			t.Errorf("%s: %d %s", body, res.status, res.body)
		}
	}
	quiet := `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"counter"}}`
	if res := post(quiet); res.status != http.StatusAccepted { // 3
		t.Errorf("%d %s", res.status, res.body)
	}
	if res := post(quiet); res.status != http.StatusTooManyRequests {
		t.Errorf("calls without an id do not count: %d %s", res.status, res.body)
	}
	if res := post(`{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`); res.status != http.StatusAccepted {
		t.Errorf("a notification: %d %s", res.status, res.body)
	}
}

// TestTokensNameTheToolThatRuns: the agent of this test takes the last of several
// names, in any case, as many do. A token is for one tool and no other.
func TestTokensNameTheToolThatRuns(t *testing.T) {
	e, _ := startAgent(t, nil)
	e.ready()
	session := e.initialize("2025-11-25")
	for _, params := range []string{`"name":"add","Name":"drop"`, `"Name":"drop","name":"add"`, `"name":"add","n\u0061me":"drop"`, `"NAME":"drop"`} {
		body := `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{` + params + `}}`
		if res := e.post(mcpPath, body, "Mcp-Session-Id", session); res.status != http.StatusBadRequest || !strings.Contains(res.body, "-32602") || !strings.Contains(res.body, `"id":7`) {
			t.Errorf("forwarded, %s: %d %s", params, res.status, res.body)
		}
		if res := e.post(mcpPath, body); strings.Contains(res.body, "/add") {
			t.Errorf("through the Peer, %s: %d %s", params, res.status, res.body)
		}
	}
}
