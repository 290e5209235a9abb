package passthrough_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/internal/passthrough"
	"github.com/weir-mcp/weir/mcp"
)

// noting is an upstream that notes what it is told and answers with the params.
type noting struct {
	scripted
	mu    sync.Mutex
	notes []string
}

func (n *noting) note(method string, params json.RawMessage) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.notes = append(n.notes, method+" "+string(params))
}

func (n *noting) Notify(_ context.Context, method string, params json.RawMessage) error {
	n.note(method, params)
	return nil
}

// TestExtensions: methods and notifications that no version defines, and those of
// tasks, pass both ways and between the eras, with every field, number and order
// of keys; the result of a legacy upstream is completed for a modern agent, and
// nothing else is touched.
func TestExtensions(t *testing.T) {
	odd := `"z":{"n":12345678901234567890,"f":1.50,"a":[null]},"a":"\u00e9"`
	methods := []string{"x-vendor/do", "tasks/get", "tasks/list", "tasks/result", "tasks/cancel", "tasks/update", "resources/x"}
	for _, server := range []mcp.Hello{
		{Version: mcp.V20251125, Capabilities: json.RawMessage(`{"tasks":{"list":{}},"experimental":{"x":{}}}`)},
		{Version: mcp.V20260728, Modern: true, Capabilities: json.RawMessage(`{"extensions":{"io.modelcontextprotocol/tasks":{}}}`)},
	} {
		up := &noting{scripted: scripted{hello: server}}
		up.call = func(ctx context.Context, method string, params []byte, back mcp.Handler) (string, error) {
			up.note(method, params)
			about := &mcp.Request{Method: "notifications/x-vendor/about", Params: json.RawMessage(`{` + odd + `}`), Peer: mcp.NoPeer}
			if _, err := back.Serve(ctx, about); err != nil {
				return "", err
			}
			return `{"taskId":"t",` + odd + `,"_meta":{"x/y":1}}`, nil
		}
		e := serveScripted(t, up)
		for _, method := range methods {
			t.Run(server.Version+" "+method, func(t *testing.T) {
				e.t = t
				session := e.initialize("2025-11-25")
				for _, agent := range []struct {
					era, body string
					header    []string
				}{
					{"legacy", `{"jsonrpc":"2.0","id":"q","method":"` + method + `","params":{` + odd + `}}`, []string{"Mcp-Session-Id", session}},
					{"modern", modern(`"id":"q","method":"`+method+`"`, odd), modernHeader(method, "")},
				} {
					up.notes = nil
					res := e.post(mcpPath, agent.body, agent.header...)
					if len(res.msgs) != 2 || res.msgs[0] != `{"jsonrpc":"2.0","method":"notifications/x-vendor/about","params":{`+odd+`}}` {
						t.Fatalf("%s agent: %d %s", agent.era, res.status, res.body)
					}
					if want := `"taskId":"t",` + odd; !strings.Contains(res.msgs[1], want) || !strings.Contains(res.msgs[1], `"x/y":1`) {
						t.Errorf("%s agent: the result is %s", agent.era, res.msgs[1])
					}
					if len(up.notes) != 1 || !strings.HasPrefix(up.notes[0], method+" {") || !strings.Contains(up.notes[0], odd) {
						t.Errorf("%s agent: the server saw %q", agent.era, up.notes)
					}
				}
			})
		}
		t.Run(server.Version+" notifications", func(t *testing.T) {
			e.t = t
			session := e.initialize("2025-11-25")
			up.notes = nil
			res := e.post(mcpPath, `{"jsonrpc":"2.0","method":"notifications/x-vendor/told","params":{`+odd+`}}`, "Mcp-Session-Id", session)
			if res.status != http.StatusAccepted || len(up.notes) != 1 || up.notes[0] != `notifications/x-vendor/told {`+odd+`}` {
				t.Errorf("%d, the server saw %q", res.status, up.notes)
			}
		})
	}
}

