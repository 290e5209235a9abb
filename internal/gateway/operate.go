package gateway

import (
	"context"
	"crypto/sha256"
	"slices"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/host/serverlog"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/policy"
	"github.com/weir-mcp/weir/internal/policy/approval"
	"github.com/weir-mcp/weir/internal/policy/definitions"
	"github.com/weir-mcp/weir/internal/upstream"
	"github.com/weir-mcp/weir/internal/upstream/confined"
)

// An Operator is what a person who operates the gateway may do with it. Its fields never change, except Reloads.
type Operator struct {
	// Key is what callers on this machine show; "" admits none.
	Key identity.Secret
	// Log has what the servers write to standard error.
	Log *serverlog.Book
	// Sandboxes confines the programs of servers.
	Sandboxes *confined.Programs
	// Approvals has the calls that wait for a yes.
	Approvals *approval.Room
	// Elsewhere has the calls that wait for a yes at other nodes.
	Elsewhere *policy.RemoteApprovals

	Reloads Reloads // tells of changed configurations

	config      func() *config.Config
	manager     *upstream.Manager // set before start
	failed      chan string       // names of servers whose secrets may be old, for Follow
	definitions *definitions.Lock
}

func newOperator(g *Gateway) *Operator {
	o := &Operator{failed: make(chan string, maxFailed), Key: g.opts.OperatorKey, Log: serverlog.New(serverlog.Options{Redact: g.secrets.Clean}), config: g.config.Load, definitions: g.Definitions}
	o.Sandboxes = confined.New(confined.Options{Environ: g.opts.Environ, Reached: g.Auditor.Reached, Lesson: g.opts.Lesson, Logger: g.opts.Logger})
	o.Approvals = approval.New(approval.Options{Open: o.possible, Logger: g.opts.Logger})
	o.Elsewhere = policy.NewRemoteApprovals(g.Store.Node(), o.Approvals, g.opts.Logger)
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

// Sandbox says how the program of a server is confined. ok is false for a server whose program the gateway does not start.
func (o *Operator) Sandbox(name string) (c confined.Confinement, ok bool) {
	for _, s := range o.config().Servers {
		if s.Name == name && s.Command != "" {
			return o.Sandboxes.Describe(s), true
		}
	}
	return c, false
}

// Edited waits until the gateway uses the configuration with a sum, or refuses one, and then until the
// named servers have been listed or have failed. next is what Reloads.Next returned before the edit. It
// returns their states, without those that are gone.
func (o *Operator) Edited(ctx context.Context, next <-chan struct{}, sum [sha256.Size]byte, names []string) ([]UpstreamHealth, error) {
	reloads := &o.Reloads
	for {
		select {
		case <-next:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		next = reloads.Next() // before the look, so that no reading is missed
		used, err := reloads.last()
		if err != nil {
			return nil, err
		}
		if used == sum {
			break
		}
	}
	for _, name := range names {
		if u, ok := o.manager.Upstream(name); ok {
			select {
			case <-u.Settled():
			case <-ctx.Done():
			}
		}
	}
	return slices.DeleteFunc(o.Servers(), func(u UpstreamHealth) bool { return !slices.Contains(names, u.Name) }), nil
}
