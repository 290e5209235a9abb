package placement

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/cluster"
	"github.com/weir-mcp/weir/internal/cluster/peerlink"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/passthrough"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/upstream"
)

// peerServers is where other nodes reach the servers that this one holds, only over the peer link.
const peerServers = "/peer/v1/servers/"

const (
	// nodeHost is the end of the host in the URL of a server at another node. No such host exists; see
	// conn.
	nodeHost = ".node.invalid"
	// noHolder stands in such a URL in place of an INC.
	noHolder = "none"

	lookEach  = time.Second      // between two looks whether the holder is gone
	readEach  = 10 * time.Second // between two reads of the claim while the holder is there
	firstWait = time.Second      // that the start of a server waits for the first claim
)

// Servers are the servers with scope: cluster. The only node holds all of them.
type Servers struct {
	node    *cluster.Node
	docs    store.Docs
	manager *upstream.Manager // set by serve, as changed is
	changed func()            // gives the manager the servers again
	log     *slog.Logger
	inner   *passthrough.Router // serves other nodes

	closing context.Context // ends with close
	end     context.CancelFunc
	work    sync.WaitGroup

	mu  sync.Mutex // guards below
	all map[string]*sharedServer
	was map[string]*sharedServer // the latest former one of a name, which may still have the claim
}

// newServers returns the servers with scope: cluster.
func newServers(n *Needs) *Servers {
	s := &Servers{node: n.Node, docs: n.Docs, log: n.Log, all: map[string]*sharedServer{}, was: map[string]*sharedServer{}}
	s.closing, s.end = context.WithCancel(context.Background())
	return s
}

// serve starts to serve other nodes.
func (s *Servers) serve(o *Serving) {
	s.manager, s.changed = o.Manager, o.Changed
	find, names := passthrough.FromManager(o.Manager)
	s.inner = passthrough.New(passthrough.Options{
		Find: func(name string) (passthrough.Upstream, bool) {
			if !s.holds(name) {
				return nil, false
			}
			return find(name)
		},
		Names: names, Memory: o.Memory, MaxBody: o.MaxBody, Logger: s.log,
	})
}

// holds reports whether this node has the server with a name.
func (s *Servers) holds(name string) bool {
	s.mu.Lock()
	one := s.all[name]
	mine := one != nil && one.mine
	s.mu.Unlock()
	if !mine {
		return false
	}
	u, ok := s.manager.Upstream(name)
	return ok && !Remote(u.Config())
}

// Remote reports whether a server is at another node. The URL does not say so by itself: agents choose the URL of
// their registration, and requests of the peer link come from a node.
func Remote(c *config.Server) bool {
	_, at := incOfURL(c.URL)
	return at && c.Scope == mcpserver.ScopeCluster
}

// incOfURL returns the INC in the URL of a server at another node, "" if no node holds the server. at is false
// for other URLs.
func incOfURL(text string) (inc string, at bool) {
	if !strings.Contains(text, nodeHost) {
		return "", false
	}
	u, err := url.Parse(text)
	if err != nil {
		return "", false
	}
	inc, at = strings.CutSuffix(u.Host, nodeHost)
	if inc == noHolder {
		inc = ""
	}
	return inc, at
}

// Place returns the servers for the manager of this node: as configured, or at another node. It starts and ends
// the claims. One goroutine may call it at a time.
func (s *Servers) Place(servers []*config.Server) []*config.Server {
	out := make([]*config.Server, len(servers))
	copy(out, servers)
	claimed := map[string]*sharedServer{}
	s.mu.Lock()
	for _, c := range servers {
		if c.Scope != mcpserver.ScopeCluster || c.Disabled || c.Faulty() {
			continue
		}
		one := s.all[c.Name]
		if one == nil {
			one = s.claim(c.Name)
		}
		one.drain = c.Drain
		claimed[c.Name] = one
	}
	for name, one := range s.all {
		if claimed[name] == nil {
			one.end()
			delete(s.all, name)
			s.was[name] = one
		}
	}
	s.mu.Unlock()
	late := time.NewTimer(firstWait)
	defer late.Stop()
	for i, c := range out {
		one := claimed[c.Name]
		if one == nil {
			continue
		}
		select {
		case <-one.tried:
		case <-s.closing.Done():
		case <-late.C:
			late.Reset(0) // for the others
		}
		s.mu.Lock()
		holder, mine := one.holder, one.mine
		s.mu.Unlock()
		if !mine {
			out[i] = remote(c, holder)
			if holder == "" && s.outside() {
				out[i].Required = false // the node serves what needs nothing of the store
			}
		}
	}
	return out
}

