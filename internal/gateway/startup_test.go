package gateway

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/testkit/fakemcp"
	"github.com/weir-mcp/weir/mcp"
)

// TestHiddenWhileStarting: while servers start, a call of a tool that is hidden from its caller waits
// as one of a tool that does not exist.
func TestHiddenWhileStarting(t *testing.T) {
	fake, err := fakemcp.New(fakemcp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	up := httptest.NewServer(fake)
	starting := newSilent()
	c, _, err := config.Parse("weir.yaml", []byte(`
policy: {hide: true, rules: [{action: deny, tool: "up:refuse*"}]}
mcpServers:
  up: {url: "`+up.URL+`/mcp"}
  starting: {url: "`+starting.URL+`/mcp"}
`), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	g, err := New(t.Context(), c, Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		starting.CloseClientConnections()
		g.Close(context.WithoutCancel(t.Context()))
		starting.Close()
		up.Close()
		fake.Close()
	}()
	ids := map[string]string{"none": "up:none@1"}
	for end := time.Now().Add(20 * time.Second); len(ids) < 3 && time.Now().Before(end); time.Sleep(time.Millisecond) {
		for _, entry := range g.Catalog.Snapshot().Catalog.Entries() {
			if entry.Name == "refuse" || entry.Name == "echo" {
				ids[entry.Name] = entry.ID
			}
		}
	}
	front := NewFront(g)
	front.Apply(c)
	waits := func(id string, patience time.Duration) bool {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		session := mcp.NewSession("", "ann")
		defer session.Close()
		_, _ = front.Serve(ctx, &mcp.Request{ID: "1", Method: "tools/call", Version: mcp.V20251125, Session: session, Peer: mcp.NoPeer,
			Params: json.RawMessage(`{"name":"tool_execute","arguments":{"tool_id":"` + id + `","args":{"text":"x"}}}`)})
		return ctx.Err() != nil
	}
	for name, want := range map[string]bool{"none": true, "refuse": true, "echo": false} {
		patience := 30 * time.Second // of a call that is to be answered
		if want {
			patience = 100 * time.Millisecond
		}
		if got := waits(ids[name], patience); got != want {
			t.Errorf("a call of %s (%s) waits: %v", name, ids[name], got)
		}
	}
}

// newSilent returns an MCP server that never answers.
func newSilent() *httptest.Server {
	return httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // else the end of the connection is not noticed
		<-r.Context().Done()
	}))
}
