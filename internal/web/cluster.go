package web

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/weir-mcp/weir/internal/bridge"
	"github.com/weir-mcp/weir/internal/cluster"
	"github.com/weir-mcp/weir/internal/cluster/sessionid"
	"github.com/weir-mcp/weir/internal/gateway"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/internal/link"
	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/internal/office"
	"github.com/weir-mcp/weir/internal/passthrough"
	"github.com/weir-mcp/weir/internal/store/nodestore"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
	"github.com/weir-mcp/weir/mcp/streamable"
)

const (
	// statusApart is the status of a node that the store of its cluster has not acknowledged in time.
	statusApart = "apart"
	// statusDraining is the status of a node that takes no new work.
	statusDraining = "draining"
)

// apart returns the status of a node that its store does not know, and whether a balancer should leave the node. It should
// only while another node is better off: without its store, a node still serves requests that do not need the store.
func apart(n *cluster.Node) (status string, leave bool) {
	switch joined, _ := cluster.Joined(n); {
	case !cluster.Worse(n):
		return gateway.StatusDegraded, false
	case joined:
		return statusApart, true
	}
	return gateway.StatusStarting, true
}

// endpoint is a streamable.Server. In a cluster, a request whose session lives at another node goes there.
type endpoint struct {
	*streamable.Server
	front http.Handler
}

// newEndpoint returns the endpoint at a path.
func newEndpoint(s *nodestore.Store, path string, o streamable.ServerOptions) *endpoint {
	ids := s.Sessions(path)
	if ids == nil {
		server := streamable.NewServer(o)
		return &endpoint{server, server}
	}
	kept := ids.Around(o.Handler, nil)
	o.Handler, o.Sessions = kept, kept
	e := &endpoint{Server: streamable.NewServer(o)}
	e.front = locating(s.Node(), o.MaxBody, o.Memory)(path, kept, e.Server)
	return e
}

// locating returns the function that finds the nodes of the sessions at a path.
func locating(node *cluster.Node, maxBody int64, room *memory.Pool) func(path string, kept *sessionid.Keeper, next http.Handler) http.Handler {
	return func(path string, kept *sessionid.Keeper, next http.Handler) http.Handler {
		return states(node, maxBody, room, node.Sessions(cluster.Endpoint{
			Path: path, Next: next, ID: sessionOf, Owner: kept.Owner, Here: kept.Here, Forget: kept.Forget, ForgetAll: kept.ForgetAll, Ahead: kept.Ahead,
			Leave: kept.Leave, Handed: kept.Handed, IDs: kept.IDs, OnEnding: kept.OnEnding,
			MaxBody: maxBody, Memory: room,
		}))
	}
}

// states sends the answers of modern agents, which have no session, to the node whose call waits for them. This node
// goes on with a call whose state is whole, if that node ends or cannot be reached.
func states(node *cluster.Node, maxBody int64, room *memory.Pool, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, _, carried := link.Caller(r.Context()); carried || node.Inc() == "" || r.Method != http.MethodPost || !bridge.MayAsk(r.Header.Get(streamable.HeaderMethod)) || sessionOf(r) != "" {
			next.ServeHTTP(w, r)
			return
		}
		hold := room.Hold("principal ", guard.Principal(r.Context()))
		defer hold.Release()
		body, err := guard.ReadBody(w, r, maxBody, nil, &hold)
		if err != nil {
			k, _ := mcp.KindOf(err)
			guard.WriteError(w, k.Info().HTTP, guard.RequestID(err), err)
			return
		}
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		state, inc, id := "", "", jsonrpc.ID("")
		if rawjson.Contains(body, "requestState") {
			if m, err := jsonrpc.Parse(body); err == nil {
				id = m.ID
				state = rawjson.Text(rawjson.Get(m.Params, "requestState"))
				inc = bridge.StateNode(state)
			}
		}
		if inc == "" || inc == node.Inc() {
			next.ServeHTTP(w, r)
			return
		}
		owner, err := otherOwner(r.Context(), node, inc)
		switch {
		case err != nil:
			storeAway(w, id, "where the call waits", err)
			return
		case owner == "", bridge.IsWhole(state) && draining(node, owner):
			next.ServeHTTP(w, r)
			return
		}
		switch err := cluster.Forward(node, owner, w, r); {
		case err == nil, r.Context().Err() != nil:
		case cluster.NotSent(err) && (bridge.IsWhole(state) || node.Suspect(r.Context(), owner)):
			r.Body = io.NopCloser(bytes.NewReader(body))
			next.ServeHTTP(w, r)
		default:
			e := mcp.Errorf(mcp.KindNodeGone, "the node whose call waits for these answers does not answer; the call may have run: make it again without requestState if that does no harm: %w", err)
			unsent := cluster.NotSent(err)
			if unsent {
				e = mcp.Errorf(mcp.KindNodeGone, "the node whose call waits for these answers lives and cannot be reached by the other nodes: send the answers again; operators check its cluster.advertise: %w", err)
			}
			e.Data, _ = json.Marshal(map[string]any{"kind": "node_gone", "node": owner, "maybe_ran": !unsent}) // texts and a bool
			guard.WriteError(w, mcp.KindNodeGone.Info().HTTP, id, e)
		}
	})
}

// draining reports whether a node is known to end.
func draining(node *cluster.Node, inc string) bool {
	return slices.ContainsFunc(node.Peers(), func(p cluster.Peer) bool { return p.Inc == inc && p.Draining() })
}