// remote returns a server as the nodes have it that do not hold it. Its holder has the command, the credentials
// and all else that belongs to the connection.
func remote(c *config.Server, holder string) *config.Server {
	d := *c
	d.Command, d.Args, d.Env, d.EnvFile, d.Cwd, d.Headers, d.OAuth, d.OpenAPI = "", nil, nil, "", "", nil, mcpserver.OAuth{}, mcpserver.OpenAPI{}
	d.Type, d.Start = mcpserver.TransportHTTP, mcpserver.StartBoot
	d.URL = "http://" + cmp.Or(holder, noHolder) + nodeHost + peerServers + url.PathEscape(c.Name)
	return &d
}

// outside reports whether this node has started without its store, and has not joined the cluster yet.
func (s *Servers) outside() bool {
	joined, _ := cluster.Joined(s.node)
	return !joined
}

// Known waits until it is known which nodes hold the servers that are required, or ctx ends. While the store has not
// answered since the start, that is not known, and not waited for.
func (s *Servers) Known(ctx context.Context, c *config.Config) {
	if s.outside() {
		return
	}
	for _, server := range c.Servers {
		s.mu.Lock()
		one := s.all[server.Name]
		s.mu.Unlock()
		if one == nil || !server.Required {
			continue
		}
		select {
		case <-one.known:
		case <-ctx.Done():
		}
	}
}

// Holders returns the INCs of the nodes that hold the servers with scope: cluster, by the names of the servers. The
// INC is "" while no node is known to hold the server. A gateway that is one node has none.
func (s *Servers) Holders() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[string]string, len(s.all))
	for name, one := range s.all {
		all[name] = one.holder
	}
	return all
}

// close ends the claims' goroutines and the requests of other nodes. The claims are free when the node ends,
// after the programs.
func (s *Servers) close(ctx context.Context) {
	s.mu.Lock() // no goroutine starts from here on
	s.end()
	s.mu.Unlock()
	_ = s.inner.Shutdown(ctx) // what is left ends with the manager
	s.work.Wait()
}

// sharedServer is one server with scope: cluster.
type sharedServer struct {
	of   *Servers
	name string
	key  string
	ctx  context.Context // ends when the server is not configured any more
	end  context.CancelFunc
	look chan struct{} // capacity 1: look at the claim now

	before *sharedServer // of the same name; nil if it has ended
	done   chan struct{} // closed when this one and those before it have no claim any more

	tried, known chan struct{} // closed after the first claim; when there was a holder

	// Guarded by Servers.mu.
	drain      time.Duration
	holder     string // INC, "" if it is not known
	mine       bool
	suspecting bool
}

// claim starts to claim a server. The caller holds mu.
func (s *Servers) claim(name string) *sharedServer {
	one := &sharedServer{
		of: s, name: name, key: store.ClaimKeys + store.Hash("mcpServers\x00"+name), look: make(chan struct{}, 1),
		before: s.was[name], done: make(chan struct{}),
		tried: make(chan struct{}), known: make(chan struct{}),
	}
	one.ctx, one.end = context.WithCancel(s.closing)
	s.all[name] = one
	if s.closing.Err() == nil {
		s.work.Go(one.run)
	} else {
		close(one.done)
	}
	return one
}

