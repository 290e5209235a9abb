package passthrough_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/internal/passthrough"
	"github.com/weir-mcp/weir/internal/protocol/invocation"
	"github.com/weir-mcp/weir/internal/testkit/fakemcp"
	"github.com/weir-mcp/weir/internal/upstream"
)

// agentServer is a small agent server that notes the tokens it gets, and
// answers tools/call of "hold" when it is let go.
type agentServer struct {
	verifier *invocation.Verifier
	holding  chan struct{} // a call of "hold" has come
	release  chan struct{} // it may be answered

	mu      sync.Mutex
	claims  []invocation.Claims
	refused []error
}

func (a *agentServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	claims, err := a.verifier.Verify(r.Header.Get(invocation.Header))
	a.mu.Lock()
	if err != nil {
		a.refused = append(a.refused, err)
	} else {
		a.claims = append(a.claims, claims)
	}
	a.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if strings.HasSuffix(r.URL.Path, "/getTaskStatus") {
		if id := r.URL.Query().Get("taskId"); id != "t-1" {
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"no such task"}}`)
			return
		}
		fmt.Fprintf(w, `{"task":{"id":"t-1","status":%q,"method":%q}}`, "running", r.Method)
		return
	}
	var m struct {
		ID     json.RawMessage
		Method string
		Params struct{ Name string }
	}
	body, _ := io.ReadAll(r.Body)
	if json.Unmarshal(body, &m) != nil || r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	switch {
	case m.ID == nil:
		w.WriteHeader(http.StatusAccepted)
	case m.Method == "initialize":
		w.Header().Set("Mcp-Session-Id", "s-"+claims.Principal)
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"a","version":"1"}}}`, m.ID)
	case m.Method == "resources/read":
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32002,"message":"no such resource","data":{"kind":"resource_not_found","uri":"x:"}}}`, m.ID)
	case m.Method == "tools/list":
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"tools":[]}}`, m.ID)
	default:
		if m.Params.Name == "hold" {
			a.holding <- struct{}{}
			<-a.release
		}
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":%q}]}}`, m.ID, claims.Principal+"/"+claims.Tool)
	}
}

// startAgent starts a Router in front of an agentServer with the name "fake".
func startAgent(t *testing.T, change func(*config.Server, *passthrough.Options)) (*env, *agentServer) {
	t.Helper()
	secret := []byte(strings.Repeat("k", 32))
	signer, err := invocation.NewSigner("weir", secret)
	if err != nil {
		t.Fatal(err)
	}
	verifier, err := invocation.NewVerifier("fake", secret)
	if err != nil {
		t.Fatal(err)
	}
	a := &agentServer{verifier: verifier, holding: make(chan struct{}, 1), release: make(chan struct{})}
	srv := httptest.NewServer(a)
	t.Cleanup(srv.Close)
	sign := func(agent, principal, tool string) (string, error) { return signer.Sign(principal, agent, tool) }
	manager := upstream.New(upstream.Options{
		StartTimeout: 5 * time.Second, ReadyBudget: 3 * time.Second,
		Transport: func(name string, of upstream.Owner, base http.RoundTripper) http.RoundTripper {
			principal := "weir"
			if s := of.Session; s != nil {
				principal = s.Principal()
			}
			return passthrough.Signed(base, sign, func() bool { return true }, passthrough.NewLoops(), name, principal, slog.New(slog.DiscardHandler))
		},
	})
	e := startWith(t, manager, func(s *config.Server, o *passthrough.Options) {
		o.Sign = sign
		if change != nil {
			change(s, o)
		}
	}, &config.Server{Name: "fake", URL: srv.URL + "/mcp", Type: mcpserver.TransportHTTP, PerSession: true})
	return e, a
}

func call(tool string) string {
	return `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"` + tool + `","arguments":{}}}`
}

