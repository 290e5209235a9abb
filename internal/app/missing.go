package app

import (
	"context"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/gateway"
	"github.com/weir-mcp/weir/internal/upstream"
	"github.com/weir-mcp/weir/mcp"
)

// absent is the router's Absent: why a server of the configuration cannot be started.
func absent(m *upstream.Manager) func(name string) error {
	return func(name string) error {
		_, err := m.Peer(context.Background(), name) // it waits for nothing
		if kind, _ := mcp.KindOf(err); err != nil && kind == mcp.KindUpstreamUnavailable {
			return err
		}
		return nil
	}
}

// reports is what a Live knows of upstreams.
type reports interface {
	Report(upstream string) (catalog.Report, bool)
}

// missing returns the upstreams of a manager of which nothing is in the catalog: those
// that were never listed, or were taken out because they have been down for long.
func missing(m *upstream.Manager, live reports) (all []gateway.Missing) {
	m.Each(func(s *config.Server, u *upstream.Upstream) {
		if s.Disabled || u != nil && u.Status().Off() {
			return
		}
		if _, there := live.Report(s.Name); there {
			return
		}
		one := gateway.Missing{Upstream: s.Name, Namespace: s.Namespace}
		switch {
		case u != nil:
			one.Why = u.Status().LastError
		case s.Faulty():
			one.Why = s.Problems[0].Message // the place in the file is for who edits it
		}
		all = append(all, one)
	})
	return all
}
