package hub_test

import (
	"context"
	"errors"
	"testing"

	"github.com/weir-mcp/weir/internal/member"
	"github.com/weir-mcp/weir/smcp"
	"github.com/weir-mcp/weir/smcp/hub"
)

// refuseAll is an Authenticator that lets no peer in.
type refuseAll struct{}

func (refuseAll) Authenticate(context.Context, hub.Credentials) (hub.Grant, error) {
	return hub.Grant{}, hub.ErrRefused
}

// TestAttach: a peer of the hub's own process needs neither credentials nor a version, and cannot
// connect after Close.
func TestAttach(t *testing.T) {
	h := hub.New(hub.Options{Auth: refuseAll{}, StrictVersion: true})
	a := h.Attach()
	m, err := member.New(member.Options{URL: a.URL(), Engine: a.Engine(), Role: smcp.RoleAgent, Name: "weir", Office: "o"})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if all := h.Members(); len(all) != 1 || all[0].Name != "weir" || all[0].Office != "o" {
		t.Errorf("members %v", all)
	}
	if err := m.Close(); err != nil && !errors.Is(err, member.ErrNotConnected) {
		t.Error(err)
	}
	if err := h.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	a.Close()
	a.Close()
	if conn, err := a.Engine().DialContext(t.Context(), "tcp", "hub.local:80"); err == nil {
		_ = conn.Close()
		t.Error("the hub takes connections after Close")
	}
}
