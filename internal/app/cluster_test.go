package app_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/app"
	"github.com/weir-mcp/weir/internal/cluster"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/link"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/testkit/fakemcp"
	"github.com/weir-mcp/weir/internal/testkit/storetest"
	"github.com/weir-mcp/weir/internal/web"
	"github.com/weir-mcp/weir/internal/web/api"
)

const (
	clusterToken = "a-token-of-ann-0123456789"
	otherToken   = "a-token-of-bob-0123456789"
	opsToken     = "a-token-of-ops-0123456789"
)

// nodes is a cluster of gateways in one process behind a balancer that takes them in turn.
type nodes struct {
	t    *testing.T
	docs *store.Memory
	bus  *store.MemoryBus
	key  *link.Key
	old  []*link.Key // opens, too, at nodes that are started
	fake *fakemcp.Server
	up   *httptest.Server // the MCP server behind all of them
	call int              // ids of requests
	path string           // of the endpoint
	more string           // of the configuration
	upAs string           // of the entry of the server

	programs string // further servers of mcpServers
	folders  bool   // each node has a folder with a configuration and its weir.lock

	elicit string      // id of the tool that asks
	blobs  store.Blobs // for copies of results
	late   bool        // nodes start without their store, which comes with docs.Cut(false)

	mu   sync.Mutex // guards below
	all  []*node
	turn int
}

// node is one gateway.
type node struct {
	name   string
	docs   *storetest.Faults
	bus    *cutBus
	engine *app.Engine
	server *web.Server
	front  *httptest.Server
	link   *linkListener
	node   *cluster.Node
	off    bool
	out    bool // of the balancer, by /readyz
	ended  bool // by the test itself
}

// cutBus is a Bus that can be cut off.
type cutBus struct {
	store.Bus
	mu  sync.Mutex // guards off
	off bool
}

func (b *cutBus) cut() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.off = true
}

func (b *cutBus) isOff() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.off
}

func (b *cutBus) Ask(subject string, h store.Header, body []byte, timeout time.Duration, f func(store.Message, error)) {
	if b.isOff() {
		go f(store.Message{}, store.ErrUnavailable)
		return
	}
	b.Bus.Ask(subject, h, body, timeout, f)
}

func (b *cutBus) Listen(subject string, f func(store.Message)) (func(), error) {
	return b.Bus.Listen(subject, func(m store.Message) {
		if !b.isOff() {
			f(m)
		}
	})
}

// linkListener is the listener of a peer link whose connections can be cut.
type linkListener struct {
	net.Listener
	mu    sync.Mutex // guards below
	conns []net.Conn
}

func (l *linkListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err == nil {
		l.mu.Lock()
		l.conns = append(l.conns, conn)
		l.mu.Unlock()
	}
	return conn, err
}

func (l *linkListener) cut() {
	_ = l.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, conn := range l.conns {
		_ = conn.Close()
	}
}

func startNodes(t *testing.T, count int) *nodes {
	t.Helper()
	return startNodesWith(t, count, "")
}

// startNodesWith starts nodes with more in their configuration.
func startNodesWith(t *testing.T, count int, more string) *nodes {
	t.Helper()
	fake, err := fakemcp.New(fakemcp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	c := &nodes{fake: fake, t: t, docs: store.NewMemory(store.MemoryOptions{}), bus: store.NewMemoryBus(), up: httptest.NewServer(fake), path: "/mcp", more: more, blobs: store.NoBlobs{}}
	t.Cleanup(func() { fake.Close(); c.up.Close() })
	if c.key, err = link.Parse(strings.Repeat("0123456789abcdef", 4)); err != nil {
		t.Fatal(err)
	}
	for i := range count {
		c.start(fmt.Sprint("n", i))
	}
	return c
}

// start adds a node.
func (c *nodes) start(name string) *node {
	c.t.Helper()
	more := c.more
	if !strings.Contains(more, "policy:") {
		more += "policy: {rules: [{action: deny, tool: no_such_tool}]}\n"
	}
	text := more + fmt.Sprintf("mode: gateway\nauth: {tokens: [{name: ann, register: [helper], sha256: %x}, {name: bob, sha256: %x}, {name: ops, operator: true, sha256: %x}]}\nmcpServers: {up: {url: %q, required: true%s}%s}\n", sha256.Sum256([]byte(clusterToken)), sha256.Sum256([]byte(otherToken)), sha256.Sum256([]byte(opsToken)), c.up.URL+"/mcp", c.upAs, c.programs)
	path := "weir.yaml"
	if c.folders {
		path = filepath.Join(c.t.TempDir(), path)
	}
	conf, _, err := config.Parse(path, []byte(text), config.Options{})
	if err != nil {
		c.t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	authority := link.NewAuthority(name, c.key, c.old, nil)
	n := &node{name: name, docs: &storetest.Faults{Docs: c.docs, Next: func() storetest.Fault { return storetest.None }}, bus: &cutBus{Bus: c.bus}}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		c.t.Fatal(err)
	}
	n.link = &linkListener{Listener: listener}
	joining, cancel := context.WithCancel(c.t.Context())
	defer cancel()
	if c.late {
		n.docs.Cut(true)
		cancel()
	}
	kept, err := app.JoinedStore(joining, n.docs, c.blobs, c.key.Seal(c.old...), cluster.Options{
		Bus: n.bus, Name: name, URL: "https://" + n.link.Addr().String(), TLS: authority.TLS(), Late: c.late, Logger: log,
	})
	if err != nil {
		c.t.Fatal(err)
	}
	n.node = kept.Node()
	if n.engine, err = app.New(c.t.Context(), conf, app.Options{Version: "test", Logger: log, Store: kept}); err != nil {
		c.t.Fatal(err)
	}
	if err := n.engine.Ready(c.t.Context()); err != nil {
		c.t.Fatal(err)
	}
	n.front = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { n.server.ServeHTTP(w, r) }))
	n.server = web.NewHandler(n.engine, conf, n.front.URL, api.Machine{}, log)
	n.server.Join(n.link, authority.TLS())
	c.mu.Lock()
	c.all = append(c.all, n)
	c.mu.Unlock()
	c.t.Cleanup(func() { c.stop(n) })
	return n
}

