package web_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/audit"
	"github.com/weir-mcp/weir/internal/gateway"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/testkit/fakemcp"
	"github.com/weir-mcp/weir/internal/web"
	"github.com/weir-mcp/weir/internal/web/api"
)

// recordedGateway is a gateway with an audit log, in front of a server with a URL.
type recordedGateway struct {
	sessionless []string // the trace ids of requests without a session
	t           *testing.T
	front       *httptest.Server
	dir         string
	gateway     *gateway.Gateway
	server      *web.Server
	closed      bool
	copied      *atomic.Int64 // messages that came to the server as the client sent them
	sleeping    *atomic.Int64 // calls of sleep that came to the server
}

// agentHeader is a header of the client that reaches the server with bytes that are handed on.
const agentHeader = "X-Agent"

// startRecorded starts a gateway. With a policy it reads all messages to the server.
func startRecorded(t *testing.T, form string, judged bool) *recordedGateway {
	t.Helper()
	fake, err := fakemcp.New(fakemcp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	g := &recordedGateway{t: t, dir: filepath.Join(t.TempDir(), "audit"), copied: &atomic.Int64{}, sleeping: &atomic.Int64{}}
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(agentHeader) != "" {
			g.copied.Add(1)
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		if rawjson.Text(rawjson.GetPath(body, "params", "name")) == "sleep" {
			g.sleeping.Add(1)
		}
		if scripted(w, body) {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		fake.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { fake.Close(); upstream.Close() })
	text := fmt.Sprintf("mode: gateway\nauth: {tokens: [{name: ann, sha256: %x}]}\nmcpServers: {up: {url: %q, required: true}}\naudit: {dir: %q, args: %s, key: %s}\n",
		sha256.Sum256([]byte(staticToken)), upstream.URL+"/mcp", g.dir, form, strings.Repeat("k", 32))
	if judged {
		text += "policy: {rules: [{action: deny, tool: no_such_tool}]}\n"
	}
	inner, c := gatewayOf(t, text)
	if err := inner.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	g.front = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { g.server.ServeHTTP(w, r) }))
	g.gateway, g.server = inner, web.NewHandler(inner, c, g.front.URL, api.Machine{}, slog.New(slog.DiscardHandler))
	t.Cleanup(g.close)
	return g
}

// close ends the gateway and its log.
func (g *recordedGateway) close() {
	if g.closed {
		return
	}
	g.closed = true
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := g.server.Shutdown(ctx); err != nil {
		g.t.Error(err)
	}
	g.gateway.Close(ctx)
	g.front.Close()
}

// event returns a server-sent event.
func event(data string) string { return "event: message\r\ndata: " + data + "\r\n\r\n" }

// long is a result that is longer than what is kept of one.
var long = `{"content":[{"type":"text","text":"` + strings.Repeat(`\"{[,:`+"\u00e9", 40_000) + `\\"}],"n":[1,{"result":2}]}`

