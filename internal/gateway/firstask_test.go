package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/testkit/fakemcp"
	"github.com/weir-mcp/weir/mcp"
)

// upServer is an HTTP server of MCP that tests hold back, and whose calls they read.
type upServer struct {
	*httptest.Server
	open chan struct{} // closed: it answers

	mu    sync.Mutex // guards below
	calls []string   // bodies
}

func newUpServer(t *testing.T) *upServer {
	fake, err := fakemcp.New(fakemcp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	s := &upServer{open: make(chan struct{})}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		select {
		case <-s.open:
		case <-r.Context().Done():
			return
		}
		if strings.Contains(string(body), `"tools/call"`) {
			s.mu.Lock()
			s.calls = append(s.calls, string(body))
			s.mu.Unlock()
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		fake.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
		fake.Close()
	})
	return s
}

// newAsked returns a gateway in gateway mode whose servers, and more, are in the configuration.
func newAsked(t *testing.T, servers string) (*Gateway, *Front) {
	t.Helper()
	c, _, err := config.Parse("weir.yaml", []byte("mode: gateway\n"+servers), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	g, err := New(t.Context(), c, Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.Close(context.WithoutCancel(t.Context())) })
	front := NewFront(g)
	front.Apply(c)
	return g, front
}

// asks calls a tool of the gateway. more is added to the params.
func (f *Front) asks(t *testing.T, tool, arguments, more string) <-chan string {
	answer := make(chan string, 1)
	go func() {
		session := mcp.NewSession("", "ann")
		defer session.Close()
		out, err := f.Serve(t.Context(), &mcp.Request{
			ID: "1", Method: "tools/call", Version: mcp.V20251125, Session: session, Peer: mcp.NoPeer,
			Params: json.RawMessage(`{"name":"` + tool + `","arguments":` + arguments + more + `}`),
		})
		if err != nil {
			answer <- err.Error()
			return
		}
		answer <- string(out)
	}()
	return answer
}

func program(source string) string { return `{"program":` + strconv.Quote(source) + `}` }

type firstAsk struct{ name, tool, arguments, want string }

// firstAsks are what agents ask first, and what the answer has when the server is up.
var firstAsks = []firstAsk{
	{"search", "tool_browse", `{"query":"echo a text"}`, "up:echo"},
	{"names", "tool_run", program(`return await tools.up.echo({text: "heard"})`), `"text":"heard"`},
	{"find", "tool_run", program(`return (await find("echo a text", {top_k: 1}))[0].tool_id`), "up:echo"},
	{"caught", "tool_run", program(`return await tools.up.nothing({}).catch(e => e.message)`), "no tool has these names"},
}

// TestFirstAskWaits: the first search and the first program of an agent wait for a server that starts with the gateway.
func TestFirstAskWaits(t *testing.T) {
	t.Parallel()
	up := newUpServer(t)
	_, front := newAsked(t, `mcpServers: {up: {url: "`+up.URL+`/mcp"}}`)
	var answers []<-chan string
	for _, ask := range firstAsks {
		answers = append(answers, front.asks(t, ask.tool, ask.arguments, ""))
	}
	time.Sleep(200 * time.Millisecond)
	for i, answer := range answers {
		if len(answer) > 0 {
			t.Errorf("%s is answered before the server is up: %s", firstAsks[i].name, <-answer)
		}
	}
	close(up.open)
	for i, answer := range answers {
		select {
		case got := <-answer:
			if !strings.Contains(got, firstAsks[i].want) {
				t.Errorf("%s: %s", firstAsks[i].name, got)
			}
		case <-time.After(20 * time.Second):
			t.Errorf("%s waits on", firstAsks[i].name)
		}
	}
}

// TestFirstAskIsTold: after the time that a request waits, its answer names the server that still starts.
func TestFirstAskIsTold(t *testing.T) {
	t.Parallel()
	up := newUpServer(t)
	g, front := newAsked(t, `mcpServers: {up: {url: "`+up.URL+`/mcp"}}`)
	g.Catalog.firsts.began = g.Catalog.firsts.began.Add(-time.Minute)
	const told = ` has not come up yet: it is still starting; try again in a few seconds`
	for name, want := range map[string][]string{
		"search": {"not searched: up (still starting)"},
		"names":  {"tools.up.echo: server ", told, "UPSTREAM_UNAVAILABLE"},
		"caught": {"tools.up.nothing: server ", told},
	} {
		i := slices.IndexFunc(firstAsks, func(a firstAsk) bool { return a.name == name })
		got := <-front.asks(t, firstAsks[i].tool, firstAsks[i].arguments, "")
		for _, part := range want {
			if !strings.Contains(got, part) {
				t.Errorf("%s: %q is not in %s", name, part, got)
			}
		}
	}
}
