package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/json/strict"
	"github.com/weir-mcp/weir/internal/testkit/fakemcp"
	"github.com/weir-mcp/weir/internal/testkit/leak"
	"github.com/weir-mcp/weir/mcp"
)

// asProgram makes the test binary behave as the program fakemcp.
const asProgram = "WEIR_TEST_FAKEMCP"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		code := fakemcp.Main(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
		stop()
		os.Exit(code)
	}
	leak.Main(m)
}

// program is a server that is a process of its own.
func program(name string, args ...string) *mcpserver.Server {
	return &mcpserver.Server{
		Name: name, Namespace: name, Command: os.Args[0], Args: args,
		Env:  map[string]strict.Secret{asProgram: "1", "GORACE": "atexit_sleep_ms=0"},
		Type: mcpserver.TransportStdio, Start: mcpserver.StartBoot, Timeout: 20 * time.Second,
	}
}

// sink keeps the newest listing of each upstream.
type sink struct {
	mu       sync.Mutex
	listings map[string]primitive.Listing
	updates  int
	removed  []string
}

func (s *sink) Update(l primitive.Listing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listings == nil {
		s.listings = map[string]primitive.Listing{}
	}
	s.listings[l.Upstream] = l
	s.updates++
}

func (s *sink) Remove(upstream string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.listings, upstream)
	s.removed = append(s.removed, upstream)
}

// cut is what was left out of an upstream's lists.
func (s *sink) cut(upstream string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listings[upstream].Cut
}

// tools are the names of the tools that an upstream has listed.
func (s *sink) tools(upstream string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var names []string
	for _, raw := range s.listings[upstream].Tools {
		names = append(names, rawjson.Text(rawjson.Get(raw, "name")))
	}
	return names
}

func (s *sink) counts() (updates int, removed []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.updates, slices.Clone(s.removed)
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(b []byte) (int, error) {
	w.t.Logf("%s", strings.TrimRight(string(b), "\n"))
	return len(b), nil
}

// manage starts servers and ends them with the test.
func manage(t *testing.T, o Options, servers ...*mcpserver.Server) (*Manager, *sink) {
	t.Helper()
	s := &sink{}
	if o.Sink == nil {
		o.Sink = s
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(testWriter{t}, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	if o.StopGrace == 0 {
		o.StopGrace = 500 * time.Millisecond
	}
	o.BaseEnv = append(o.BaseEnv, "PATH="+os.Getenv("PATH"))
	m := New(o)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := m.Close(ctx); err != nil {
			t.Errorf("closing: %v", err)
		}
	})
	m.Apply(servers)
	return m, s
}

func ready(t *testing.T, m *Manager) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := m.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	if ctx.Err() != nil {
		t.Fatalf("not ready: %+v", m.Status())
	}
}

func upstreamOf(t *testing.T, m *Manager, name string) *Upstream {
	t.Helper()
	u, ok := m.Upstream(name)
	if !ok {
		t.Fatalf("no upstream %q", name)
	}
	return u
}

// callTool calls a tool and returns the text of its first content block.
func callTool(ctx context.Context, p mcp.Peer, tool, args string) (string, error) {
	result, err := p.Call(ctx, "tools/call", json.RawMessage(`{"name":"`+tool+`","arguments":`+args+`}`), nil)
	if err != nil {
		return "", err
	}
	var out struct{ Content []struct{ Text string } }
	if err := json.Unmarshal(result, &out); err != nil || len(out.Content) == 0 {
		return "", errors.Join(err, errors.New("odd result "+string(result)))
	}
	return out.Content[0].Text, nil
}

func mustCall(t *testing.T, p mcp.Peer, tool, args, want string) {
	t.Helper()
	got, err := callTool(t.Context(), p, tool, args)
	if err != nil || got != want {
		t.Fatalf("%s %s: got %q, %v, want %q", tool, args, got, err, want)
	}
}

func wantKind(t *testing.T, err error, kind mcp.Kind, texts ...string) {
	t.Helper()
	k, ok := mcp.KindOf(err)
	if err == nil || !ok || k != kind {
		t.Fatalf("got %v (%s), want an error of kind %s", err, k, kind)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%q lacks %q", err, text)
		}
	}
}

// eventually waits for something that happens on another goroutine.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

func itoa(n int) string { b, _ := json.Marshal(n); return string(b) }
