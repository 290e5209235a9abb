package metatool

import (
	"testing"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/testkit/calltest"
)

// harness is metatooltest.Harness for tests that look into this package.
type harness struct {
	*calltest.Harness[*Snapshot]
	g *Gateway
}

type fleet struct{ *calltest.Fleet[*Snapshot] }

func newHarness(t testing.TB, opts Options) *harness {
	t.Helper()
	h := &harness{Harness: calltest.New(t, NewSnapshot(catalog.Limits{}), func(s *Snapshot) *catalog.Catalog { return s.Catalog })}
	opts.Upstreams, opts.Artifacts = fleet{h.Fleet}, h.Store
	h.serve(opts)
	return h
}

func (h *harness) serve(opts Options) {
	h.g = New(opts)
	h.Handler = h.g
}

// change replaces the gateway by one with other options, as a reload does.
func (h *harness) change(with func(*Options)) {
	opts := h.g.opts
	opts.State = h.g.state
	with(&opts)
	h.serve(opts)
}

// library is a harness whose server "docs" has resources and prompts.
func library(t testing.TB, opts Options) (*harness, *calltest.Shelf) {
	h := newHarness(t, opts)
	return h, h.Library()
}

// taskHarness is a gateway over one server whose calls become tasks.
type taskHarness struct {
	*harness
	*calltest.TaskClient
}

func newTaskHarness(t *testing.T, s *calltest.TaskServer, opts Options) *taskHarness {
	if opts.Tasks.Wait == 0 {
		opts.Tasks.Wait = calltest.TasksWait
	}
	h := newHarness(t, opts)
	return &taskHarness{h, h.Tasks(t, s)}
}
