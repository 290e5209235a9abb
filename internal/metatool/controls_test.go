package metatool

import (
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/mcp"
)

// TestNothingIsSentWithoutAPass: what forgets to ask the controls fails.
func TestNothingIsSentWithoutAPass(t *testing.T) {
	h, up := library(t, Options{})
	e := h.Snapshot().Catalog.Of("docs")[0]
	c := newRead(&mcp.Request{Session: h.Session, Peer: mcp.NoPeer}, h.g.state.session(&mcp.Request{Session: h.Session}), nil, e, dispatch.MethodRead, nil)
	if _, err := h.g.caller.callUpstream(t.Context(), c, dispatch.MethodRead, nil); err == nil || !strings.Contains(err.Error(), "not admitted") || up.Last() != "" {
		t.Errorf("%v, %s", err, up.Last())
	}
}