// TestSigned: every request to an agent has a token of its own, which names the
// principal and the tool, whichever way it goes; what an agent sends itself under
// that name does not arrive.
func TestSigned(t *testing.T) {
	e, a := startAgent(t, nil)
	e.ready()
	// Without a session, through the Peer.
	res := e.post("/mcps/fake/mcp", call("add"), invocation.Header, "forged")
	if want := `"text":"alice/add"`; res.status != http.StatusOK || !strings.Contains(res.body, want) {
		t.Errorf("without a session: %d %s", res.status, res.body)
	}
	res = e.post("/mcps/fake/mcp", call("add"), "Authorization", "Bearer bob")
	if !strings.Contains(res.body, `"text":"bob/add"`) {
		t.Errorf("another principal: %d %s", res.status, res.body)
	}
	// In a session, forwarded.
	session := e.initialize("2025-11-25")
	res = e.post("/mcps/fake/mcp", call("sub"), "Mcp-Session-Id", session, "MCP-Protocol-Version", "2025-11-25", invocation.Header, "forged")
	if !strings.Contains(res.body, `"text":"alice/sub"`) {
		t.Errorf("in a session: %d %s", res.status, res.body)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.refused) > 0 {
		t.Errorf("the agent refused: %v", a.refused)
	}
	for _, c := range a.claims {
		if c.Issuer != "weir" || c.Audience != "fake" || !slices.Contains([]string{"alice", "bob", "weir"}, c.Principal) {
			t.Errorf("claims %+v", c)
		}
	}
}

// TestSessionlessIsGreetedOnce: callers that never initialize share one greeting
// of the agent for each principal.
func TestSessionlessIsGreetedOnce(t *testing.T) {
	e := startHTTP(t, fakemcp.Config{}, nil).ready()
	before := countEvents(e, "initialize")
	for range 5 {
		if res := e.post("/mcps/fake/mcp", call("echo")); res.status != http.StatusOK {
			t.Fatalf("%d %s", res.status, res.body)
		}
	}
	if after := countEvents(e, "initialize"); after != before || before == 0 {
		t.Errorf("%d greetings became %d", before, after)
	}
}

func countEvents(e *env, prefix string) (n int) {
	for _, ev := range e.events() {
		if strings.Contains(ev, prefix) {
			n++
		}
	}
	return n
}

// TestPlainCallersGetTheirCode: who posts without session and version is told of
// an unknown resource with the code of the first clients; data is the agent's.
func TestPlainCallersGetTheirCode(t *testing.T) {
	e, _ := startAgent(t, nil)
	e.ready()
	read := `{"jsonrpc":"2.0","id":"q","method":"resources/read","params":{"uri":"x:"}}`
	session := e.initialize("2025-11-25")
	for _, c := range []struct {
		name   string
		header []string
		code   int
	}{
		{"plain", nil, -32001},
		{"with a version", []string{"MCP-Protocol-Version", "2025-11-25"}, -32002},
		{"in a session", []string{"Mcp-Session-Id", session, "MCP-Protocol-Version", "2025-11-25"}, -32002},
	} {
		t.Run(c.name, func(t *testing.T) {
			e.t = t
			res := e.post("/mcps/fake/mcp", read, c.header...)
			want := fmt.Sprintf(`{"jsonrpc":"2.0","id":"q","error":{"code":%d,"message":"no such resource","data":{"kind":"resource_not_found","uri":"x:"}}}`, c.code)
			if res.body != want {
				t.Errorf("%s, want %s", res.body, want)
			}
		})
	}
}

// TestTaskRoute: tasks of an agent server are told as it tells them.
func TestTaskRoute(t *testing.T) {
	e, a := startAgent(t, nil)
	for _, c := range []struct {
		method, path string
		status       int
		body         string
	}{
		{"GET", "/mcps/fake/task?taskId=t-1", 200, `{"task":{"id":"t-1","status":"running","method":"GET"}}`},
		{"GET", "/mcp/fake/getTaskStatus?taskId=t-1", 200, `{"task":{"id":"t-1","status":"running","method":"GET"}}`},
		{"GET", "/getTaskStatus?agent=fake&taskId=t-1", 200, `{"task":{"id":"t-1","status":"running","method":"GET"}}`},
		{"GET", "/getTaskStatus?taskId=t-1", 400, `needs agent=… beside taskId=…, or ask for /mcps/{name}/task`},
		{"DELETE", "/mcps/fake/task?taskId=t-1", 200, `{"task":{"id":"t-1","status":"running","method":"DELETE"}}`},
		{"GET", "/mcps/fake/task?taskId=t-2", 404, `{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"no such task"}}`},
		{"GET", "/mcps/fake/task", 400, `taskId`},
		{"POST", "/mcps/fake/task?taskId=t-1", 405, `allowed: GET, DELETE`},
		{"GET", "/mcps/none/task?taskId=t-1", 404, `Agent 'none' not found`},
	} {
		res := e.do(e.request(context.Background(), c.method, c.path, ""))
		if res.status != c.status || !strings.Contains(res.body, c.body) {
			t.Errorf("%s %s: %d %s", c.method, c.path, res.status, res.body)
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.refused) > 0 {
		t.Errorf("the agent refused: %v", a.refused)
	}
}

// TestTaskOfOtherServers: where nobody made a task, nobody finds one.
func TestTaskOfOtherServers(t *testing.T) {
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			e := way.start(t, fakemcp.Config{}, nil).ready()
			res := e.do(e.request(t.Context(), http.MethodGet, "/mcps/fake/task?taskId=x", ""))
			if res.status != http.StatusNotFound || !strings.Contains(res.body, "task not found") {
				t.Errorf("%d %s", res.status, res.body)
			}
		})
	}
}

