package upstream

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/mcp"
)

// Open makes a connection to a server that is not reached by a program or a URL of the
// configuration. It is called for each attempt to connect. It must return soon after ctx ends.
type Open func(ctx context.Context) (mcp.Stream, error)

// Attach adds an upstream that is not configured: a server that was discovered and may vanish
// again. The Manager supervises, lists and calls it like the others and keeps it until Detach;
// Apply does not remove it. A name that is in use is an error. A configured server with the same
// name that is added later replaces it.
func (m *Manager) Attach(s *mcpserver.Server, open Open) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return fmt.Errorf("upstream %q: weir is shutting down", s.Name)
	}
	t := m.table.Load()
	if t.byName[s.Name] != nil || slices.ContainsFunc(t.order, func(o *mcpserver.Server) bool { return o.Name == s.Name }) {
		return fmt.Errorf("there is an upstream %q already", s.Name)
	}
	byName := maps.Clone(t.byName)
	m.attaches++ // the first to come has priority over later ones, and found servers over both
	byName[s.Name] = newUpstream(m.opts, s, place{len(t.order) + m.attaches, true}, m.freeOf(s.Name), open)
	m.table.Store(&table{byName: byName, order: t.order, attached: append(slices.Clone(t.attached), s)})
	return nil
}

// Attached reports whether there is an attached upstream of that name.
func (m *Manager) Attached(name string) bool {
	return slices.ContainsFunc(m.table.Load().attached, func(s *mcpserver.Server) bool { return s.Name == name })
}

// Detach removes an attached upstream and its entries, and reports whether it existed. It does not
// wait.
func (m *Manager) Detach(name string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.table.Load()
	i := slices.IndexFunc(t.attached, func(s *mcpserver.Server) bool { return s.Name == name })
	if i < 0 || m.closed {
		return false
	}
	byName := maps.Clone(t.byName)
	u := byName[name]
	delete(byName, name)
	m.table.Store(&table{byName: byName, order: t.order, attached: slices.Delete(slices.Clone(t.attached), i, i+1)})
	m.end(u, true, 0)
	return true
}
