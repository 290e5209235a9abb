package passthrough_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/internal/passthrough"
	"github.com/weir-mcp/weir/internal/testkit/fakemcp"
	"github.com/weir-mcp/weir/internal/upstream"
	"github.com/weir-mcp/weir/mcp/streamable"
)

// eachWay runs a test over both ways to a fake server.
func eachWay(t *testing.T, cfg fakemcp.Config, change func(*config.Server, *passthrough.Options), test func(t *testing.T, e *env)) {
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) { test(t, way.start(t, cfg, change)) })
	}
}

const mcpPath = "/mcps/fake/mcp"

func TestUnknownName(t *testing.T) {
	eachWay(t, fakemcp.Config{}, nil, func(t *testing.T, e *env) {
		for _, path := range []string{"/mcps/nobody/mcp", "/mcp/nobody/mcp"} {
			res := e.post(path, `{"jsonrpc":"2.0","id":"a-1","method":"tools/list"}`)
			want := `{"jsonrpc":"2.0","id":"a-1","error":{"code":-32601,"message":"Agent 'nobody' not found","data":{"agents":["fake"],"kind":"not_found"}}}`
			if res.status != http.StatusNotFound || res.body != want {
				t.Errorf("%s: %d %s", path, res.status, res.body)
			}
		}
		for _, path := range []string{"/mcps/fake", "/mcps//mcp", "/mcps/fake/mcp/more", "/else", "/mcps/%zz/mcp"} {
			req := e.request(context.Background(), http.MethodPost, "", `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
			req.URL.Opaque = path
			if res := e.do(req); res.status != http.StatusNotFound && res.status != http.StatusBadRequest {
				t.Errorf("%s: %d %s", path, res.status, res.body)
			}
		}
	})
}

func TestMethods(t *testing.T) {
	eachWay(t, fakemcp.Config{}, nil, func(t *testing.T, e *env) {
		res := e.do(e.request(context.Background(), http.MethodPut, mcpPath, "{}"))
		if res.status != http.StatusMethodNotAllowed || res.header.Get("Allow") != "GET, POST, DELETE" {
			t.Errorf("PUT: %d, Allow %q", res.status, res.header.Get("Allow"))
		}
		for _, method := range []string{http.MethodGet, http.MethodDelete} {
			res := e.do(e.request(context.Background(), method, mcpPath, "", "Mcp-Protocol-Version", "2026-07-28"))
			if res.status != http.StatusMethodNotAllowed {
				t.Errorf("modern %s: %d", method, res.status)
			}
		}
	})
}

// TestText: what is no UTF-8, and half of a surrogate pair, reaches no upstream; it ends many a
// program that reads lines of text.
func TestText(t *testing.T) {
	eachWay(t, fakemcp.Config{}, nil, func(t *testing.T, e *env) {
		id := e.ready().initialize("2025-03-26")
		for _, message := range []string{
			"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"echo\",\"arguments\":{\"text\":\"caf\xe9\"}}}",
			"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"caf\xe9\"}]",
			`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"\ud83d"}}}`,
		} {
			if res := e.post(mcpPath, message, "Mcp-Session-Id", id); res.status != http.StatusBadRequest || !strings.Contains(res.body, "-32700") || message[0] == '{' && !strings.Contains(res.body, `"id":1`) {
				t.Errorf("%q: %d %s", message, res.status, res.body)
			}
		}
	})
}

func TestRebinding(t *testing.T) {
	eachWay(t, fakemcp.Config{}, nil, func(t *testing.T, e *env) {
		req := e.request(context.Background(), http.MethodPost, mcpPath, `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
		req.Host = "evil.example.com"
		if res := e.do(req); res.status != http.StatusForbidden {
			t.Errorf("foreign host: %d", res.status)
		}
		res := e.post(mcpPath, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "Origin", "https://evil.example.com")
		if res.status != http.StatusForbidden {
			t.Errorf("foreign origin: %d", res.status)
		}
		if res := e.post(mcpPath, `{"jsonrpc":"2.0","id":1,"method":"ping"}`, "Authorization", ""); res.status != http.StatusUnauthorized {
			t.Errorf("no token: %d", res.status)
		}
	})
}

