package gateway

import (
	"context"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/host/serverlog"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/policy"
	"github.com/weir-mcp/weir/internal/policy/approval"
	"github.com/weir-mcp/weir/internal/policy/definitions"
	"github.com/weir-mcp/weir/internal/upstream"
)

// An Operator is what a person who operates the gateway may do with it. Its fields never change.
type Operator struct {
	// Key is what callers on this machine show; "" admits none.
	Key identity.Secret
	// Log has what the servers write to standard error.
	Log *serverlog.Book
	// Approvals has the calls that wait for a yes.
	Approvals *approval.Room
	// Elsewhere has the calls that wait for a yes at other nodes.
	Elsewhere *policy.RemoteApprovals

	config      func() *config.Config
	manager     *upstream.Manager // set before start
	definitions *definitions.Lock
	reloads     *Reloads
}

func newOperator(g *Gateway) *Operator {
	o := &Operator{Key: g.opts.OperatorKey, Log: serverlog.New(serverlog.Options{Redact: g.secrets.Clean}), config: g.config.Load, definitions: g.Definitions, reloads: &g.Reloads}
	o.Approvals = approval.New(approval.Options{Open: o.possible, Logger: g.log})
	o.Elsewhere = policy.NewRemoteApprovals(g.Store.Node(), o.Approvals, g.log)
	return o
}

// possible reports whether there can be an operator: there is a key, or a caller with the right.
func (o *Operator) possible() bool { return o.Key != "" || o.config().Auth.HasOperator() }

// Restart restarts a server and waits until it has been listed, or has failed, or ctx ends. It
// returns the server's state then. The error is an *mcp.Error if the server cannot be restarted.
func (o *Operator) Restart(ctx context.Context, name string) (UpstreamHealth, error) {
	u, err := o.manager.Restart(name)
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
	h.complete(o.definitions, name)
	return h.Upstreams[name], nil
}

// Servers returns the state of all servers in the order of the configuration, also of disabled ones.
func (o *Operator) Servers() []UpstreamHealth {
	h := &Health{Upstreams: map[string]UpstreamHealth{}}
	var all []UpstreamHealth
	for _, s := range o.manager.Status() {
		h.add(s)
		h.complete(o.definitions, s.Name)
		all = append(all, h.Upstreams[s.Name])
	}
	return all
}
