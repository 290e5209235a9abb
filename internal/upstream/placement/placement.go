package placement

import (
	"context"
	"log/slog"

	"github.com/weir-mcp/weir/internal/cluster"
	"github.com/weir-mcp/weir/internal/cluster/peerlink"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/upstream"
)

// A Placement has the claims of this node. Its fields never change.
type Placement struct {
	Servers  *Servers
	Programs *Programs
}

// Needs are the things that a Placement stands on.
type Needs struct {
	Node *cluster.Node
	Docs store.Docs
	Log  *slog.Logger
}

// New returns a Placement without claims.
func New(n Needs) *Placement {
	return &Placement{Servers: newServers(&n), Programs: newPrograms(n.Node, n.Docs, n.Log)}
}

// Serving are the things with which other nodes are served.
type Serving struct {
	Manager *upstream.Manager
	Memory  *memory.Pool
	MaxBody int64 // of a request
	// Changed gives the manager the servers again.
	Changed func()
}

// Serve starts to serve other nodes. It is called once, before the first claim.
func (p *Placement) Serve(o Serving) {
	p.Servers.serve(&o)
	p.Programs.serve(&o)
}

// Routes are the paths at which other nodes reach the servers and programs of this one.
func (p *Placement) Routes() peerlink.Routes {
	return peerlink.Routes{{Path: peerServers, Serve: p.Servers.serveNode}, {Path: peerPrograms, Serve: p.Programs.serveNode}}
}

// Close ends the requests of other nodes. The claims are free when the programs have ended, and the node after them.
func (p *Placement) Close(ctx context.Context) {
	p.Servers.close(ctx)
	p.Programs.close(ctx)
}
