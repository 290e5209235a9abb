package passthrough_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/internal/passthrough"
	"github.com/weir-mcp/weir/internal/testkit/fakemcp"
	"github.com/weir-mcp/weir/internal/testkit/leak"
	"github.com/weir-mcp/weir/internal/upstream"
	"github.com/weir-mcp/weir/mcp/streamable"
)

// asProgram makes the test binary an MCP server, for upstreams that are processes.
const asProgram = "ROUTER_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		code := fakemcp.Main(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
		stop()
		os.Exit(code)
	}
	leak.Main(m)
}

// env is a Router on a port of its own, in front of an upstream with the name
// "fake".
type env struct {
	t      testing.TB
	url    string // of the Router
	router *passthrough.Router
	events func() []string
	client *http.Client
}

// way is one of the two ways to an upstream.
type way struct {
	name  string
	start func(t testing.TB, cfg fakemcp.Config, change func(*config.Server, *passthrough.Options)) *env
}

// ways are the same fake server reached by either way.
var ways = []way{
	{"forward", startHTTP},
	{"passthrough", startProcess},
	{"judged", startJudged},
}

// startJudged is startHTTP with a Judge that has nothing against any call: an
// agent must not notice that it is there.
func startJudged(t testing.TB, cfg fakemcp.Config, change func(*config.Server, *passthrough.Options)) *env {
	return startHTTP(t, cfg, func(s *config.Server, o *passthrough.Options) {
		o.Judge = everything
		if change != nil {
			change(s, o)
		}
	})
}

func startHTTP(t testing.TB, cfg fakemcp.Config, change func(*config.Server, *passthrough.Options)) *env {
	fake, url := serveFake(t, cfg)
	e := start(t, change, &config.Server{Name: "fake", URL: url + "/mcp", Type: mcpserver.TransportHTTP})
	e.events = fake.Events
	return e
}

// serveFake serves a fake MCP server over HTTP.
func serveFake(t testing.TB, cfg fakemcp.Config) (*fakemcp.Server, string) {
	t.Helper()
	fake, err := fakemcp.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(fake)
	t.Cleanup(func() {
		fake.Close()
		srv.CloseClientConnections()
		srv.Close()
	})
	return fake, srv.URL
}

func startProcess(t testing.TB, cfg fakemcp.Config, change func(*config.Server, *passthrough.Options)) *env {
	log := filepath.Join(t.TempDir(), "events")
	e := start(t, change, process(t, cfg, log))
	e.events = func() []string {
		data, err := os.ReadFile(log)
		if err != nil && !os.IsNotExist(err) {
			t.Error(err)
		}
		return strings.Split(strings.TrimSpace(string(data)), "\n")
	}
	return e
}

// process is the configuration of a fake MCP server over stdio.
func process(t testing.TB, cfg fakemcp.Config, log string) *config.Server {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"-log", log, "-init", string(cfg.Init), "-tools", strconv.Itoa(cfg.Tools), "-start-delay", cfg.StartDelay.String(),
		"-versions", strings.Join(cfg.Versions, ",")}
	if cfg.Bare {
		args = append(args, "-bare")
	}
	return &config.Server{Name: "fake", Type: mcpserver.TransportStdio, Command: self, Args: args, Env: asProgramEnv()}
}

// asProgramEnv is the environment of the test binary as an MCP server. A program
// that was built with -race sleeps for a second before it exits, which each test
// with a process would wait for.
func asProgramEnv() map[string]config.Secret {
	return map[string]config.Secret{asProgram: "1", "GORACE": "atexit_sleep_ms=0"}
}

// start starts a Router in front of servers.
func start(t testing.TB, change func(*config.Server, *passthrough.Options), servers ...*config.Server) *env {
	t.Helper()
	return startWith(t, upstream.New(upstream.Options{StartTimeout: 5 * time.Second, ReadyBudget: 3 * time.Second}), change, servers...)
}

