package main

import (
	"github.com/weir-mcp/weir/catalog"
	"github.com/weir-mcp/weir/config"
	"github.com/weir-mcp/weir/gateway"
	"github.com/weir-mcp/weir/upstream"
)

// reports is what a Live knows of upstreams.
type reports interface {
	Report(upstream string) (catalog.Report, bool)
}

// missing returns the upstreams of a manager of which nothing is in the catalog: those
// that were never listed, or were taken out because they have been down for long.
func missing(m *upstream.Manager, live reports) (all []gateway.Missing) {
	m.Each(func(s *config.Server, u *upstream.Upstream) {
		if s.Disabled {
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