// TestLimits: what is over an agent's limits is refused with the status, the
// time to wait and the bound; what is within passes.
func TestLimits(t *testing.T) {
	t.Run("in flight", func(t *testing.T) {
		e, a := startAgent(t, func(_ *config.Server, o *passthrough.Options) {
			o.Limits = func(string) passthrough.Limits { return passthrough.Limits{InFlight: 1} }
		})
		e.ready()
		held := make(chan result, 1)
		go func() { held <- e.post("/mcps/fake/mcp", call("hold")) }()
		<-a.holding
		over := e.post("/mcps/fake/mcp", call("add"))
		if over.status != http.StatusServiceUnavailable || over.header.Get("Retry-After") == "" ||
			!strings.Contains(over.body, `"id":7`) || !strings.Contains(over.body, `"kind":"overloaded"`) || !strings.Contains(over.body, `"bound":1`) {
			t.Errorf("%d %v %s", over.status, over.header, over.body)
		}
		close(a.release)
		if res := <-held; res.status != http.StatusOK {
			t.Errorf("the one in flight: %d %s", res.status, res.body)
		}
		if res := e.post("/mcps/fake/mcp", call("add")); res.status != http.StatusOK {
			t.Errorf("afterwards: %d %s", res.status, res.body)
		}
	})
	t.Run("rate", func(t *testing.T) {
		limit := 0
		var mu sync.Mutex
		e, _ := startAgent(t, func(_ *config.Server, o *passthrough.Options) {
			o.Limits = func(string) passthrough.Limits {
				mu.Lock()
				defer mu.Unlock()
				return passthrough.Limits{PerMinute: limit}
			}
		})
		e.ready()
		mu.Lock()
		limit = 2
		mu.Unlock()
		var last result
		for range 3 {
			last = e.post("/mcps/fake/mcp", call("add"))
		}
		if last.status != http.StatusTooManyRequests || last.header.Get("Retry-After") == "" || !strings.Contains(last.body, `"kind":"rate_limited"`) {
			t.Errorf("%d %v %s", last.status, last.header, last.body)
		}
	})
	t.Run("body", func(t *testing.T) {
		e, _ := startAgent(t, func(_ *config.Server, o *passthrough.Options) {
			o.Limits = func(string) passthrough.Limits { return passthrough.Limits{MaxBody: 200} }
		})
		e.ready()
		res := e.post("/mcps/fake/mcp", call(strings.Repeat("x", 300)))
		if res.status != http.StatusRequestEntityTooLarge || !strings.Contains(res.body, "200 bytes") {
			t.Errorf("%d %s", res.status, res.body)
		}
		if res := e.post("/mcps/fake/mcp", call("add")); res.status != http.StatusOK {
			t.Errorf("a small one: %d %s", res.status, res.body)
		}
	})
}

// TestAllow: a token reaches the agents it is for, and learns of no others.
func TestAllow(t *testing.T) {
	e := startHTTP(t, fakemcp.Config{}, func(_ *config.Server, o *passthrough.Options) {
		o.Allow = func(principal, name string) bool { return principal != "bob" || name == "b" }
	}).ready()
	for _, path := range []string{"/mcps/fake/mcp", "/mcps/fake/task?taskId=1", "/mcps/secret/mcp"} {
		res := e.post(path, call("echo"), "Authorization", "Bearer bob")
		if res.status != http.StatusForbidden || !strings.Contains(res.body, `"id":7`) || !strings.Contains(res.body, "permission_denied") {
			t.Errorf("%s: %d %s", path, res.status, res.body)
		}
	}
	res := e.post("/mcps/b/mcp", call("echo"), "Authorization", "Bearer bob")
	if res.status != http.StatusNotFound || !strings.Contains(res.body, `"agents":[]`) {
		t.Errorf("names told to who may not use them: %d %s", res.status, res.body)
	}
	if res := e.post("/mcps/b/mcp", call("echo")); !strings.Contains(res.body, `"agents":["fake"]`) {
		t.Errorf("%d %s", res.status, res.body)
	}
}