// TestSessionsBelongToPrincipals: whoever learns of a session id cannot use it.
func TestSessionsBelongToPrincipals(t *testing.T) {
	eachWay(t, fakemcp.Config{}, nil, func(t *testing.T, e *env) {
		alice := e.initialize("2025-11-25")
		call := `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"counter"}}`
		mine := e.post(mcpPath, call, "Mcp-Session-Id", alice)
		if mine.status != http.StatusOK || !strings.Contains(mine.body, `"text":"1"`) {
			t.Fatalf("own session: %d %s", mine.status, mine.body)
		}
		for name, header := range map[string][]string{
			"another principal":     {"Mcp-Session-Id", alice, "Authorization", "Bearer bob"},
			"an id that nobody has": {"Mcp-Session-Id", "session-77"},
		} {
			res := e.post(mcpPath, call, header...)
			if res.status != http.StatusNotFound || !strings.HasPrefix(res.body, `{"jsonrpc":"2.0","id":7,"error":{"code":-32001,`) {
				t.Errorf("%s: %d %s", name, res.status, res.body)
			}
			for _, method := range []string{http.MethodGet, http.MethodDelete} {
				if res := e.do(e.request(context.Background(), method, mcpPath, "", header...)); res.status != http.StatusNotFound {
					t.Errorf("%s, %s: %d", name, method, res.status)
				}
			}
		}
		if res := e.do(e.request(context.Background(), http.MethodDelete, mcpPath, "", "Mcp-Session-Id", alice)); res.status != http.StatusNoContent {
			t.Errorf("DELETE: %d", res.status)
		}
		if res := e.post(mcpPath, call, "Mcp-Session-Id", alice); res.status != http.StatusNotFound {
			t.Errorf("after DELETE: %d", res.status)
		}
	})
}

// TestSessionsDoNotCrossNames: a session with one upstream is none with another.
func TestSessionsDoNotCrossNames(t *testing.T) {
	_, url := serveFake(t, fakemcp.Config{})
	_, url2 := serveFake(t, fakemcp.Config{})
	e := start(t, nil,
		&config.Server{Name: "fake", Type: mcpserver.TransportHTTP, URL: url + "/mcp"},
		&config.Server{Name: "other", Type: mcpserver.TransportHTTP, URL: url2 + "/mcp"},
		func() *config.Server { s := process(t, fakemcp.Config{}, "/dev/null"); s.Name = "stdio"; return s }()).ready()
	id := e.initialize("2025-11-25")
	for _, name := range []string{"other", "stdio"} {
		if res := e.post("/mcps/"+name+"/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, "Mcp-Session-Id", id); res.status != http.StatusNotFound {
			t.Errorf("%s: %d %s", name, res.status, res.body)
		}
	}
}

// TestWithoutSession: a POST that was not preceded by initialize is served, and
// the upstream is greeted once for all of them.
func TestWithoutSession(t *testing.T) {
	eachWay(t, fakemcp.Config{}, nil, func(t *testing.T, e *env) {
		e.ready()
		for range 5 {
			res := e.post(mcpPath, `{"jsonrpc":"2.0","id":"uuid","method":"tools/call","params":{"name":"echo","arguments":{"text":"hi"}}}`, "Accept", "")
			if res.status != http.StatusOK || res.body != `{"jsonrpc":"2.0","id":"uuid","result":{"content":[{"type":"text","text":"hi"}]}}` {
				t.Fatalf("%d %s", res.status, res.body)
			}
		}
		n := 0
		for _, ev := range e.events() {
			if strings.HasPrefix(ev, "initialize") {
				n++
			}
		}
		if n != 1 {
			t.Errorf("the upstream was greeted %d times: %q", n, e.events())
		}
	})
}

