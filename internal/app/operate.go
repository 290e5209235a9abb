package app

import (
	"context"

	"github.com/weir-mcp/weir/internal/host/serverlog"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/policy/approval"
)

// An Operator is what a person who operates the gateway may do with it. Its fields never change.
type Operator struct {
	// Key is what callers on this machine show; "" admits none.
	Key identity.Secret
	// Log has what the servers write to standard error.
	Log *serverlog.Book
	// Approvals has the calls that wait for a yes.
	Approvals *approval.Room

	engine *Engine
}

func newOperator(e *Engine) *Operator {
	o := &Operator{Key: e.opts.OperatorKey, Log: serverlog.New(serverlog.Options{Redact: e.clean}), engine: e}
	o.Approvals = approval.New(approval.Options{Open: o.possible, Logger: e.log})
	return o
}

// possible reports whether there can be an operator: there is a key, or a caller with the right.
func (o *Operator) possible() bool { return o.Key != "" || o.engine.Config().Auth.HasOperator() }

// Restart restarts a server and waits until it has been listed, or has failed, or ctx ends. It
// returns the server's state then. The error is an *mcp.Error if the server cannot be restarted.
func (o *Operator) Restart(ctx context.Context, name string) (UpstreamHealth, error) {
	u, err := o.engine.manager.Restart(name)
	if err != nil {
		return UpstreamHealth{}, err
	}
	select {
	case <-u.Settled():
	case <-ctx.Done():
		return UpstreamHealth{}, ctx.Err()
	}
	h := &Health{Upstreams: map[string]UpstreamHealth{}}
	h.add(u.Status())
	o.engine.Definitions.complete(h, name)
	return h.Upstreams[name], nil
}

// Servers returns the state of all servers in the order of the configuration, also of disabled ones.
func (o *Operator) Servers() []UpstreamHealth {
	h := &Health{Upstreams: map[string]UpstreamHealth{}}
	var all []UpstreamHealth
	for _, s := range o.engine.manager.Status() {
		h.add(s)
		o.engine.Definitions.complete(h, s.Name)
		all = append(all, h.Upstreams[s.Name])
	}
	return all
}
