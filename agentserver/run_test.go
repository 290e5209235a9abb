package agentserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/protocol/invocation"
	"github.com/weir-mcp/weir/mcp"
)

// started is an agent that Run serves.
type started struct {
	agent
	addr string
	stop func() error // ends it and waits
}

func runAgent(t *testing.T, o Options) *started {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ready := make(chan net.Addr, 1)
	over := make(chan error, 1)
	o.Ready = func(a net.Addr) { ready <- a }
	o.ConfigOptions.LookupEnv = testEnv
	if o.Addr == "" {
		o.Addr = "127.0.0.1:0"
	}
	go func() { over <- Run(ctx, o) }()
	s := &started{}
	s.stop = sync.OnceValue(func() error { cancel(); return <-over })
	t.Cleanup(func() { _ = s.stop() })
	select {
	case addr := <-ready:
		s.addr = addr.String()
		s.agent = agent{t: t, url: "http://" + s.addr}
	case err := <-over:
		over <- err
		t.Fatalf("the agent does not run: %v", err)
	}
	return s
}

// A task that waited when the agent ended runs after it has started anew, one
// that ran has failed, and a result stays readable.
func TestRestart(t *testing.T) {
	dir := t.TempDir()
	conf := filepath.Join(dir, "agent.yaml")
	gate := filepath.Join(dir, "gate")
	if err := os.WriteFile(conf, []byte(jobs(gate)+"queue: {store: 'file:tasks', results: 10}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := Options{Config: conf, ShutdownGrace: 50 * time.Millisecond}
	a := runAgent(t, o)
	make := func(params string) string { t.Helper(); return a.post("tools/call", params).text("result", "taskId") }
	done := make(`{"name":"job","arguments":{"n":1}}`)
	a.ended(done)
	running := make(`{"name":"gated"}`)
	eventually(t, "it runs", func() bool { return a.task(http.MethodGet, running).text("task", "status") == "running" })
	waiting := make(`{"name":"job","arguments":{"n":2}}`)
	if err := a.stop(); err != nil {
		t.Fatal(err)
	}
	a = runAgent(t, o)
	if r := a.ended(done); r.text("task", "status") != "completed" || string(r.get("task", "result", "structuredContent", "input", "n")) != "1" {
		t.Errorf("completed before: %s", r.body)
	}
	if r := a.ended(running); r.text("task", "status") != "failed" || !strings.Contains(r.text("task", "error"), "interrupted") {
		t.Errorf("ran before: %s", r.body)
	}
	if r := a.ended(waiting); r.text("task", "status") != "completed" || string(r.get("task", "result", "structuredContent", "input", "n")) != "2" {
		t.Errorf("waited before: %s", r.body)
	}
}

// An agent that is started anew in the middle of a stream: the caller is told,
// nothing hangs, and the new agent serves at the same place.
func TestRestartInMidStream(t *testing.T) {
	tool := Func("wait", "Waits", func(ctx context.Context, _ struct{}) (string, error) {
		if err := CallOf(ctx).Progress(ctx, 1, 0, "begun"); err != nil {
			return "", err
		}
		<-ctx.Done()
		return "", ctx.Err()
	})
	o := Options{Tools: []Tool{tool, Func("ok", "Ok", func(context.Context, struct{}) (bool, error) { return true, nil })}, ShutdownGrace: 50 * time.Millisecond}
	a := runAgent(t, o)
	headers := a.session(mcp.V20251125)
	stream := a.stream(request("tools/call", `{"name":"wait","_meta":{"progressToken":1}}`), headers...)
	if line := <-stream; !strings.Contains(line, "begun") {
		t.Fatalf("first: %s", line)
	}
	if err := a.stop(); err != nil {
		t.Fatal(err)
	}
	select {
	case line := <-stream:
		if !strings.Contains(line, "shutting_down") || !strings.Contains(line, `"id":"a-1"`) {
			t.Errorf("the caller is told %s", line)
		}
	case <-time.After(30 * time.Second):
		t.Error("the caller is told nothing")
	}
	// A connection kept alive to the old agent is not one to the new: what is
	// posted on it, before its end is read, gets EOF and may not be sent again.
	http.DefaultClient.CloseIdleConnections()
	o.Addr = a.addr
	b := runAgent(t, o)
	if r := b.post("tools/call", `{"name":"ok"}`, headers...); r.status != http.StatusNotFound || r.text("error", "data", "kind") != "session_not_found" {
		t.Errorf("the old session: %d %s", r.status, r.body)
	}
	if r := b.call("ok", "{}"); r.content() != "true" {
		t.Errorf("anew: %s", r.body)
	}
}

// An agent whose port is taken says so.
func TestPortTaken(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := Run(t.Context(), Options{Addr: l.Addr().String()}); err == nil || !strings.Contains(err.Error(), "Options.Addr") {
		t.Errorf("got %v", err)
	}
}

func TestHealth(t *testing.T) {
	a := newAgent(t, basic, Options{Authenticate: func(token string) (string, bool) { return "ann", token == "sesame" }})
	free := newAgent(t, basic, Options{})
	get := func(url, token string) (code int, body []byte) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if body, err = io.ReadAll(resp.Body); err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, body
	}
	for _, path := range []string{"/health", "/healthz"} {
		// Where tokens are wanted, who has none learns that the agent lives.
		if code, body := get(a.url+path, ""); code != http.StatusOK || string(body) != `{"status":"ok"}` {
			t.Errorf("%s without a token: %d %s", path, code, body)
		}
		if code, body := get(a.url+path, "wrong"); code != http.StatusUnauthorized {
			t.Errorf("%s with a wrong token: %d %s", path, code, body)
		}
	}
	for url, token := range map[string]string{a.url + "/health": "sesame", a.url + "/healthz": "sesame", free.url + "/health": "", free.url + "/healthz": ""} {
		code, body := get(url, token)
		var h struct {
			Status string         `json:"status"`
			Uptime *int           `json:"uptime"`
			Name   string         `json:"name"`
			Tools  int            `json:"tools"`
			Queue  map[string]int `json:"queue"`
		}
		if err := json.Unmarshal(body, &h); err != nil || code != http.StatusOK || h.Status != "ok" || h.Uptime == nil || h.Name != "demo" || h.Tools != 4 || h.Queue["concurrency"] != 1 {
			t.Errorf("%s: %d %s, %v", url, code, body, err)
		}
	}
	// A name that somebody lets point here is not answered (DNS rebinding).
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, a.url+"/health", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "evil.example.com"
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusForbidden {
		t.Errorf("a foreign Host: %d", resp.StatusCode)
	}
}

// With a verifier, an agent answers its router only, and a token is for one
// tool, once.
func TestInvocation(t *testing.T) {
	key := []byte(strings.Repeat("k", 32))
	signer, err := invocation.NewSigner("weir", key)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(Options{Name: "demo", InvocationKey: []byte("short")}); err == nil || !strings.Contains(err.Error(), "the key of the router's invocation tokens: ") {
		t.Errorf("a short key: %v", err)
	}
	a := newAgent(t, basic, Options{InvocationKey: key})
	sign := func(principal, agent, tool string) []string {
		token, err := signer.Sign(principal, agent, tool)
		if err != nil {
			t.Fatal(err)
		}
		return []string{invocation.Header, token}
	}
	params := `{"name":"echo","arguments":{"text":"x"}}`
	token := sign("ann", "demo", "echo")
	if r := a.post("tools/call", params, token...); r.text("result", "structuredContent", "metadata", "principal") != "ann" {
		t.Errorf("%d %s", r.status, r.body)
	}
	for name, headers := range map[string][]string{
		"none": nil, "used before": token, "another agent's": sign("ann", "other", "echo"),
	} {
		if r := a.post("tools/call", params, headers...); r.status != http.StatusUnauthorized || r.text("error", "data", "kind") != "unauthorized" {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
	for name, tool := range map[string]string{"another tool's": "fails", "no tool's": ""} {
		if r := a.post("tools/call", params, sign("ann", "demo", tool)...); r.text("error", "data", "kind") != "permission_denied" {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
	if r := a.post("tools/list", "{}", sign("ann", "demo", "")...); r.get("result", "tools") == nil {
		t.Errorf("%s", r.body)
	}
	id := a.post("tools/call", `{"name":"job"}`, sign("ann", "demo", "job")...).text("result", "taskId")
	if r := a.task(http.MethodGet, id, sign("bob", "demo", "")...); r.status != http.StatusNotFound {
		t.Errorf("bob reads ann's task: %s", r.body)
	}
	if r := a.task(http.MethodGet, id, sign("ann", "demo", "")...); r.text("task", "id") != id {
		t.Errorf("ann: %s", r.body)
	}
	if r := a.task(http.MethodGet, id); r.status != http.StatusUnauthorized {
		t.Errorf("nobody: %d %s", r.status, r.body)
	}
}

// TestSecretsOfARouter: an agent accepts what any of the router's secrets has signed, each token once, also after the
// router's next answer.
func TestSecretsOfARouter(t *testing.T) {
	a := newAgent(t, basic, Options{})
	r := &registration{s: a.Server}
	one, two := strings.Repeat("1", 64), strings.Repeat("2", 64)
	token := func(secret string) []string {
		signer, err := invocation.NewSigner("weir", []byte(secret))
		if err != nil {
			t.Fatal(err)
		}
		token, err := signer.Sign("ann", a.Server.name, "echo")
		if err != nil {
			t.Fatal(err)
		}
		return []string{invocation.Header, token}
	}
	params := `{"name":"echo","arguments":{"text":"x"}}`
	admits := func(what string, token []string, want bool) {
		t.Helper()
		if got := a.post("tools/call", params, token...); (got.status == http.StatusOK) != want {
			t.Errorf("%s: %d %s", what, got.status, got.body)
		}
	}
	r.adopt([]string{one})
	used := token(one)
	admits("its secret", used, true)
	admits("another secret", token(two), false)
	r.adopt([]string{two, one})
	admits("the new secret", token(two), true)
	admits("the former secret", token(one), true)
	admits("a token that was used before", used, false)
	r.adopt([]string{one, two})
	if got := a.post("tools/call", params, used...); !strings.Contains(string(got.body), "used before") {
		t.Errorf("a token that was used before, and another secret: %s", got.body)
	}
	r.adopt([]string{two})
	admits("a secret that is gone", token(one), false)
}

// fakeRouter takes registrations.
type fakeRouter struct {
	mu     sync.Mutex // guards below
	posts  []map[string]any
	left   []string // instances
	status int
	auth   []string
	seen   chan string
}

func (f *fakeRouter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.auth = append(f.auth, r.Header.Get("Authorization"))
	defer func() {
		select {
		case f.seen <- r.Method:
		default:
		}
	}()
	switch {
	case r.Method == http.MethodPost && r.URL.Path == "/agents" && f.status == 0:
		var body map[string]any
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		f.posts = append(f.posts, body)
		fmt.Fprint(w, `{"leaseMs":300}`)
	case r.Method == http.MethodDelete && r.URL.Path == "/agents/demo":
		f.left = append(f.left, r.URL.Query().Get("instance"))
		w.WriteHeader(http.StatusNoContent)
	default:
		w.WriteHeader(f.status)
		if f.status == http.StatusServiceUnavailable {
			fmt.Fprint(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"later"}}`)
		}
	}
}

// An agent registers, says again and again that it lives, and leaves.
func TestRegistration(t *testing.T) {
	f := &fakeRouter{seen: make(chan string, 100)}
	router := httptest.NewServer(f)
	defer router.Close()
	a := runAgent(t, Options{Name: "demo", Router: router.URL + "/", RouterToken: "tok"})
	for range 3 {
		if got := <-f.seen; got != http.MethodPost {
			t.Errorf("got %s", got)
		}
	}
	if err := a.stop(); err != nil {
		t.Fatal(err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	first := f.posts[0]
	_, port, _ := net.SplitHostPort(a.addr)
	if first["name"] != "demo" || fmt.Sprint(first["port"]) != port || first["instance"] == "" || first["health"] != "/health" {
		t.Errorf("registered as %v", first)
	}
	for _, p := range f.posts {
		if p["instance"] != first["instance"] {
			t.Errorf("another instance: %v", p)
		}
	}
	if len(f.left) != 1 || f.left[0] != first["instance"] {
		t.Errorf("left as %v, registered as %v", f.left, first["instance"])
	}
	for _, h := range f.auth {
		if h != "Bearer tok" {
			t.Errorf("Authorization %q", h)
		}
	}
}

// A router that refuses, or is not there, is tried again; the log says once
// what to do, and the agent serves meanwhile.
func TestRegistrationFails(t *testing.T) {
	for status, want := range map[int]string{401: "AGENT_TOKEN", 409: "another name", 500: `err="the router answered 500 Internal Server Error"`, 503: "503 Service Unavailable: later"} {
		f := &fakeRouter{seen: make(chan string, 100), status: status}
		router := httptest.NewServer(f)
		log := &lines{}
		a := newAgent(t, "", Options{Name: "demo", Router: router.URL, Logger: slog.New(slog.NewTextHandler(log, nil))})
		reg, err := newRegistration(a.Server, &net.TCPAddr{Port: 7000})
		if err != nil {
			t.Fatal(err)
		}
		reg.first = 10 * time.Millisecond
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan struct{})
		go func() { defer close(over); reg.run(ctx) }()
		<-f.seen
		<-f.seen // tried again
		if r := a.post("tools/list", "{}"); r.get("result") == nil {
			t.Errorf("%d: %s", status, r.body)
		}
		f.mu.Lock()
		f.status = 0
		f.mu.Unlock()
		eventually(t, "it registers", func() bool { return strings.Contains(log.String(), "registered with the router") })
		cancel()
		<-over
		if got := log.String(); strings.Count(got, "is not registered") != 1 || !strings.Contains(got, want) {
			t.Errorf("%d: log %s", status, got)
		}
		router.Close()
	}
	if err := Run(t.Context(), Options{Addr: "127.0.0.1:0", Router: "localhost:8088"}); err == nil || !strings.Contains(err.Error(), "http or https URL") {
		t.Errorf("a router without scheme: %v", err)
	}
}

// What was read from a configuration is logged, and nothing secret is.
func TestLogs(t *testing.T) {
	var b bytes.Buffer
	a := newAgent(t, `
tools:
  - {name: fields, description: x, command: 'true', inputSchema: {path: {type: string}}}
  - {name: schema, description: x, command: 'true', env: {KEY: "${SECRET}"}, inputSchema: {type: object}}
  - {name: gone, description: x, command: no-such-program}
`, Options{Logger: slog.New(slog.NewTextHandler(&b, nil))})
	if r := a.call("fields", `{"path":"x"}`); r.code() != 0 {
		t.Errorf("%s", r.body)
	}
	if err := a.Close(t.Context()); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	for _, want := range []string{`tool \"fields\": inputSchema read as a map of fields`, `tool \"schema\": inputSchema read as JSON Schema`, "no-such-program", "calls of it will fail"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the log lacks %s: %s", want, b.String())
		}
	}
	if strings.Contains(b.String(), "hunter2") {
		t.Errorf("the log holds a secret: %s", b.String())
	}
}
