package gatewaytest

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

	"github.com/weir-mcp/weir/internal/cluster"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/gateway"
	"github.com/weir-mcp/weir/internal/link"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/testkit/fakemcp"
	"github.com/weir-mcp/weir/internal/testkit/storetest"
	"github.com/weir-mcp/weir/internal/web"
	"github.com/weir-mcp/weir/internal/web/api"
)

const (
	AnnToken = "a-token-of-ann-0123456789"
	BobToken = "a-token-of-bob-0123456789"
	OpsToken = "a-token-of-ops-0123456789"
)

// nodes is a cluster of gateways in one process behind a balancer that takes them in turn.
type Nodes struct {
	t    *testing.T
	Docs *store.Memory
	Bus  *store.MemoryBus
	Key  *link.Key
	Old  []*link.Key // opens, too, at nodes that are started
	Fake *fakemcp.Server
	Up   *httptest.Server // the MCP server behind all of them
	Call int              // ids of requests
	Path string           // of the endpoint
	More string           // of the configuration
	UpAs string           // of the entry of the server
	Auth string           // of the callers; "": ann, bob and ops have tokens

	Programs string // further servers of mcpServers
	Folders  bool   // each node has a folder with a configuration and its weir.lock

	Elicit string      // id of the tool that asks
	Blobs  store.Blobs // for copies of results
	Late   bool        // nodes start without their store, which comes with docs.Cut(false)

	Mu   sync.Mutex // guards below
	All  []*Node
	Turn int
}

// node is one gateway.
type Node struct {
	Name    string
	Docs    *storetest.Faults
	Bus     *cutBus
	Gateway *gateway.Gateway
	Server  *web.Server
	Front   *httptest.Server
	Link    *linkListener
	Node    *cluster.Node
	Off     bool
	Out     bool // of the balancer, by /readyz
	Ended   bool // by the test itself
}

// cutBus is a Bus that can be cut off.
type cutBus struct {
	store.Bus
	mu  sync.Mutex // guards off
	off bool
}

func (b *cutBus) Cut() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.off = true
}

func (b *cutBus) IsOff() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.off
}

func (b *cutBus) Ask(subject string, h store.Header, body []byte, timeout time.Duration, f func(store.Message, error)) {
	if b.IsOff() {
		go f(store.Message{}, store.ErrUnavailable)
		return
	}
	b.Bus.Ask(subject, h, body, timeout, f)
}

