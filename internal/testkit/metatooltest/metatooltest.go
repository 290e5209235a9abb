package metatooltest

import (
	"testing"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
	"github.com/weir-mcp/weir/mcp"
)

// Harness is a client of a metatool.
type Harness struct {
	*calltest.Harness[*metatool.Snapshot]
	Gateway *metatool.Gateway
	State   *metatool.State  // of Gateway
	Options metatool.Options // of Gateway
}

// New returns a harness of a gateway with options. Its servers and its store of results are those of calltest.New.
func New(t testing.TB, opts metatool.Options) *Harness {
	t.Helper()
	h := &Harness{Harness: calltest.New(t, metatool.NewSnapshot(catalog.Limits{}), func(s *metatool.Snapshot) *catalog.Catalog { return s.Catalog })}
	if opts.State == nil {
		opts.State = metatool.NewState()
	}
	opts.Upstreams, opts.Artifacts = h.Fleet, h.Store
	h.serve(opts)
	return h
}

// Library returns a harness whose server "docs" has resources and prompts.
func Library(t testing.TB, opts metatool.Options) (*Harness, *calltest.Shelf) {
	t.Helper()
	h := New(t, opts)
	return h, h.Library()
}

func (h *Harness) serve(opts metatool.Options) {
	h.State, h.Options, h.Gateway = opts.State, opts, metatool.New(opts)
	h.Handler = h.Gateway
}

// Change replaces the gateway by one with other options, as a reload does.
func (h *Harness) Change(with func(*metatool.Options)) {
	opts := h.Options
	with(&opts)
	h.serve(opts)
}

// Directly judges a direct call on behalf of the harness's session. The default place is the server "files".
func (h *Harness) Directly(t testing.TB, peer mcp.Peer, method, params string, places ...metatool.Place) error {
	t.Helper()
	if places == nil {
		places = []metatool.Place{{Upstream: "files", Namespace: "files"}}
	}
	_, err := h.Gateway.DirectCalls().Judge(t.Context(), places, &mcp.Request{ID: "1", Method: method, Version: mcp.V20251125, Session: h.Session, Peer: peer, Params: []byte(params)}, "")
	return err
}
