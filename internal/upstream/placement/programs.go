package placement

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/cluster"
	"github.com/weir-mcp/weir/internal/cluster/peerlink"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/passthrough"
	"github.com/weir-mcp/weir/internal/signin/oauth"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/upstream"
	"github.com/weir-mcp/weir/mcp"
)

// peerPrograms is where other nodes reach the programs that this one has for principals, only over the
// peer link.
const peerPrograms = "/peer/v1/programs/"

const (
	sweepFirst = time.Minute // from the start to the first look for claims of nodes that are gone
	sweepEach  = time.Hour   // between two of these
	movedPause = 100 * time.Millisecond
)

// Programs are the claims of programs that run for one principal each. The node that has the claim of a principal and
// a server runs the program until it is idle, and the other nodes call the program there:
//
//	slot of the principal ─▶ claim u.HASH.HASH ─┬▶ this node: the program
//	                                            └▶ peer link ─▶ serveNode ─▶ router ─▶ slot of the principal there
//
// The claim is not strict: a node that is cut off from the store may have a second program for some seconds.
type Programs struct {
	node  *cluster.Node
	docs  store.Docs
	log   *slog.Logger
	inner *passthrough.Router // serves other nodes

	closing context.Context // ends with close
	end     context.CancelFunc
	work    sync.WaitGroup

	mu  sync.Mutex // guards below
	all map[string]*placed
}

// placed is the claim of the program of one principal.
type placed struct {
	turn chan struct{} // capacity 1: held while the claim is made or given up

	// Guarded by Programs.mu.
	users int            // connections, and attempts to get one
	claim *cluster.Claim // nil while another node, or none, has the program
}

func newPrograms(node *cluster.Node, docs store.Docs, log *slog.Logger) *Programs {
	p := &Programs{node: node, docs: docs, log: log, all: map[string]*placed{}}
	p.closing, p.end = context.WithCancel(context.Background())
	return p
}

// ForManager returns the places for an upstream.Manager, nil if the gateway is one node: its sessions have a program each.
func (p *Programs) ForManager() upstream.Places {
	if p.node.Inc() == "" {
		return nil
	}
	return p
}

// serve starts to serve other nodes.
func (p *Programs) serve(o *Serving) {
	find, names := passthrough.FromManager(o.Manager)
	p.inner = passthrough.New(passthrough.Options{Find: find, Names: names, Principals: true, Memory: o.Memory, MaxBody: o.MaxBody, Logger: p.log})
	p.work.Go(p.sweep)
}

// close ends the requests of other nodes. The claims are free when the programs have ended.
func (p *Programs) close(ctx context.Context) {
	p.end()
	_ = p.inner.Shutdown(ctx) // what is left ends with the manager
	p.work.Wait()
}

// placeKey is the document of a claim: u.h.h of a server and a principal.
func placeKey(server, principal string) string {
	return store.ClaimKeys + store.Hash("mcpServers\x00"+server) + "." + store.Hash(principal)
}

// Place implements upstream.Places.
func (p *Programs) Place(ctx context.Context, server, principal string) (upstream.Place, error) {
	key := placeKey(server, principal)
	p.mu.Lock()
	one := p.all[key]
	if one == nil {
		one = &placed{turn: make(chan struct{}, 1)}
		p.all[key] = one
	}
	one.users++
	p.mu.Unlock()
	select {
	case one.turn <- struct{}{}:
	case <-ctx.Done():
		p.release(key, one) // the program may have ended meanwhile, and left its claim to this attempt
		return upstream.Place{}, ctx.Err()
	}
	defer func() { <-one.turn }()
	claim, holder, err := p.claim(ctx, key, one)
	switch {
	case err != nil:
		p.leave(key, one)
		return upstream.Place{}, err
	case holder != "":
		p.leave(key, one)
		return upstream.Place{
			URL: "http://" + holder + nodeHost + peerPrograms + url.PathEscape(server), Way: &programConn{p, key, server, principal, holder},
			Moved: func(ctx context.Context) bool { return p.moved(ctx, key, holder) },
		}, nil
	}
	return upstream.Place{Lost: claim.Lost(), Leave: cluster.Drained(p.node), Release: func() { p.release(key, one) }}, nil
}