// startWith is start with a manager of the test's own.
func startWith(t testing.TB, manager *upstream.Manager, change func(*config.Server, *passthrough.Options), servers ...*config.Server) *env {
	t.Helper()
	o := passthrough.Options{Guard: guard.New(guard.Options{Authenticate: guard.ByName(func(bearer string) (string, bool) { return bearer, true })})}
	o.Find, o.Names = passthrough.FromManager(manager)
	for _, s := range servers {
		if s.Timeout == 0 {
			s.Timeout = 20 * time.Second
		}
		s.Namespace, s.Start = s.Name, mcpserver.StartBoot
		if change != nil {
			change(s, &o)
		}
	}
	manager.Apply(servers)
	rt := passthrough.New(o)
	srv := httptest.NewServer(rt)
	e := &env{t: t, url: srv.URL, router: rt, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := rt.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		e.client.CloseIdleConnections()
		srv.CloseClientConnections()
		srv.Close()
		if err := manager.Close(ctx); err != nil {
			t.Errorf("manager: %v", err)
		}
	})
	return e
}

// ready waits until the upstream answers, so that tests of what follows do not
// measure its start.
func (e *env) ready() *env {
	e.t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		res := e.post("/mcps/fake/mcp", `{"jsonrpc":"2.0","id":0,"method":"tools/list"}`)
		if res.status == http.StatusOK {
			return e
		}
		if time.Now().After(deadline) {
			e.t.Fatalf("the upstream does not answer: %d %s", res.status, res.body)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// result is a response, read to its end.
type result struct {
	status int
	header http.Header
	body   string
	msgs   []string // the JSON body, or the data of the events that have some
}

// request makes a request as agents send it: a token names its principal.
func (e *env) request(ctx context.Context, method, path, body string, header ...string) *http.Request {
	e.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, e.url+path, strings.NewReader(body))
	if err != nil {
		e.t.Fatal(err)
	}
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("Authorization", "Bearer alice")
	for i := 0; i < len(header); i += 2 {
		if header[i+1] == "" {
			req.Header.Del(header[i])
			continue
		}
		req.Header.Set(header[i], header[i+1])
	}
	return req
}

// do sends a request and reads the whole answer.
func (e *env) do(req *http.Request) result {
	e.t.Helper()
	resp, err := e.client.Do(req)
	if err != nil {
		e.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		e.t.Errorf("reading the answer of %s %s: %v", req.Method, req.URL.Path, err)
	}
	res := result{status: resp.StatusCode, header: resp.Header, body: string(body)}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		events := streamable.NewEventReader(bytes.NewReader(body), 64<<20)
		for {
			ev, err := events.Next()
			if err != nil {
				break
			}
			if len(ev.Data) > 0 {
				res.msgs = append(res.msgs, string(ev.Data))
			}
		}
	} else if len(body) > 0 {
		res.msgs = []string{string(body)}
	}
	return res
}

func (e *env) post(path, body string, header ...string) result {
	e.t.Helper()
	return e.do(e.request(context.Background(), http.MethodPost, path, body, header...))
}

// initialize starts a legacy session and returns its id.
func (e *env) initialize(version string, header ...string) string {
	e.t.Helper()
	res := e.post("/mcps/fake/mcp", `{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"`+version+
		`","capabilities":{"sampling":{},"elicitation":{},"roots":{}},"clientInfo":{"name":"test","version":"1"}}}`, header...)
	id := res.header.Get("Mcp-Session-Id")
	if res.status != http.StatusOK || id == "" {
		e.t.Fatalf("initialize: %d, session %q, %s", res.status, id, res.body)
	}
	e.post("/mcps/fake/mcp", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, append(header, "Mcp-Session-Id", id)...)
	return id
}

// waitFor waits for an event of the fake server.
func (e *env) waitFor(event string) {
	e.t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		for _, ev := range e.events() {
			if strings.HasPrefix(ev, event) {
				return
			}
		}
		if time.Now().After(deadline) {
			e.t.Fatalf("the server saw no %q, but %q", event, e.events())
		}
		time.Sleep(5 * time.Millisecond)
	}
}
