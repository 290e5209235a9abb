package hub_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/office/member"
	"github.com/weir-mcp/weir/smcp"
	"github.com/weir-mcp/weir/smcp/hub"
)

// refuseAll is an Authenticator that lets no peer in.
type refuseAll struct{}

func (refuseAll) Authenticate(context.Context, hub.Credentials) (hub.Grant, error) {
	return hub.Grant{}, hub.ErrRefused
}

// TestAttach: a peer of the hub's own process needs neither credentials nor a version, and cannot
// connect after Shutdown.
func TestAttach(t *testing.T) {
	h := hub.New(hub.Options{Auth: refuseAll{}, StrictVersion: true})
	a := h.Attach()
	m, err := member.New(member.Options{Local: a, Role: smcp.RoleAgent, Name: "weir", Office: "o"})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if all := h.Members(); len(all) != 1 || all[0].Name != "weir" || all[0].Office != "o" || all[0].Transport != "local" || h.Connections() != 1 {
		t.Errorf("members %v, %d connections", all, h.Connections())
	}
	if err := m.Close(); err != nil && !errors.Is(err, member.ErrNotConnected) {
		t.Error(err)
	}
	if err := h.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	late, err := member.New(member.Options{Local: a, Role: smcp.RoleAgent, Name: "late", Office: "o"})
	if err != nil {
		t.Fatal(err)
	}
	if err := late.Start(t.Context()); err == nil {
		t.Error("the hub takes connections after Shutdown")
	}
	_ = late.Close() // was never connected
}

// A hub with another namespace lets in the peers that name it, from here and over the network, and
// no others.
func TestNamespace(t *testing.T) {
	h := hub.New(hub.Options{Namespace: "/lab"})
	server := httptest.NewServer(h)
	defer server.Close()
	for _, c := range []struct {
		o    member.Options
		fits bool
	}{
		{member.Options{Local: h.Attach(), Name: "a", Namespace: "/lab"}, true},
		{member.Options{URL: server.URL, Name: "b", Namespace: "/lab"}, true},
		{member.Options{Local: h.Attach(), Name: "c"}, false},
		{member.Options{URL: server.URL, Name: "d"}, false},
	} {
		c.o.Role, c.o.Office = smcp.RoleComputer, "o"
		m, err := member.New(c.o)
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Start(t.Context()); (err == nil) != c.fits || err != nil && !strings.Contains(err.Error(), "Invalid namespace") {
			t.Errorf("%s: %v", c.o.Name, err)
		}
		t.Cleanup(func() { _ = m.Close() })
	}
	if all := h.Members(); len(all) != 2 {
		t.Errorf("members %v", all)
	}
	if err := h.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}