// claim returns the claim of this node, or the node that has it. The caller has the turn.
func (p *Programs) claim(ctx context.Context, key string, one *placed) (claim *cluster.Claim, holder string, err error) {
	p.mu.Lock()
	claim = one.claim
	p.mu.Unlock()
	if claim.Held() {
		return claim, "", nil
	}
	if p.node.Draining() {
		if inc, err := cluster.HeldBy(ctx, p.node, key); err == nil && inc != "" && inc != p.node.Inc() && !p.node.Gone(inc) {
			return nil, inc, nil
		}
	}
	claim, err = p.node.Claim(ctx, key, false)
	if inc, held := cluster.Holder(err); held {
		return nil, inc, nil
	}
	if err != nil {
		return nil, "", err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	one.claim = claim
	return claim, "", nil
}

// leave ends a use of a claim, and forgets a claim that is not used. The caller gives it up if held is true, and then
// calls leave again.
func (p *Programs) leave(key string, one *placed) (unused *cluster.Claim, held bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if one.users--; one.users > 0 {
		return nil, false
	}
	unused, one.claim = one.claim, nil
	if !unused.Held() {
		delete(p.all, key)
		return nil, false
	}
	one.users++ // for release, until the claim is given up
	return unused, true
}

// release follows the end of a program, or of an attempt that was given up.
func (p *Programs) release(key string, one *placed) {
	one.turn <- struct{}{} // an attempt holds it for seconds at most
	defer func() { <-one.turn }()
	claim, held := p.leave(key, one)
	if !held {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), peerlink.LeaveTimeout)
	defer cancel()
	_ = claim.Release(ctx) // else it ends with the node
	p.leave(key, one)
}

// has reports whether this node has the program of a principal.
func (p *Programs) has(server, principal string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	one := p.all[placeKey(server, principal)]
	return one != nil && one.claim.Held()
}

// moved reports whether a program may be elsewhere than at a node that could not be reached.
func (p *Programs) moved(ctx context.Context, key, holder string) bool {
	if p.node.Gone(holder) || p.node.Suspect(ctx, holder) {
		return true
	}
	select {
	case <-time.After(movedPause):
	case <-ctx.Done():
		return false
	}
	inc, err := cluster.HeldBy(ctx, p.node, key)
	return err == nil && inc != holder
}

// sweep removes the claims of nodes that are gone. A principal that does not come back would leave its claim behind.
func (p *Programs) sweep() {
	look := time.NewTimer(sweepFirst)
	defer look.Stop()
	for {
		select {
		case <-look.C:
			look.Reset(sweepEach)
		case <-p.closing.Done():
			return
		}
		for doc, err := range p.docs.List(p.closing, store.ClaimKeys) {
			if err != nil {
				break // the next look is soon enough
			}
			inc := cluster.OwnerIn(doc.Value)
			if strings.Count(doc.Key, ".") != 2 || inc == "" {
				continue // a claim of a server for all principals
			}
			if _, err := cluster.Owner(p.closing, p.node, inc); errors.Is(err, cluster.ErrGone) {
				_ = p.docs.Delete(p.closing, doc.Key, doc.Rev) // another node has it by now
			}
		}
	}
}

// programConn carries the requests of one connection to the program of a principal at another node.
type programConn struct {
	p                              *Programs
	key, server, principal, holder string
}

// RoundTrip implements http.RoundTripper. The error is an *mcp.Error, which is mcp.ErrNotSent if the node has got
// nothing.
func (t *programConn) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := cluster.Send(t.p.node, t.holder, r.Clone(identity.With(r.Context(), &identity.Identity{Principal: t.principal})))
	switch {
	case err != nil && r.Context().Err() != nil:
		return nil, r.Context().Err()
	case err != nil:
		return nil, t.gone(err)
	case resp.StatusCode == http.StatusMisdirectedRequest:
		oauth.Drop(resp)
		return nil, &mcp.Error{
			Kind: mcp.KindUpstreamUnavailable, Err: mcp.ErrNotSent,
			Message: fmt.Sprintf("the program of upstream %q for this principal moves to another node of the cluster: call again", t.server),
		}
	}
	resp.Body = &nodeBody{resp.Body, r.Context(), t.gone}
	return resp, nil
}

// gone returns the error of a call whose node has not answered.
func (t *programConn) gone(err error) error {
	unsent := cluster.NotSent(err)
	e := &mcp.Error{Kind: mcp.KindNodeGone, Err: err}
	e.Message = fmt.Sprintf("the node of the cluster that has the program of upstream %q for this principal does not answer; the call may have run: make it again if that does no harm", t.server)
	if unsent {
		e.Message = fmt.Sprintf("the node of the cluster that has the program of upstream %q for this principal does not answer, and the call did not run: make it again", t.server)
		e.Err = errors.Join(mcp.ErrNotSent, err)
	}
	e.Data, _ = json.Marshal(map[string]any{"kind": "node_gone", "node": t.holder, "maybe_ran": !unsent}) // texts and a bool
	return e
}

// serveNode serves a request of another node to the program that this one has for the principal of id.
func (p *Programs) serveNode(w http.ResponseWriter, r *http.Request, id *identity.Identity) {
	name, err := url.PathUnescape(strings.TrimPrefix(r.URL.EscapedPath(), peerPrograms))
	if p.inner == nil || err != nil || !p.has(name, id.Principal) {
		http.Error(w, "this node does not have the program", http.StatusMisdirectedRequest)
		return
	}
	inner := r.WithContext(identity.With(r.Context(), id))
	inner.URL = &url.URL{Path: "/mcps/" + name + "/mcp", RawPath: "/mcps/" + url.PathEscape(name) + "/mcp"}
	p.inner.ServeHTTP(w, inner)
}
