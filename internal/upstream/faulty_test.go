package upstream

import (
	"errors"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/internal/json/strict"
	"github.com/weir-mcp/weir/mcp"
)

// TestFaultyServer: a server whose entry is wrong is listed as failed with the
// reason and not started, the others run, and one that is required is missed.
func TestFaultyServer(t *testing.T) {
	faulty := &mcpserver.Server{Name: "wrong", Namespace: "wrong", Problems: []strict.Problem{{File: "/etc/weir.yaml", Line: 3, Message: "API_KEY is not set; set it"}}}
	m, _ := manage(t, Options{}, program("good"), faulty)
	if err := m.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	st := m.Status()
	if len(st) != 2 || st[1].Name != "wrong" || st[1].State != StateFailed || st[1].LastError != "weir.yaml:3: API_KEY is not set; set it" || st[0].State != StateReady {
		t.Errorf("status %+v", st)
	}
	_, err := m.Peer(t.Context(), "wrong")
	var typed *mcp.Error
	if !errors.As(err, &typed) || typed.Kind != mcp.KindUpstreamUnavailable || !strings.Contains(err.Error(), "API_KEY is not set") {
		t.Errorf("Peer: %v", err)
	}

	required := *faulty
	required.Required = true
	m.Apply([]*mcpserver.Server{&required})
	if err := m.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), `"wrong" is required`) || !strings.Contains(err.Error(), "API_KEY is not set") {
		t.Errorf("Ready: %v", err)
	}
	off := required
	off.Disabled = true
	m.Apply([]*mcpserver.Server{&off})
	if err := m.Ready(t.Context()); err != nil || m.Status()[0].State != StateDisabled {
		t.Errorf("one that is switched off: %v, %+v", err, m.Status())
	}
}