// scripted answers calls of tools that fakemcp does not have, and batches.
func scripted(w http.ResponseWriter, body []byte) bool {
	answer := func(kind string, parts ...string) bool {
		w.Header().Set("Content-Type", kind)
		for _, part := range parts {
			_, _ = io.WriteString(w, part)
			_ = http.NewResponseController(w).Flush()
		}
		return true
	}
	const asJSON, asEvents = "application/json", "text/event-stream"
	if rawjson.IsArray(body) {
		var all []json.RawMessage
		_ = json.Unmarshal(body, &all)
		var out []string
		for _, one := range all {
			switch id := rawjson.Get(one, "id"); {
			case id == nil:
			case rawjson.Text(rawjson.GetPath(one, "params", "name")) == "fail":
				out = append(out, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":""}}`, id))
			default: // as fakemcp echoes
				out = append(out, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":%s}]}}`, id, rawjson.Quote(rawjson.Text(rawjson.GetPath(one, "params", "arguments", "text")))))
			}
		}
		slices.Reverse(out)
		return answer(asJSON, "["+strings.Join(out, ",")+"]")
	}
	id := string(rawjson.Get(body, "id"))
	result := func(text string) string { return `{"jsonrpc":"2.0","id":` + id + `,"result":` + text + `}` }
	small := `{"content":[{"type":"text","text":"x"}],"isError":true}`
	switch rawjson.Text(rawjson.GetPath(body, "params", "name")) {
	case "events":
		return answer(asEvents, ": hello\n\n", event(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"result"}}`), event(result(small)))
	case "lines":
		return answer(asEvents, "id: 7\ndata: {\"jsonrpc\":\"2.0\",\ndata:\"id\":"+id+",\n", "data: \"result\":"+small+"}\n\n")
	case "long":
		return answer(asJSON, result(long)[:100_000], result(long)[100_000:])
	case "long_events":
		text := event(result(long))
		return answer(asEvents, text[:20], text[20:50_001], text[50_001:len(text)-2], text[len(text)-2:])
	case "long_error":
		return answer(asJSON, `{"jsonrpc":"2.0","id":`+id+`,"error":{"code":-32078,"message":"`+strings.Repeat("m", 60_000)+`","data":"`+strings.Repeat("d", 5_000)+`"}}`)
	case "no_answer":
		return answer(asEvents, ": nothing\n\n")
	case "page":
		return answer("text/html", "<html>")
	case "half":
		return answer(asJSON, `{"jsonrpc":"2.0","id":`+id+`,"result":{`)
	case "status":
		w.WriteHeader(http.StatusBadGateway)
		return true
	case "status_error":
		w.Header().Set("Content-Type", asJSON)
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":`+id+`,"error":{"code":-32079,"message":"no"}}`)
		return true
	}
	return false
}

// post sends a message and returns the response, read to its end.
func (g *recordedGateway) post(body string, header ...string) *http.Response {
	g.t.Helper()
	r, err := http.NewRequestWithContext(g.t.Context(), http.MethodPost, g.front.URL+"/mcps/up/mcp", strings.NewReader(body))
	if err != nil {
		g.t.Fatal(err)
	}
	for key, value := range map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Authorization": "Bearer " + staticToken, agentHeader: "1"} {
		r.Header.Set(key, value)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	if trace := strings.Split(r.Header.Get("Traceparent"), "-"); len(trace) == 4 && r.Header.Get("Mcp-Session-Id") == "" {
		g.sessionless = append(g.sessionless, trace[1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		g.t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	return resp
}

// session shakes hands and returns the headers of a session.
func (g *recordedGateway) session(version string) []string {
	g.t.Helper()
	resp := g.post(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"` + version + `","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`)
	header := []string{"Mcp-Session-Id", resp.Header.Get("Mcp-Session-Id"), "Mcp-Protocol-Version", version}
	if header[1] == "" {
		g.t.Fatalf("no session: %d", resp.StatusCode)
	}
	g.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`, header...)
	return header
}

// volatile are members of records that differ between two runs.
var volatile = []string{"seq", "time", "prev", "hash", "call", "ms", "session"}

// records closes the gateway and returns the records of calls by the trace id, each without what
// differs between runs. The records of a trace are sorted.
func (g *recordedGateway) records() map[string][]string {
	g.t.Helper()
	g.close()
	out := map[string][]string{}
	if err := audit.Each(g.dir, func(raw []byte) bool {
		var r map[string]any
		if err := json.Unmarshal(raw, &r); err != nil {
			g.t.Fatal(err)
		}
		switch kind, _ := r["kind"].(string); kind {
		case "begin", "end", "refusal":
			trace, _ := r["trace"].(string)
			if _, known := r["session"].(string); !known && !slices.Contains(g.sessionless, trace) {
				g.t.Errorf("no session: %s", raw)
			}
			for _, key := range volatile {
				delete(r, key)
			}
			line, _ := json.Marshal(r)
			out[trace] = append(out[trace], string(line))
		}
		return true
	}); err != nil {
		g.t.Fatal(err)
	}
	for trace := range out {
		slices.Sort(out[trace])
	}
	return out
}

// message is what a client sends in TestHandedOnRecords.
type message struct {
	name    string
	body    string
	version string // of the session; "" is the modern era
	begins  int    // records of a begin that there must be
}

// call is a message with a call of a tool.
func called(tool string) message {
	return message{name: tool, version: "2025-11-25", begins: 1, body: `{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"` + tool + `","arguments":{"b": 1.0, "a": "\u00e9", "text":"t"}}}`}
}

// TestHandedOnRecords: bytes that are handed on have the records that messages have which weir
// reads. One gateway hands on, the other reads because of its policy.
func TestHandedOnRecords(t *testing.T) {
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
	messages := []message{
		called("echo"), called("refuse"), called("fail"), called("odd"), called("unknown_tool"), called("events"), called("lines"), called("progress"),
		called("long"), called("long_events"), called("long_error"), called("no_answer"), called("page"), called("half"), called("status"), called("status_error"),
		{"prompt", `{"jsonrpc":"2.0","id":5,"method":"prompts/get","params":{"name":"p","arguments":{"a":"b"}}}`, "2025-11-25", 1},
		{"resource", `{"jsonrpc":"2.0","id":5,"method":"resources/read","params":{"uri":"file:///a"}}`, "2025-11-25", 1},
		{"completion", `{"jsonrpc":"2.0","id":5,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":"b"}}}`, "2025-11-25", 1},
		{"unknown method", `{"jsonrpc":"2.0","id":5,"method":"made/up"}`, "2025-11-25", 1},
		{"list", `{"jsonrpc":"2.0","id":5,"method":"tools/list"}`, "2025-11-25", 0},
		{"ping", `{"jsonrpc":"2.0","id":5,"method":"ping"}`, "2025-11-25", 0},
		{"notification", `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`, "2025-11-25", 0},
		{"no id", `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"echo","arguments":{}}}`, "2025-11-25", 0},
		{"two names", `{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"echo","name":"fail","arguments":{}}}`, "2025-11-25", 0},
		{"another case", `{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"echo","Arguments":{}}}`, "2025-11-25", 0},
		{"batch", `[{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"1"}}},{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}},{"jsonrpc":"2.0","id":"z","method":"tools/list"},{"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"fail","arguments":{}}}]`, "2025-03-26", 2},
		{"modern", `{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"echo","arguments":{"text":"t"},` + meta + `}}`, "", 1},
		{"modern error", `{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"fail","arguments":{"code":-32050},` + meta + `}}`, "", 1},
	}
	for _, form := range []string{"hash", "none", "full"} {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			var all [2]map[string][]string
			for i := range all {
				g := startRecorded(t, form, i == 1)
				sessions := map[string][]string{"2025-11-25": g.session("2025-11-25"), "2025-03-26": g.session("2025-03-26")}
				for n, m := range messages {
					header := append(slices.Clone(sessions[m.version]), "Traceparent", fmt.Sprintf("00-%032x-00f067aa0ba902b7-00", n+1))
					if m.version == "" {
						header = append(header, "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", rawjson.Text(rawjson.GetPath([]byte(m.body), "params", "name")))
					}
					g.post(m.body, header...)
				}
				if copied := g.copied.Load(); (copied > 0) != (i == 0) {
					t.Errorf("%d messages were handed on", copied)
				}
				all[i] = g.records()
			}
			for n, m := range messages {
				trace := fmt.Sprintf("%032x", n+1)
				handed, read := all[0][trace], all[1][trace]
				if !slices.Equal(handed, read) {
					t.Errorf("%s: handed on\n%.2000s\nread\n%.2000s", m.name, strings.Join(handed, "\n"), strings.Join(read, "\n"))
				}
				begins := 0
				for _, line := range handed {
					if strings.Contains(line, `"kind":"begin"`) {
						begins++
					}
				}
				if begins != m.begins || len(handed) != 2*begins {
					t.Errorf("%s: %d begins in %d records, want %d\n%s", m.name, begins, len(handed), m.begins, strings.Join(handed, "\n"))
				}
				delete(all[0], trace)
			}
			for _, rest := range slices.Sorted(maps.Keys(all[0])) {
				t.Errorf("records of the trace %q: %s", rest, all[0][rest])
			}
		})
	}
}

// TestHandedOnCancellations: a call that its client cancels, or leaves, has the end that it has where
// weir reads it.
func TestHandedOnCancellations(t *testing.T) {
	const sleeps = `{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"sleep","arguments":{"sleep_ms":60000}}}`
	var all [2][]string
	for i := range all {
		g := startRecorded(t, "none", i == 1)
		session := g.session("2025-11-25")
		done := make(chan struct{})
		go func() {
			defer close(done)
			g.post(sleeps, append(slices.Clone(session), "Traceparent", fmt.Sprintf("00-%032x-00f067aa0ba902b7-00", 1))...)
		}()
		g.started(1)
		g.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}}`, session...)
		<-done
		all[i] = g.records()[fmt.Sprintf("%032x", 1)]
	}
	if !slices.Equal(all[0], all[1]) || len(all[0]) != 2 {
		t.Errorf("handed on\n%s\nread\n%s", strings.Join(all[0], "\n"), strings.Join(all[1], "\n"))
	}
}

// started waits until the server runs so many calls of sleep.
func (g *recordedGateway) started(n int64) {
	g.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); g.sleeping.Load() < n; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			g.t.Fatal("the call does not reach the server")
		}
	}
}