// startAt starts a server at an address that was another's.
func startAt(t *testing.T, address string, h http.Handler) *httptest.Server {
	t.Helper()
	var l net.Listener
	var err error
	for range 3000 {
		if l, err = net.Listen("tcp", address); err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err != nil {
		t.Fatal(err)
	}
	srv := &httptest.Server{Listener: l, Config: &http.Server{Handler: h}}
	srv.Start()
	return srv
}

// TestTaskStatusReachesAgents: what a server tells of a task outside of any call
// reaches the sessions that listen.
func TestTaskStatusReachesAgents(t *testing.T) {
	up := &scripted{}
	e := serveScripted(t, up)
	session := e.initialize("2025-11-25")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	resp, err := e.client.Do(e.request(ctx, http.MethodGet, mcpPath, "", "Mcp-Session-Id", session, "Accept", "text/event-stream"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	up.mu.Lock()
	tell := up.tell
	up.mu.Unlock()
	params := `{"taskId":"t","status":"working","x":12345678901234567890}`
	tell("notifications/tasks/status", []byte(params))
	var seen strings.Builder
	buf := make([]byte, 4096)
	for !strings.Contains(seen.String(), params) {
		n, err := resp.Body.Read(buf)
		if seen.Write(buf[:n]); err != nil {
			t.Fatalf("%q, %v", seen.String(), err)
		}
	}
	if !strings.Contains(seen.String(), `"method":"notifications/tasks/status"`) {
		t.Errorf("%q", seen.String())
	}
}

// TestTasksHaveOwners: principals that share a connection to a server do not share
// the tasks that they make there.
func TestTasksHaveOwners(t *testing.T) {
	up := &noting{scripted: scripted{hello: mcp.Hello{Version: mcp.V20251125, Capabilities: json.RawMessage(`{"tasks":{}}`)}}}
	made := 0
	up.call = func(_ context.Context, method string, params []byte, _ mcp.Handler) (string, error) {
		switch method {
		case "tools/call":
			made++
			return fmt.Sprintf(`{"task":{"taskId":"t%d","status":"working"}}`, made), nil
		case "tasks/list":
			return `{"tasks":[{"taskId":"t1","n":1.0},{"taskId":"t2"}],"nextCursor":"c"}`, nil
		case "tasks/result":
			return `{"content":[{"type":"text","text":"done"}]}`, nil
		}
		return `{"taskId":"t1","status":"completed","createdAt":"c","lastUpdatedAt":"u"}`, nil
	}
	e := &env{t: t, client: &http.Client{Transport: &http.Transport{}}}
	defer e.client.CloseIdleConnections()
	handler := guard.New(guard.Options{Authenticate: guard.ByName(func(bearer string) (string, bool) { return bearer, true })})
	rt := passthrough.New(passthrough.Options{Guard: handler, Find: func(string) (passthrough.Upstream, bool) { return up, true }, Names: func() []string { return nil }})
	srv := httptest.NewServer(rt)
	defer srv.Close()
	defer func() {
		if err := rt.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	e.url = srv.URL
	for _, who := range []string{"ann", "bob"} {
		e.post(mcpPath, call("x"), "Authorization", "Bearer "+who)
	}
	for _, c := range []struct{ who, method, params, want string }{
		{"ann", "tasks/get", `{"taskId":"t1"}`, `"status":"completed"`},
		{"ann", "tasks/get", `{"taskId":"t2"}`, `no such task: t2`},
		{"bob", "tasks/result", `{"taskId":"t1"}`, `no such task: t1`},
		{"bob", "tasks/cancel", `{"taskId":"t1"}`, `"code":-32602`},
		{"bob", "tasks/get", `{"taskId":"t9"}`, `no such task: t9`},
		{"bob", "tasks/result", `{"taskId":"t2","taskId":"t1"}`, `tasks/result needs one taskId, a text`},
		{"bob", "tasks/result", `{"taskId":"t2","task\u0049D":"t1"}`, `tasks/result needs one taskId, a text`},
		{"bob", "tasks/result", `{"taskId":["t1"]}`, `tasks/result needs one taskId, a text`},
		{"bob", "tasks/result", `{}`, `tasks/result needs one taskId, a text`},
		{"bob", "tasks/result", `{"taskId":"t2"}`, `"text":"done"`},
		{"ann", "tasks/list", `{}`, `"result":{"tasks":[{"taskId":"t1","n":1.0}],"nextCursor":"c"}`},
		{"bob", "tasks/list", `{}`, `"result":{"tasks":[{"taskId":"t2"}],"nextCursor":"c"}`},
		{"eve", "tasks/list", `{}`, `"result":{"tasks":[],"nextCursor":"c"}`},
	} {
		res := e.post(mcpPath, `{"jsonrpc":"2.0","id":1,"method":"`+c.method+`","params":`+c.params+`}`, "Authorization", "Bearer "+c.who)
		if !strings.Contains(res.body, c.want) {
			t.Errorf("%s %s %s: %d %s, want %s", c.who, c.method, c.params, res.status, res.body, c.want)
		}
	}
	for who, want := range map[string]string{
		"ann": `{"task":{"id":"t1","status":"completed","createdAt":"c","updatedAt":"u","error":null,"result":{"content":[{"type":"text","text":"done"}]}}}`,
		"bob": `task not found: t1`,
	} {
		if res := e.do(e.request(t.Context(), http.MethodGet, "/mcps/fake/task?taskId=t1", "", "Authorization", "Bearer "+who)); !strings.Contains(res.body, want) {
			t.Errorf("%s: %d %s", who, res.status, res.body)
		}
	}
}

// TestAgentRestartsInMidStream: a call whose agent goes away while it streams is
// told so, with its id, and the next call reaches the agent that is there again.
func TestAgentRestartsInMidStream(t *testing.T) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct{ Name string }
		}
		if json.Unmarshal(body, &m) != nil || r.Method != http.MethodPost {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		switch {
		case m.ID == nil:
			w.WriteHeader(http.StatusAccepted)
		case m.Method == "initialize":
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"a","version":"1"}}}`, m.ID)
		case m.Params.Name == "breaks":
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":1,\"progress\":1}}\n\n")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler) // as when the process is killed
		default:
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"tools":[]}}`, m.ID)
		}
	})
	agent := httptest.NewServer(handler)
	address := agent.Listener.Addr().String()
	e := start(t, nil, &config.Server{Name: "fake", URL: agent.URL + "/mcp", Type: mcpserver.TransportHTTP}).ready()
	for _, way := range []string{"passed through", "forwarded"} {
		if way == "forwarded" {
			// An agent that gives out no session is forwarded to once it was greeted.
			if res := e.post(mcpPath, initRequest); res.status != http.StatusOK {
				t.Fatalf("%d %s", res.status, res.body)
			}
		}
		res := e.post(mcpPath, call("breaks"))
		last := ""
		if len(res.msgs) > 0 {
			last = res.msgs[len(res.msgs)-1]
		}
		if !strings.Contains(last, `"id":7`) || !strings.Contains(last, `"code":-32603`) || !strings.Contains(last, "upstream_unavailable") {
			t.Errorf("%s: %d %q", way, res.status, res.body)
		}
	}
	agent.CloseClientConnections()
	agent.Close()
	if res := e.post(mcpPath, call("add")); res.status != http.StatusBadGateway && res.status != http.StatusServiceUnavailable || !strings.Contains(res.body, "Failed to reach agent") || !strings.Contains(res.body, `"id":7`) {
		t.Errorf("while it is away: %d %s", res.status, res.body)
	}
	again := startAt(t, address, handler)
	defer again.Close()
	deadline := time.Now().Add(30 * time.Second)
	for {
		res := e.post(mcpPath, call("add"))
		if res.status == http.StatusOK {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("it is there again: %d %s", res.status, res.body)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
