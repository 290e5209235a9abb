package gateway

import (
	"context"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/internal/upstream"
	"github.com/weir-mcp/weir/mcp"
)

// absent implements router.Options.Absent: it returns the reason why a configured server cannot be
// started.
func absentReason(m *upstream.Manager) func(name string) error {
	return func(name string) error {
		_, err := m.Peer(context.Background(), name) // Peer does not wait here
		if kind, _ := mcp.KindOf(err); err != nil && kind == mcp.KindUpstreamUnavailable {
			return err
		}
		return nil
	}
}

// reports is the part of catalog.Live that missing reads.
type reports interface {
	Report(upstream string) (catalog.Report, bool)
}

// down returns the upstreams that have, or may have, catalog entries but cannot be called now.
func down(m *upstream.Manager, live reports) (all []metatool.Missing) {
	m.Each(func(s *config.Server, u *upstream.Upstream) {
		if u == nil || s.Disabled {
			return
		}
		status := u.Status()
		if status.Off() || status.Available() {
			return
		}
		if _, there := live.Report(s.Name); there || s.ListsPerCaller() {
			all = append(all, metatool.Missing{Upstream: s.Name, Namespace: s.Namespace, Why: status.LastError})
		}
	})
	return all
}

// missing returns the upstreams without catalog entries: those that were never listed, and those
// that were removed because they have been down for a long time. Servers that list for each caller
// are missing for some callers only; see Gateway.MissingOwn.
func missing(m *upstream.Manager, live reports) (all []metatool.Missing) {
	m.Each(func(s *config.Server, u *upstream.Upstream) {
		if s.Disabled || u != nil && (u.Status().Off() || s.ListsPerCaller()) {
			return
		}
		if _, there := live.Report(s.Name); there {
			return
		}
		one := metatool.Missing{Upstream: s.Name, Namespace: s.Namespace}
		switch {
		case u != nil:
			one.Why = u.Status().LastError
		case s.Faulty():
			one.Why = s.Problems[0].Message // agents do not need the place in the file
		}
		all = append(all, one)
	})
	return all
}