// stop ends a node as SIGTERM does.
func (c *nodes) stop(n *node) {
	c.mu.Lock()
	if n.off || n.ended {
		c.mu.Unlock()
		return
	}
	n.off = true
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	_ = n.server.Shutdown(ctx)
	n.front.CloseClientConnections()
	n.front.Close()
	n.docs.Cut(false)
	n.engine.Close(ctx)
}

// kill cuts a node off from store, bus, clients and nodes, as kill -9 does.
func (c *nodes) kill(n *node) {
	c.mu.Lock()
	n.off = true
	c.mu.Unlock()
	n.docs.Cut(true)
	n.bus.cut()
	n.link.cut()
	n.front.CloseClientConnections()
	n.front.Listener.Close()
	c.t.Cleanup(func() {
		n.off = false
		c.stop(n)
	})
}

// next returns the node that the balancer sends the next request to.
func (c *nodes) next() *node {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		c.turn++
		if n := c.all[c.turn%len(c.all)]; !n.off && !n.out {
			return n
		}
	}
}

// post sends a message through the balancer.
func (c *nodes) post(session, body string) (*http.Response, string) {
	c.t.Helper()
	return c.postTo(c.next(), session, body)
}

func (c *nodes) postTo(n *node, session, body string) (*http.Response, string) {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), http.MethodPost, n.front.URL+c.path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Authorization", "Bearer "+clusterToken)
	if session != "" {
		r.Header.Set("Mcp-Session-Id", session)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		c.t.Fatalf("%s: %v", n.name, err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp, string(raw)
}

// open makes a session at a node.
func (c *nodes) open(n *node) string {
	c.t.Helper()
	resp, body := c.postTo(n, "", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	session := resp.Header.Get("Mcp-Session-Id")
	if session == "" {
		c.t.Fatalf("%d %s", resp.StatusCode, body)
	}
	if resp, body = c.post(session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`); resp.StatusCode != http.StatusAccepted {
		c.t.Fatalf("%d %s", resp.StatusCode, body)
	}
	return session
}

// finds lists tools, at each node, in a session whose node has just ended. A list may run twice, so it is repeated even if
// the connection to that node has taken it.
func (c *nodes) finds(session string) {
	c.t.Helper()
	for range len(c.all) {
		c.call++
		if resp, body := c.post(session, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/list"}`, c.call)); resp.StatusCode != http.StatusOK || !strings.Contains(body, `"result"`) {
			c.t.Errorf("%d %s", resp.StatusCode, body)
		}
	}
}

// works makes a request in a session at each node.
func (c *nodes) works(session string) {
	c.t.Helper()
	for range len(c.all) {
		n := c.next()
		c.call++
		began := time.Now()
		call := `{"name":"tool_browse","arguments":{"query":"echo"}}`
		if c.path != "/mcp" {
			call = `{"name":"echo","arguments":{"text":"echo"}}`
		}
		resp, body := c.postTo(n, session, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":%s}`, c.call, call))
		if resp.StatusCode != http.StatusOK || !strings.Contains(body, `"result"`) || !strings.Contains(body, "echo") {
			c.t.Errorf("at %s: %d %s", n.name, resp.StatusCode, body)
		}
		if took := time.Since(began); took > 20*time.Second { // none waits for a timeout; a busy machine takes a while
			c.t.Errorf("at %s: %v", n.name, took)
		}
	}
}

// TestSessionsOfACluster: a session works at every node, and goes on when its node drains or is killed, again
// and again.
func TestSessionsOfACluster(t *testing.T) {
	for _, path := range []string{"/mcp", "/mcps/up/mcp"} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			testSessions(t, path)
		})
	}
}

func testSessions(t *testing.T, path string) {
	c := startNodes(t, 3)
	c.path = path
	first := c.all[0]
	session, other := c.open(first), c.open(c.all[1])
	if !strings.HasPrefix(session, "w1."+first.node.Inc()+".") {
		t.Errorf("the id %.20q does not name its node", session)
	}
	c.works(session)
	c.works(other)
	c.stop(first)
	c.finds(session)
	c.finds(other)
	c.works(session)
	c.works(other)
	c.kill(c.all[1])
	c.finds(session)
	c.finds(other)
	c.works(session)
	c.works(other)
	c.start("n3")
	c.works(session)
	c.works(other)
	c.stop(c.all[2])
	c.finds(session)
	c.finds(other)
	c.works(session)
	c.works(other)
	resp, body := c.post(strings.Replace(session, "w1.", "w1.x", 1), `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	if resp.StatusCode != http.StatusNotFound {
		t.Errorf("an id that was changed: %d %s", resp.StatusCode, body)
	}
}