func (b *cutBus) Listen(subject string, f func(store.Message)) (func(), error) {
	return b.Bus.Listen(subject, func(m store.Message) {
		if !b.IsOff() {
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

func (l *linkListener) Cut() {
	_ = l.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, conn := range l.conns {
		_ = conn.Close()
	}
}

func StartNodes(t *testing.T, count int) *Nodes {
	t.Helper()
	return StartNodesWith(t, count, "")
}

// startNodesWith starts nodes with more in their configuration.
func StartNodesWith(t *testing.T, count int, more string) *Nodes {
	t.Helper()
	fake, err := fakemcp.New(fakemcp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	c := &Nodes{Fake: fake, t: t, Docs: store.NewMemory(store.MemoryOptions{}), Bus: store.NewMemoryBus(), Up: httptest.NewServer(fake), Path: "/mcp", More: more, Blobs: store.NoBlobs{}}
	t.Cleanup(func() { fake.Close(); c.Up.Close() })
	if c.Key, err = link.Parse(strings.Repeat("0123456789abcdef", 4)); err != nil {
		t.Fatal(err)
	}
	for i := range count {
		c.Start(fmt.Sprint("n", i))
	}
	return c
}

// start adds a node.
func (c *Nodes) Start(name string) *Node {
	c.t.Helper()
	more := c.More
	if !strings.Contains(more, "policy:") {
		more += "policy: {rules: [{action: deny, tool: no_such_tool}]}\n"
	}
	auth := c.Auth
	if auth == "" {
		auth = fmt.Sprintf("{tokens: [{name: ann, register: [helper], sha256: %x}, {name: bob, sha256: %x}, {name: ops, operator: true, sha256: %x}]}", sha256.Sum256([]byte(AnnToken)), sha256.Sum256([]byte(BobToken)), sha256.Sum256([]byte(OpsToken)))
	}
	text := more + fmt.Sprintf("mode: gateway\nauth: %s\nmcpServers: {up: {url: %q, required: true%s}%s}\n", auth, c.Up.URL+"/mcp", c.UpAs, c.Programs)
	path := "weir.yaml"
	if c.Folders {
		path = filepath.Join(c.t.TempDir(), path)
	}
	conf, _, err := config.Parse(path, []byte(text), config.Options{})
	if err != nil {
		c.t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	authority := link.NewAuthority(name, c.Key, c.Old, nil)
	n := &Node{Name: name, Docs: &storetest.Faults{Docs: c.Docs, Next: func() storetest.Fault { return storetest.None }}, Bus: &cutBus{Bus: c.Bus}}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		c.t.Fatal(err)
	}
	n.Link = &linkListener{Listener: listener}
	joining, cancel := context.WithCancel(c.t.Context())
	defer cancel()
	if c.Late {
		n.Docs.Cut(true)
		cancel()
	}
	kept, err := joinedStore(joining, n.Docs, c.Blobs, c.Key.Seal(c.Old...), cluster.Options{
		Bus: n.Bus, Name: name, URL: "https://" + n.Link.Addr().String(), TLS: authority.TLS(), Late: c.Late, Logger: log,
	})
	if err != nil {
		c.t.Fatal(err)
	}
	n.Node = kept.Node()
	if n.Gateway, err = gateway.New(c.t.Context(), conf, gateway.Options{Version: "test", Logger: log, Store: kept}); err != nil {
		c.t.Fatal(err)
	}
	if err := n.Gateway.Ready(c.t.Context()); err != nil {
		c.t.Fatal(err)
	}
	n.Front = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { n.Server.ServeHTTP(w, r) }))
	n.Server = web.NewHandler(n.Gateway, conf, n.Front.URL, api.Machine{}, log)
	n.Server.Join(n.Link, authority.TLS())
	c.Mu.Lock()
	c.All = append(c.All, n)
	c.Mu.Unlock()
	c.t.Cleanup(func() { c.Stop(n) })
	return n
}

// stop ends a node as SIGTERM does.
func (c *Nodes) Stop(n *Node) {
	c.Mu.Lock()
	if n.Off || n.Ended {
		c.Mu.Unlock()
		return
	}
	n.Off = true
	c.Mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	_ = n.Server.Shutdown(ctx)
	n.Front.CloseClientConnections()
	n.Front.Close()
	n.Docs.Cut(false)
	n.Gateway.Close(ctx)
}

// kill cuts a node off from store, bus, clients and nodes, as kill -9 does.
func (c *Nodes) Kill(n *Node) {
	c.Mu.Lock()
	n.Off = true
	c.Mu.Unlock()
	n.Docs.Cut(true)
	n.Bus.Cut()
	n.Link.Cut()
	n.Front.CloseClientConnections()
	n.Front.Listener.Close()
	c.t.Cleanup(func() {
		n.Off = false
		c.Stop(n)
	})
}

// next returns the node that the balancer sends the next request to.
func (c *Nodes) Next() *Node {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	for {
		c.Turn++
		if n := c.All[c.Turn%len(c.All)]; !n.Off && !n.Out {
			return n
		}
	}
}

// post sends a message through the balancer.
func (c *Nodes) Post(session, body string) (*http.Response, string) {
	c.t.Helper()
	return c.PostTo(c.Next(), session, body)
}

func (c *Nodes) PostTo(n *Node, session, body string) (*http.Response, string) {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), http.MethodPost, n.Front.URL+c.Path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Authorization", "Bearer "+AnnToken)
	if session != "" {
		r.Header.Set("Mcp-Session-Id", session)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		c.t.Fatalf("%s: %v", n.Name, err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp, string(raw)
}

// open makes a session at a node.
func (c *Nodes) Open(n *Node) string {
	c.t.Helper()
	resp, body := c.PostTo(n, "", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	session := resp.Header.Get("Mcp-Session-Id")
	if session == "" {
		c.t.Fatalf("%d %s", resp.StatusCode, body)
	}
	if resp, body = c.Post(session, `{"jsonrpc":"2.0","method":"notifications/initialized"}`); resp.StatusCode != http.StatusAccepted {
		c.t.Fatalf("%d %s", resp.StatusCode, body)
	}
	return session
}

// finds lists tools, at each node, in a session whose node has just ended. A list may run twice, so it is repeated even if
// the connection to that node has taken it.
func (c *Nodes) Finds(session string) {
	c.t.Helper()
	for range len(c.All) {
		c.Call++
		if resp, body := c.Post(session, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/list"}`, c.Call)); resp.StatusCode != http.StatusOK || !strings.Contains(body, `"result"`) {
			c.t.Errorf("%d %s", resp.StatusCode, body)
		}
	}
}

// works makes a request in a session at each node.
func (c *Nodes) Works(session string) {
	c.t.Helper()
	for range len(c.All) {
		n := c.Next()
		c.Call++
		began := time.Now()
		call := `{"name":"tool_browse","arguments":{"query":"echo"}}`
		if c.Path != "/mcp" {
			call = `{"name":"echo","arguments":{"text":"echo"}}`
		}
		resp, body := c.PostTo(n, session, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":%s}`, c.Call, call))
		if resp.StatusCode != http.StatusOK || !strings.Contains(body, `"result"`) || !strings.Contains(body, "echo") {
			c.t.Errorf("at %s: %d %s", n.Name, resp.StatusCode, body)
		}
		if took := time.Since(began); took > 20*time.Second { // none waits for a timeout; a busy machine takes a while
			c.t.Errorf("at %s: %v", n.Name, took)
		}
	}
}
