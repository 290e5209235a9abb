package upstream

import (
	"maps"

	"github.com/weir-mcp/weir/mcp"
)

// Restart ends a server and starts it again with the same configuration. Calls in flight continue for the drain time of its entry
// and fail then; new calls wait for the new start. The old entries stay listed until the server has been listed again, except the
// entries of single principals. Restart does not wait: the returned Upstream's Settled does. The error is an *mcp.Error of
// KindNotFound or KindUpstreamUnavailable if no such server can run.
func (m *Manager) Restart(name string) (*Upstream, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, mcp.Errorf(mcp.KindShuttingDown, "upstream %q is not restarted: weir is shutting down", name)
	}
	t := m.table.Load()
	old := t.byName[name]
	if old == nil {
		return nil, m.unknown(name)
	}
	m.endFor(old, false, old.cfg.Drain, "the server is restarted")
	at := place{int(old.lists.order.Load()), old.lists.found}
	next := *t
	next.byName = maps.Clone(t.byName)
	next.byName[name] = newUpstream(m.opts, old.cfg, at, m.freeOf(name), old.open)
	m.table.Store(&next)
	m.forgetLists(old)
	m.opts.Failed(name)
	return next.byName[name], nil
}