// elsewhere returns passthrough.Options.Elsewhere of a node.
func elsewhere(node *cluster.Node) func(inc string, id jsonrpc.ID, w http.ResponseWriter, r *http.Request) error {
	return func(inc string, id jsonrpc.ID, w http.ResponseWriter, r *http.Request) error {
		owner, err := cluster.Owner(r.Context(), node, inc)
		_, _, carried := link.Caller(r.Context())
		switch {
		case errors.Is(err, cluster.ErrGone):
			return passthrough.ErrNodeGone
		case err != nil:
			storeAway(w, id, "where the task is", err)
			return nil
		case owner == node.Inc():
			return passthrough.ErrHere
		case carried: // to a node that is not the owner: it has another INC since
			return passthrough.ErrNodeGone
		}
		switch err := cluster.Forward(node, owner, w, r); {
		case err == nil, r.Context().Err() != nil:
		case cluster.NotSent(err) && node.Suspect(r.Context(), owner):
			return passthrough.ErrNodeGone
		default:
			e := mcp.Errorf(mcp.KindNodeGone, "the node whose server has the task does not answer; try again: %w", err)
			e.Data, _ = json.Marshal(map[string]any{"kind": "node_gone", "node": owner, "maybe_ran": !cluster.NotSent(err)}) // texts and a bool
			guard.WriteError(w, mcp.KindNodeGone.Info().HTTP, id, e)
		}
		return nil
	}
}

// otherOwner returns the node of an INC; "" for this node, or if there is none.
func otherOwner(ctx context.Context, node *cluster.Node, inc string) (string, error) {
	owner, err := cluster.Owner(ctx, node, inc)
	if errors.Is(err, cluster.ErrGone) || owner == node.Inc() {
		return "", nil
	}
	return owner, err
}

// storeAway answers a request whose node is not known because the store does not say it.
func storeAway(w http.ResponseWriter, id jsonrpc.ID, what string, err error) {
	w.Header().Set("Retry-After", "2")
	guard.WriteError(w, http.StatusServiceUnavailable, id, mcp.Errorf(mcp.KindStoreUnavailable, "the store of this gateway cannot be asked %s; try again: %w", what, err))
}

// busy counts a POST request until the returned function is called.
func (s *self) busy(r *http.Request) (end func()) {
	if r.Method != http.MethodPost {
		return func() {}
	}
	s.calls.Add(1)
	return func() { s.calls.Add(-1) }
}

func sessionOf(r *http.Request) string { return r.Header.Get(streamable.HeaderSession) }

// near sends requests with an id to the node that its INC names. next serves the ids of this node, and tells
// the client of an id that no node has.
func near(node *cluster.Node, log *slog.Logger, idOf func(r *http.Request) string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		inc := cluster.IncOf(idOf(r))
		if _, _, carried := link.Caller(r.Context()); inc == "" || carried || inc == node.Inc() {
			next.ServeHTTP(w, r)
			return
		}
		owner, err := otherOwner(r.Context(), node, inc)
		switch {
		case err != nil:
			storeAway(w, "", "where the connection is", err)
			return
		case owner == "":
			next.ServeHTTP(w, r)
			return
		}
		switch err := cluster.Forward(node, owner, w, r); {
		case err == nil, r.Context().Err() != nil:
		case cluster.NotSent(err) && node.Suspect(r.Context(), owner):
			next.ServeHTTP(w, r)
		default:
			log.Warn("a request was at a node that does not answer", "inc", owner, "err", err)
			e := mcp.Errorf(mcp.KindNodeGone, "the node of this connection does not answer, and the message may have arrived; connect again")
			unsent := cluster.NotSent(err)
			if unsent {
				e = mcp.Errorf(mcp.KindNodeGone, "the node of this connection does not answer, and the message was not sent; connect again")
			}
			e.Data, _ = json.Marshal(map[string]any{"kind": "node_gone", "node": owner, "maybe_ran": !unsent}) // texts and a bool
			guard.WriteError(w, mcp.KindNodeGone.Info().HTTP, "", e)
		}
	})
}

// Join serves the other nodes of the cluster at a listener, with the same paths as clients have. config
// asks for their certificates.
func (f *Server) Join(l net.Listener, config *tls.Config) {
	f.link = f.cluster.Serve(l, config, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if office.PeerPath(r.URL.Path) {
			f.gateway.Offices.ServePeer(w, r)
			return
		}
		defer f.self.busy(r)()
		id, _, _ := link.Caller(r.Context())
		if f.gateway.ServeNode(w, r, id) {
			return
		}
		(*f.routes.Load()).ServeHTTP(w, r.WithContext(guard.Vouch(r.Context(), id)))
	}))
}

const (
	// notice is how long a node of a cluster goes on to listen after it has said that it ends: balancers look
	// at /readyz, and requests that come meanwhile are answered by other nodes.
	notice = time.Second
	// drainStreams is the time over which a draining node ends the subscriptions and connections of its
	// clients.
	drainStreams = 2 * time.Second
	// lastWords is how long it goes on to listen to the other nodes afterwards. A request may be on its way
	// that another node has sent before it knew.
	lastWords = 250 * time.Millisecond
)

// retire makes a node of a cluster take no new work. Requests that come from then on are answered by other
// nodes.
func retire(ctx context.Context, n *cluster.Node) {
	if !cluster.Retire(ctx, n) {
		return
	}
	select {
	case <-time.After(notice):
	case <-ctx.Done():
	}
}

// unlink ends the requests of other nodes.
func unlink(ctx context.Context, l *link.Server) {
	if l == nil {
		return
	}
	select {
	case <-time.After(lastWords):
	case <-ctx.Done():
	}
	l.Shutdown(ctx)
}