// TestSessionlessUpstream: a server that gives out no session ids gets what comes
// without one as it is.
func TestSessionlessUpstream(t *testing.T) {
	e := startHTTP(t, fakemcp.Config{NoSessions: true, Stream: true}, nil).ready()
	res := e.post(mcpPath, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	if res.status != http.StatusOK || res.header.Get("Mcp-Session-Id") != "" {
		t.Fatalf("initialize: %d %q", res.status, res.header.Get("Mcp-Session-Id"))
	}
	res = e.post(mcpPath, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hi"}}}`, "Mcp-Protocol-Version", "2025-11-25")
	// The fake server streams all answers, weir only those that need it.
	if res.status != http.StatusOK || res.header.Get("Content-Type") != "text/event-stream" || len(res.msgs) != 1 {
		t.Errorf("not forwarded: %d %s %s", res.status, res.header.Get("Content-Type"), res.body)
	}
}

func TestUnreachable(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := closed.Addr().String()
	closed.Close()
	e := start(t, nil,
		&config.Server{Name: "http", Type: mcpserver.TransportHTTP, URL: "http://" + address + "/mcp?key=s3cret"},
		&config.Server{Name: "sse", Type: mcpserver.TransportSSE, URL: "http://" + address + "/sse"},
		&config.Server{Name: "stdio", Type: mcpserver.TransportStdio, Command: "/nonexistent/server"})
	for _, name := range []string{"http", "sse", "stdio"} {
		for kind, body := range map[string]string{
			"initialize": `{"jsonrpc":"2.0","id":9007199254740993,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`,
			"no session": `{"jsonrpc":"2.0","id":9007199254740993,"method":"tools/list"}`,
			"ping":       `{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}`,
			"modern":     modern(`"id":9007199254740993,"method":"tools/list"`, ``),
		} {
			var header []string
			if kind == "modern" {
				header = modernHeader("tools/list", "")
			}
			res := e.post("/mcps/"+name+"/mcp", body, header...)
			if res.status != http.StatusBadGateway ||
				!strings.HasPrefix(res.body, `{"jsonrpc":"2.0","id":9007199254740993,"error":{"code":-32603,"message":"Failed to reach agent: upstream \"`+name+`\"`) {
				t.Errorf("%s, %s: %d %s", name, kind, res.status, res.body)
			}
			if strings.Contains(res.body, "s3cret") {
				t.Errorf("%s, %s: the key in the url is shown: %s", name, kind, res.body)
			}
		}
	}
}

// modern makes a request of the modern era.
func modern(envelope, params string) string {
	if params != "" {
		params += ","
	}
	return `{"jsonrpc":"2.0",` + envelope + `,"params":{` + params + `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",` +
		`"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`
}

func modernHeader(method, name string) []string {
	h := []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", method}
	if name != "" {
		h = append(h, "Mcp-Name", name)
	}
	return h
}

func TestStarting(t *testing.T) {
	manager := upstream.New(upstream.Options{StartTimeout: 5 * time.Second, ReadyBudget: 300 * time.Millisecond})
	e := startWith(t, manager, nil, process(t, fakemcp.Config{Init: fakemcp.InitHang}, filepath.Join(t.TempDir(), "events")))
	res := e.post(mcpPath, `{"jsonrpc":"2.0","id":1.5,"method":"tools/list"}`)
	if res.status != http.StatusServiceUnavailable || res.header.Get("Retry-After") == "" ||
		!strings.HasPrefix(res.body, `{"jsonrpc":"2.0","id":1.5,"error":{"code":-32603,`) {
		t.Errorf("%d, Retry-After %q, %s", res.status, res.header.Get("Retry-After"), res.body)
	}
}

func TestTimeout(t *testing.T) {
	short := func(s *config.Server, _ *passthrough.Options) { s.Timeout = time.Second }
	eachWay(t, fakemcp.Config{}, short, func(t *testing.T, e *env) {
		id := e.ready().initialize("2025-11-25")
		res := e.post(mcpPath, `{"jsonrpc":"2.0","id":"slow","method":"tools/call","params":{"name":"sleep","arguments":{"sleep_ms":60000}}}`,
			"Mcp-Session-Id", id, "Accept", "application/json")
		if res.status != http.StatusGatewayTimeout || !strings.HasPrefix(res.body, `{"jsonrpc":"2.0","id":"slow","error":{"code":-32003,`) {
			t.Errorf("%d %s", res.status, res.body)
		}
		e.waitFor("cancelled")
		// As a stream, the error is the last event.
		res = e.post(mcpPath, `{"jsonrpc":"2.0","id":"slow","method":"tools/call","params":{"name":"progress","arguments":{"n":1000,"interval_ms":50},"_meta":{"progressToken":1}}}`,
			"Mcp-Session-Id", id)
		if n := len(res.msgs); n < 2 || !strings.HasPrefix(res.msgs[n-1], `{"jsonrpc":"2.0","id":"slow","error":{"code":-32003,`) {
			t.Errorf("stream: %d %q", res.status, res.msgs)
		}
	})
}

func TestBodyBound(t *testing.T) {
	small := func(_ *config.Server, o *passthrough.Options) { o.MaxBody = 1000 }
	eachWay(t, fakemcp.Config{}, small, func(t *testing.T, e *env) {
		res := e.ready().post(mcpPath, `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"`+strings.Repeat("x", 1000)+`"}}`)
		if res.status != http.StatusRequestEntityTooLarge {
			t.Errorf("%d %s", res.status, res.body)
		}
	})
}

// TestLargeResults: results longer than what is buffered arrive whole.
func TestLargeResults(t *testing.T) {
	eachWay(t, fakemcp.Config{}, nil, func(t *testing.T, e *env) {
		id := e.ready().initialize("2025-11-25")
		for _, size := range []string{"1", "2000", "70000", "262144", "3000000"} {
			res := e.post(mcpPath, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"size":`+size+`}}}`, "Mcp-Session-Id", id, "Accept", "application/json")
			var got struct {
				Result struct{ Content []struct{ Text string } }
			}
			if err := json.Unmarshal([]byte(res.body), &got); err != nil || len(got.Result.Content) != 1 {
				t.Fatalf("%s: %d, %v, %.200s", size, res.status, err, res.body)
			}
			var want int
			if err := json.Unmarshal([]byte(size), &want); err != nil || len(got.Result.Content[0].Text) != want {
				t.Errorf("%s: %d bytes", size, len(got.Result.Content[0].Text))
			}
		}
	})
}

// TestDisconnect: an agent that goes away is noticed by the upstream. A modern one
// cancels with that.
func TestDisconnect(t *testing.T) {
	eachWay(t, fakemcp.Config{}, nil, func(t *testing.T, e *env) {
		e.ready()
		ctx, cancel := context.WithCancel(context.Background())
		var call sync.WaitGroup
		defer call.Wait()
		defer cancel()
		call.Go(func() {
			req := e.request(ctx, http.MethodPost, mcpPath, modern(`"id":5,"method":"tools/call"`, `"name":"sleep","arguments":{"sleep_ms":60000}`), modernHeader("tools/call", "sleep")...)
			if resp, err := e.client.Do(req); err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		})
		e.waitFor("sleeping")
		cancel()
		deadline := time.Now().Add(30 * time.Second)
		for {
			events := strings.Join(e.events(), "\n")
			if strings.Contains(events, "cancelled") || strings.Contains(events, "disconnected ") {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("the server did not notice: %q", events)
			}
			time.Sleep(5 * time.Millisecond)
		}
	})
}

// TestCancel: notifications/cancelled reaches the call it names, and only that of
// the same session.
func TestCancel(t *testing.T) {
	eachWay(t, fakemcp.Config{}, nil, func(t *testing.T, e *env) {
		id := e.ready().initialize("2025-11-25")
		other := e.initialize("2025-11-25", "Authorization", "Bearer bob")
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		var call sync.WaitGroup
		call.Go(func() {
			resp, err := e.client.Do(e.request(ctx, http.MethodPost, mcpPath,
				`{"jsonrpc":"2.0","id":"c-1","method":"tools/call","params":{"name":"sleep","arguments":{"sleep_ms":60000}}}`, "Mcp-Session-Id", id))
			if err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		})
		defer call.Wait()
		e.waitFor("sleeping")
		gone := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"c-1"}}`
		if res := e.post(mcpPath, gone, "Mcp-Session-Id", other, "Authorization", "Bearer bob"); res.status != http.StatusAccepted {
			t.Errorf("of another session: %d %s", res.status, res.body)
		}
		if countEvents(e, "cancelled") != 0 {
			t.Fatal("another session cancelled the call")
		}
		if res := e.post(mcpPath, gone, "Mcp-Session-Id", id); res.status != http.StatusAccepted {
			t.Errorf("%d %s", res.status, res.body)
		}
		e.waitFor("cancelled")
		cancel()
	})
}

// TestDuplicateID: an id is refused while a request of the same session has it, in
// another session and afterwards it is not.
func TestDuplicateID(t *testing.T) {
	eachWay(t, fakemcp.Config{}, nil, func(t *testing.T, e *env) {
		id := e.ready().initialize("2025-11-25")
		other := e.initialize("2025-11-25")
		var call sync.WaitGroup
		call.Go(func() {
			for refused := true; refused; { // by a ping that was faster
				resp, err := e.client.Do(e.request(t.Context(), http.MethodPost, mcpPath,
					`{"jsonrpc":"2.0","id":"d","method":"tools/call","params":{"name":"sleep","arguments":{"sleep_ms":60000}}}`, "Mcp-Session-Id", id))
				if err != nil {
					return
				}
				body, _ := io.ReadAll(resp.Body)
				resp.Body.Close()
				refused = strings.Contains(string(body), "in use")
			}
		})
		const ping = `{"jsonrpc":"2.0","id":"d","method":"ping"}`
		gone := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"d"}}`
		for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
			res := e.post(mcpPath, ping, "Mcp-Session-Id", id)
			if strings.Contains(res.body, `"id":"d"`) && strings.Contains(res.body, "in use") && strings.Contains(res.body, "-32600") {
				break
			}
			if time.Now().After(deadline) {
				t.Errorf("the id of a call in flight: %d %s", res.status, res.body)
				break
			}
		}
		if res := e.post(mcpPath, ping, "Mcp-Session-Id", other); !strings.Contains(res.body, `"result"`) {
			t.Errorf("in another session: %d %s", res.status, res.body)
		}
		e.waitFor("sleeping")
		e.post(mcpPath, gone, "Mcp-Session-Id", id)
		e.waitFor("cancelled")
		call.Wait()
		if res := e.post(mcpPath, ping, "Mcp-Session-Id", id); !strings.Contains(res.body, `"result"`) {
			t.Errorf("afterwards: %d %s", res.status, res.body)
		}
	})
}

// TestBackChannel: what a server asks during a call reaches the agent that made
// it, and the answer comes back.
func TestBackChannel(t *testing.T) {
	eachWay(t, fakemcp.Config{}, nil, func(t *testing.T, e *env) {
		id := e.ready().initialize("2025-11-25")
		for i, tool := range []string{"sample", "elicit", "roots"} { // an id is taken until all of its answer is out
			resp, err := e.client.Do(e.request(context.Background(), http.MethodPost, mcpPath,
				`{"jsonrpc":"2.0","id":`+strconv.Itoa(3+i)+`,"method":"tools/call","params":{"name":"`+tool+`","arguments":{"rounds":2}}}`, "Mcp-Session-Id", id))
			if err != nil {
				t.Fatal(err)
			}
			events := streamable.NewEventReader(resp.Body, 1<<20)
			asked := 0
			for {
				ev, err := events.Next()
				if err != nil {
					t.Fatalf("%s: %v after %d questions, status %d, %s", tool, err, asked, resp.StatusCode, resp.Header.Get("Content-Type"))
				}
				if len(ev.Data) == 0 {
					continue
				}
				var m struct {
					ID     json.RawMessage
					Method string
					Result json.RawMessage
				}
				if err := json.Unmarshal(ev.Data, &m); err != nil {
					t.Fatal(err)
				}
				if m.Method == "" {
					if asked != 2 || !strings.Contains(string(m.Result), `12345678901234567890`) {
						t.Errorf("%s: %d questions, then %s", tool, asked, ev.Data)
					}
					break
				}
				asked++
				res := e.post(mcpPath, `{"jsonrpc":"2.0","id":`+string(m.ID)+`,"result":{"n":12345678901234567890,"roots":[]}}`, "Mcp-Session-Id", id)
				if res.status != http.StatusAccepted {
					t.Errorf("%s: answer: %d %s", tool, res.status, res.body)
				}
			}
			resp.Body.Close()
		}
	})
}

// TestListChanged: what changes is told on the GET stream of every session.
func TestListChanged(t *testing.T) {
	eachWay(t, fakemcp.Config{}, nil, func(t *testing.T, e *env) {
		id := e.ready().initialize("2025-11-25")
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		resp, err := e.client.Do(e.request(ctx, http.MethodGet, mcpPath, "", "Mcp-Session-Id", id))
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatal(resp, err)
		}
		defer resp.Body.Close()
		if resp.Header.Get("X-Accel-Buffering") != "no" {
			t.Error("a proxy may hold the stream back")
		}
		e.post(mcpPath, `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"set_tools","arguments":{"n":3}}}`, "Mcp-Session-Id", id)
		lines := bufio.NewScanner(resp.Body)
		for lines.Scan() {
			if strings.Contains(lines.Text(), "notifications/tools/list_changed") {
				return
			}
		}
		t.Errorf("nothing was told: %v", lines.Err())
	})
}

// TestListen: a modern agent hears of changes, whichever era its upstream is of.
func TestListen(t *testing.T) {
	legacy := fakemcp.Versions()[1:]
	for name, e := range map[string]func() *env{
		"forward":           func() *env { return startHTTP(t, fakemcp.Config{}, nil) },
		"legacy over HTTP":  func() *env { return startHTTP(t, fakemcp.Config{Versions: legacy}, nil) },
		"legacy over stdio": func() *env { return startProcess(t, fakemcp.Config{Versions: legacy}, nil) },
		"modern over stdio": func() *env { return startProcess(t, fakemcp.Config{Versions: fakemcp.Versions()[:1]}, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			e := e().ready()
			ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
			defer cancel()
			req := e.request(ctx, http.MethodPost, mcpPath,
				modern(`"id":"sub-1","method":"subscriptions/listen"`, `"notifications":{"toolsListChanged":true,"promptsListChanged":true}`), modernHeader("subscriptions/listen", "")...)
			resp, err := e.client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			events := streamable.NewEventReader(resp.Body, 1<<20)
			next := func() (m struct {
				Method string
				Params struct {
					Meta          map[string]any `json:"_meta"`
					Notifications map[string]any
				}
			}) {
				for {
					ev, err := events.Next()
					if err != nil {
						t.Fatal(err)
					}
					if len(ev.Data) == 0 {
						continue
					}
					if err := json.Unmarshal(ev.Data, &m); err != nil {
						t.Fatal(err)
					}
					if m.Params.Meta["io.modelcontextprotocol/subscriptionId"] != "sub-1" {
						t.Errorf("no subscriptionId: %s", ev.Data)
					}
					return m
				}
			}
			ack := next()
			if ack.Method != "notifications/subscriptions/acknowledged" || ack.Params.Notifications["toolsListChanged"] != true {
				t.Errorf("the first message is %+v", ack)
			}
			e.post(mcpPath, modern(`"id":2,"method":"tools/call"`, `"name":"set_tools","arguments":{"n":3}`), modernHeader("tools/call", "set_tools")...)
			if m := next(); m.Method != "notifications/tools/list_changed" {
				t.Errorf("then %+v", m)
			}
		})
	}
}

// TestParamHeaders: headers that repeat arguments are checked by whoever is the
// last to see them.
func TestParamHeaders(t *testing.T) {
	eachWay(t, fakemcp.Config{}, nil, func(t *testing.T, e *env) {
		e.ready()
		call := modern(`"id":2,"method":"tools/call"`, `"name":"region","arguments":{"region":"eu"}`)
		header := modernHeader("tools/call", "region")
		if res := e.post(mcpPath, call, append(header, "Mcp-Param-Region", "eu")...); res.status != http.StatusOK {
			t.Errorf("right: %d %s", res.status, res.body)
		}
		deadline := time.Now().Add(30 * time.Second) // the upstream is listed in the background
		for {
			res := e.post(mcpPath, call, append(header, "Mcp-Param-Region", "us")...)
			if res.status == http.StatusBadRequest && strings.Contains(res.body, `"code":-32020`) {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("wrong: %d %s", res.status, res.body)
			}
			time.Sleep(5 * time.Millisecond)
		}
	})
}

// TestOtherEra: agents of one era use servers of the other.
func TestOtherEra(t *testing.T) {
	modernOnly, legacyOnly := fakemcp.Config{Versions: fakemcp.Versions()[:1]}, fakemcp.Config{Versions: fakemcp.Versions()[1:]}
	t.Run("legacy agent", func(t *testing.T) {
		eachWay(t, modernOnly, nil, func(t *testing.T, e *env) {
			id := e.ready().initialize("2025-06-18")
			res := e.post(mcpPath, `{"jsonrpc":"2.0","id":1.5,"method":"tools/call","params":{"_meta":{"progressToken":"p"},"name":"progress","arguments":{"n":2}}}`, "Mcp-Session-Id", id)
			if len(res.msgs) != 3 || !strings.Contains(res.msgs[0], `"progressToken":"p"`) || !strings.HasPrefix(res.msgs[2], `{"jsonrpc":"2.0","id":1.5,"result":{"content":[{"type":"text","text":"2 steps"}]`) {
				t.Errorf("%d %q", res.status, res.msgs)
			}
			if res := e.post(mcpPath, `{"jsonrpc":"2.0","id":2,"method":"ping"}`, "Mcp-Session-Id", id); res.body != `{"jsonrpc":"2.0","id":2,"result":{}}` {
				t.Errorf("ping: %s", res.body)
			}
			if res := e.do(e.request(context.Background(), http.MethodDelete, mcpPath, "", "Mcp-Session-Id", id)); res.status != http.StatusNoContent {
				t.Errorf("DELETE: %d", res.status)
			}
		})
	})
	t.Run("modern agent", func(t *testing.T) {
		eachWay(t, legacyOnly, nil, func(t *testing.T, e *env) {
			res := e.ready().post(mcpPath, modern(`"id":1,"method":"tools/call"`, `"name":"odd"`), modernHeader("tools/call", "odd")...)
			want := `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete",` + fakemcp.OddResult + `,"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"fakemcp","version":"1"}}}}`
			if res.status != http.StatusOK || res.body != want {
				t.Errorf("%d %s", res.status, res.body)
			}
			if res := e.post(mcpPath, modern(`"id":2,"method":"ping"`, ``), modernHeader("ping", "")...); res.status != http.StatusNotFound || !strings.Contains(res.body, "-32601") {
				t.Errorf("ping: %d %s", res.status, res.body)
			}
		})
	})
}
