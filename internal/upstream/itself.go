package upstream

import (
	"errors"
	"slices"

	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/stdio"
)

// A configured server can turn out to be weir itself. Its program may be a weir that serves the
// same configuration and would start this server again without end, or its URL may be weir's own.
// This is not a fault, because the clients of weir read the same file and need the entry. A retry
// would not help.
//
//	start or connect ─▶ mcp.ErrLoop, or a known instance on stderr ─▶ StateLeftOut, for good

// orItself returns the reason why a server is left out if its program is weir itself, else err.
func (srv *server) orItself(err error, p *stdio.Process) error {
	if slices.ContainsFunc(srv.opts.Instances, p.Wrote) {
		return &mcp.Error{Kind: mcp.KindUpstreamUnavailable, Err: errors.Join(mcp.ErrLoop, mcp.ErrFinal), Message: "mcpServers." + srv.name +
			" is left out: its program is weir with a configuration that is served already, so weir would start itself without end. " +
			"The clients of weir may need the entry, weir does not: if the file is weir's alone, remove the entry"}
	}
	return err
}

// leadsBack returns the reason why a server whose URL is weir's own is left out.
func (srv *server) leadsBack() error {
	return &mcp.Error{Kind: mcp.KindUpstreamUnavailable, Err: errors.Join(mcp.ErrLoop, mcp.ErrFinal), Message: "mcpServers." + srv.name +
		" is left out: its url leads back to this weir. The clients of weir may need the entry, weir does not: if the file is weir's alone, remove the entry"}
}

// leaveOut records that the server is weir itself. It is never started again.
func (s *slot) leaveOut(err error) {
	told := s.srv.leftOut.Swap(true)
	s.calls.end(StateLeftOut, err)
	if !told {
		s.srv.log.Info(err.Error())
	}
	s.conns.lists.settle()
	<-s.ctx.Done()
}