// run claims the server again and again until it is not configured any more.
func (one *sharedServer) run() {
	defer one.leave()
	if one.before != nil { // a node has one claim of a key: its release would release this one as well
		closeOnce(one.tried)
		<-one.before.done // soon after its calls
		one.before = nil
	}
	node := one.of.node
	stop, began, err := store.FollowLater(one.of.docs, one.key, func(store.Doc) { one.nudge() })
	if err == nil {
		defer stop()
	}
	for one.ctx.Err() == nil {
		if node.Draining() {
			if inc, err := cluster.HeldBy(one.ctx, node, one.key); err == nil {
				one.set(inc, false)
			}
		} else {
			claim, err := node.Claim(one.ctx, one.key, true)
			if err == nil {
				one.hold(claim)
				continue
			}
			if inc, held := cluster.Holder(err); held {
				one.set(inc, false)
			} else if closeOnce(one.tried); one.ctx.Err() == nil {
				one.of.log.Debug("a server cannot be claimed now", "upstream", one.name, "err", err)
			}
		}
		one.await(began)
	}
}

// leave says that this node does not have the server by this one.
func (one *sharedServer) leave() {
	s := one.of
	s.mu.Lock()
	defer s.mu.Unlock()
	close(one.done)
	if s.was[one.name] == one {
		delete(s.was, one.name)
	}
}

// await waits until another claim may succeed. Changes of the claim are known once followed is closed.
func (one *sharedServer) await(followed <-chan struct{}) {
	tick := time.NewTicker(lookEach)
	defer tick.Stop()
	for began := time.Now(); ; {
		select {
		case <-one.ctx.Done():
			return
		case <-one.look:
			return
		case <-tick.C:
			one.of.mu.Lock()
			holder := one.holder
			one.of.mu.Unlock()
			blind := true
			select {
			case <-followed:
				blind = false
			default:
			}
			if blind || holder == "" || one.of.node.Gone(holder) || time.Since(began) >= readEach {
				return
			}
		}
	}
}

func (one *sharedServer) nudge() {
	select {
	case one.look <- struct{}{}:
	default:
	}
}

// set notes which node has the server, and tells the manager.
func (one *sharedServer) set(holder string, mine bool) {
	s := one.of
	s.mu.Lock()
	same := one.holder == holder && one.mine == mine
	one.holder, one.mine = holder, mine
	s.mu.Unlock()
	closeOnce(one.tried)
	if holder != "" {
		closeOnce(one.known)
	}
	if !same && s.closing.Err() == nil {
		s.changed()
	}
}

// closeOnce closes a channel of one goroutine.
func closeOnce(c chan struct{}) {
	select {
	case <-c:
	default:
		close(c)
	}
}

// hold has the server until the claim is lost, the node drains, or the server is not configured any more.
func (one *sharedServer) hold(claim *cluster.Claim) {
	s := one.of
	s.log.Info("this node has the server of the cluster", "upstream", one.name)
	one.set(s.node.Inc(), true)
	cut := false
	select {
	case <-claim.Lost():
		cut = true
	case <-cluster.Drained(s.node):
	case <-one.ctx.Done():
	}
	if s.closing.Err() != nil {
		return // the manager ends the program, and then the store frees the claim
	}
	s.mu.Lock()
	drain := one.drain
	s.mu.Unlock()
	one.set("", false) // the upstream has left the manager when this returns
	patience, cancel := context.WithTimeout(s.closing, drain)
	if cut {
		s.log.Warn("this node has lost the server of the cluster", "upstream", one.name)
		cancel()
	}
	s.manager.Ended(patience, one.name)
	cancel()
	bounded, cancel := context.WithTimeout(context.Background(), peerlink.LeaveTimeout)
	defer cancel()
	_ = claim.Release(bounded) // else it ends with the node
}

// serveNode serves a request of another node to a server that this one holds.
func (s *Servers) serveNode(w http.ResponseWriter, r *http.Request, _ *identity.Identity) {
	name, err := url.PathUnescape(strings.TrimPrefix(r.URL.EscapedPath(), peerServers))
	if s.inner == nil || err != nil || !s.holds(name) {
		http.Error(w, "this node does not have the server", http.StatusMisdirectedRequest)
		return
	}
	inner := *r
	inner.URL = &url.URL{Path: "/mcps/" + name + "/mcp", RawPath: "/mcps/" + url.PathEscape(name) + "/mcp"}
	s.inner.ServeHTTP(w, &inner)
}
