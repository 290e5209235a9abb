package passthrough

import "github.com/weir-mcp/weir/internal/upstream"

// FromManager returns the Find and Names of Options for the upstreams of a
// manager.
func FromManager(m *upstream.Manager) (find func(name string) (Upstream, bool), names func() []string) {
	return func(name string) (Upstream, bool) {
		u, ok := m.Upstream(name)
		return managed{u}, ok
	}, m.Names
}

// managed is an upstream of a manager. Two are equal if their upstreams are.
type managed struct{ *upstream.Upstream }

var _ Upstream = managed{}

// Target implements Endpoint.
func (m managed) Target() (Target, bool) {
	t, ok := m.Upstream.Target()
	return Target(t), ok
}
