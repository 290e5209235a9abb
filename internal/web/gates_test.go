package web

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/gateway"
	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/internal/web/api"
)

// TestGates: the gates of /mcp have their order. A gate that has answered a request keeps it from the later
// ones and from the handler.
func TestGates(t *testing.T) {
	var passed []string
	step := func(name string, ok bool) gate {
		return gate{name, func(_ http.ResponseWriter, r *http.Request) (*http.Request, bool) {
			passed = append(passed, name)
			return r, ok
		}}
	}
	h := &gated{[]gate{step("first", true), step("second", false), step("third", true)}, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the handler got the request") })}
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/mcp", nil))
	if got := strings.Join(passed, " "); got != "first second" {
		t.Errorf("passed %s", got)
	}
}

// TestGatesOfAgents: requests to /mcp pass the gates in this order.
func TestGatesOfAgents(t *testing.T) {
	c, _, err := config.Parse("weir.yaml", []byte("mcpServers: {}\n"), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	g, err := gateway.New(t.Context(), c, gateway.Options{Version: "test", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close(context.WithoutCancel(t.Context()))
	f := build(g, c, nil, "http://127.0.0.1", api.Machine{}, slog.New(slog.DiscardHandler))
	var names []string
	for _, g := range f.agentGates(guard.New(guard.Options{})) {
		names = append(names, g.name)
	}
	if got := strings.Join(names, " "); got != "loop guard scope mode attach" {
		t.Errorf("gates %s", got)
	}
}
