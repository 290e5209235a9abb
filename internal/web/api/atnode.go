package api

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/mcp"
)

// UsageOfNodes is the answer of usage.
type UsageOfNodes struct {
	Usage
	// Nodes are the names of the nodes of a cluster whose usage it is. A gateway of one node has none.
	Nodes []string `json:"nodes,omitempty"`
	// Silent are the names of the nodes that have not answered: theirs is missing.
	Silent []string `json:"silent,omitempty"`
}

// usage serves usage. A node that the request names answers only for itself.
func (c *clustered) usage(w http.ResponseWriter, r *http.Request) error {
	if c.a.o.Usage == nil {
		return write(w, UsageOfNodes{Usage: c.a.o.Look.Gateway.Overview(r.Context()).Usage})
	}
	return write(w, c.a.o.Usage(r.Context(), c.a.o.checked(r.Context()) || r.Context().Value(namedKey{}) != nil))
}

// namedKey is the key that the context of a request has that names this node.
type namedKey struct{}

// atNode returns a handler that lets the node serve that the parameter node names. takes is false for routes without
// the parameter.
func (c *clustered) atNode(takes bool, serve handler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		query := r.URL.Query()
		if !query.Has(nodeQuery[0]) || c.a.o.checked(r.Context()) {
			return serve(w, r)
		}
		if !takes {
			return mcp.Errorf(mcp.KindInvalidParams, "%s takes no parameter %s: any node gives the same answer, or the answer is for the caller of this one", text.Line(r.URL.Path, 80), nodeQuery[0])
		}
		if c.a.o.Cluster == nil {
			return ErrOneNode
		}
		n, err := NodeNamed(c.a.o.Cluster.Status().Nodes, query.Get(nodeQuery[0]))
		if err != nil {
			return err
		}
		ctx := r.Context()
		if !n.Self {
			ctx = asOperator(ctx, c.a.operates(identity.From(ctx)))
		}
		own := owner(ctx)
		if query.Has("follow") || strings.HasSuffix(r.URL.Path, "/stream") { // it ends with the API, as one of this node does
			following, cancel := context.WithCancel(ctx)
			defer cancel()
			defer context.AfterFunc(c.a.closing, cancel)()
			ctx = following
		}
		r = r.Clone(context.WithValue(ctx, namedKey{}, true))
		query.Del(nodeQuery[0])
		r.URL.RawQuery = query.Encode()
		if n.Self {
			return serve(w, r)
		}
		if own {
			r.Header.Del("Authorization") // the key is of this machine
		}
		return c.a.o.Cluster.Pass(n, w, r)
	}
}

// asOperator returns the context of a request for another node. An operator of this node has the role there, whatever
// made the caller one here.
func asOperator(ctx context.Context, operates bool) context.Context {
	id := *identity.From(ctx)
	if operates && !id.HasRole(operator) {
		id.Roles = append(slices.Clip(id.Roles), operator)
	}
	return identity.With(ctx, &id)
}

// checked reports whether another node has checked the caller.
func (o *Options) checked(ctx context.Context) bool { return o.Checked != nil && o.Checked(ctx) }

// serveChecked serves a request of another node. That node has checked the page, the caller and the right; this one
// looks at the role again. Requests that only the user of a gateway may make are served only by that gateway.
func (c *clustered) serveChecked(w http.ResponseWriter, r *http.Request) {
	a, id := c.a, identity.From(r.Context())
	_, pattern := a.mux.Handler(r)
	switch right := a.table[pattern].right(r.Method); {
	case right == mayOwn || right == mayExchange:
		fail(w, mcp.Errorf(mcp.KindPermissionDenied, "%s is for the user who runs this node: ask the node itself", text.Line(r.URL.Path, 80)))
	case right == mayOperate && !a.operates(id) && !(r.URL.Path == auditPath && id.HasRole(auditor)):
		fail(w, mcp.Errorf(mcp.KindPermissionDenied, "%q may not operate this gateway", text.Line(id.Principal, 80)))
	default:
		a.mux.ServeHTTP(w, r)
	}
}
