package office

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/internal/access"
	"github.com/weir-mcp/weir/internal/access/callers"
	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/cluster"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/host/place"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/internal/link"
	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/internal/net/httpserver"
	"github.com/weir-mcp/weir/internal/observe/trace"
	"github.com/weir-mcp/weir/internal/office/roster"
	"github.com/weir-mcp/weir/internal/ownership"
	"github.com/weir-mcp/weir/internal/part"
	"github.com/weir-mcp/weir/internal/passthrough"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/upstream"
	"github.com/weir-mcp/weir/internal/upstream/computers"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/smcp"
	"github.com/weir-mcp/weir/smcp/agent"
	"github.com/weir-mcp/weir/smcp/hub"
	"github.com/weir-mcp/weir/socketio"
	"github.com/weir-mcp/weir/socketio/engineio"
)

// Offices connect a gateway to Computers: through weir's own hub, and through one agent connection
// to each hub in hubs.
//
//	/socket.io/, /smcp/, hub.listen ─▶ hub.Hub ◀─ in memory ─ computers.Fleet ─▶ upstream.Manager: <computer>-<server>
//	                                   hubs.NAME ◀─ network ─ computers.Fleet ─▶            "
//
// A nil *Offices is valid and empty.
type Offices struct {
	needs  Needs
	log    *slog.Logger
	hub    *hub.Hub // nil if switched off
	fleets []*computers.Fleet
	own    *computers.Fleet             // the fleet of weir's own hub, may be nil
	whole  *upstream.Manager            // each Computer as one server; not in the catalog
	outer  *http.Server                 // serves hub.listen; may be nil
	addr   net.Addr                     // of hub.listen; nil without it
	routed atomic.Pointer[http.Handler] // serves the peers at hub.listen; nil: hub does
	ends   sync.WaitGroup

	issued *issuedPeers   // nil without a hub
	bodies *roster.Bodies // of messages to the hubs of other nodes; nil without a cluster
	direct *link.Messages // connections for these messages; nil without a cluster
	shared []*sharedHub   // the hubs of hubs that one node joins for all; none without a cluster
	ctx    context.Context
	cancel context.CancelFunc // ends ctx
}

// Needs is what the offices of a gateway stand on.
type Needs struct {
	Version string
	Log     *slog.Logger
	Config  func() *config.Config // the current one
	Memory  *memory.Pool
	Trace   *trace.Tracer
	Servers *upstream.Manager // gets the servers of Computers
	Names   *ownership.Ledger // of servers
	// Claim decides about the name of a Computer that joins an office of weir's own hub.
	Claim func(hub.Claimant) error
	// Node is this process among the nodes that share Store, and Docs are the documents for requests.
	Node    *cluster.Node
	Store   store.Store
	Docs    store.Docs
	Cluster string // its name
}

// auth returns the gateway's current tokens.
func (n *Needs) auth() *config.Auth { return &n.Config().Auth }

// Open starts the configured hub and hub connections. The caller closes it. Without any in the
// configuration it returns nil.
func Open(ctx context.Context, c *config.Config, n Needs) (*Offices, error) {
	if !c.Hub.Enabled && len(c.Hubs) == 0 {
		return nil, nil
	}
	o := &Offices{needs: n, log: n.Log, whole: upstream.New(upstream.Options{Logger: n.Log, ClientInfo: part.Identity(n.Version)})}
	o.ctx, o.cancel = context.WithCancel(context.WithoutCancel(ctx))
	err := func() error {
		if c.Hub.Enabled {
			if err := o.openHub(ctx, c); err != nil {
				return err
			}
		}
		for _, r := range c.Hubs {
			if err := o.joinRemote(r); err != nil {
				return err
			}
		}
		return nil
	}()
	if err != nil {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), part.CloseTimeout)
		defer cancel()
		o.Close(closing)
		return nil, err
	}
	return o, nil
}

// hubOptions converts the hub configuration. gateway returns the gateway's current tokens; pool
// accounts for messages.
func hubOptions(c *config.Config, gateway func() *config.Auth, issued *issuedPeers, pool *memory.Pool, log *slog.Logger) (hub.Options, error) {
	auth, err := hubAccess(c, gateway, issued)
	if err != nil {
		return hub.Options{}, err
	}
	issued.apply(c)
	var cors *engineio.CORS
	if len(c.HTTP.AllowedOrigins) > 0 {
		cors = &engineio.CORS{Origins: c.HTTP.AllowedOrigins, Credentials: !slices.Contains(c.HTTP.AllowedOrigins, "*")}
	}
	return hub.Options{
		Auth: auth, Devices: auth.Devices, Namespace: c.Hub.Namespace, StrictVersion: c.Hub.StrictVersion, CORS: cors, MaxPayload: int(c.Hub.MaxPayload),
		MaxConnections: c.Hub.MaxPeers, MaxComputers: c.Hub.MaxComputers, MaxCalls: c.Hub.MaxCalls, MaxOfficeCalls: max(hub.DefaultMaxOfficeCalls, c.Hub.MaxCalls), Memory: pool.Account("hub"), Logger: log,
	}, nil
}

// hubAccess returns the tokens and keys that the hub accepts.
func hubAccess(c *config.Config, gateway func() *config.Auth, issued *issuedPeers) (hubRules, error) {
	auth := hubRules{issued: issued}
	auth.Static = hub.Static{Local: func(tokens []string) (hub.Grant, error) { return localPeer(gateway(), tokens, time.Now()) }}
	for _, t := range c.Hub.Tokens {
		auth.Tokens = append(auth.Tokens, hub.Token{Name: t.Name, SHA256: t.SHA256, Role: smcp.Role(t.Role), Offices: t.Offices})
	}
	for _, comp := range c.Hub.Computers {
		key, err := smcp.DecodeKey(comp.Key)
		if err != nil {
			return hubRules{}, part.Setupf("hub.computers.%s.key: %w", comp.Name, err)
		}
		auth.Devices = append(auth.Devices, hub.Device{Name: comp.Name, Key: key, Offices: comp.Offices})
	}
	return auth, nil
}

// keysOf returns Computers' public keys by name.
func keysOf(devices []hub.Device) map[string]ed25519.PublicKey {
	keys := map[string]ed25519.PublicKey{}
	for _, d := range devices {
		keys[d.Name] = d.Key
	}
	return keys
}

// localPeer decides about a peer on this machine if hub.tokens is empty. A Computer in the
// gateway's office can offer tools to every user of the gateway. So if the gateway requires tokens,
// the hub requires one that is valid for the whole gateway. The grant ends with the token.
func localPeer(gateway *config.Auth, tokens []string, now time.Time) (hub.Grant, error) {
	if !gateway.Required() {
		return hub.Grant{Principal: "local"}, nil
	}
	known := callers.Tokens(gateway)
	for _, token := range tokens {
		if t, err := access.Find(known, token, now); err == nil && !gateway.Scoped(t.Name) {
			return hub.Grant{Principal: t.Name, Until: t.Expires, Expires: t.Expires}, nil
		}
	}
	return hub.Grant{}, fmt.Errorf("%w: auth.tokens are set and hub.tokens are not, so peers on this machine show a token of auth.tokens that has no agents:, or the operator gives them one in hub.tokens", hub.ErrRefused)
}

func (o *Offices) openHub(ctx context.Context, c *config.Config) error {
	o.issued = newIssuedPeers(o.log)
	opts, err := hubOptions(c, o.needs.auth, o.issued, o.needs.Memory, o.log)
	if err != nil {
		return err
	}
	if c.Hub.TLS.Cert != "" && c.Hub.Listen == "" {
		return part.Setupf("hub.tls needs hub.listen: an address of the hub's own, such as 0.0.0.0:8443")
	}
	opts.Claim = o.needs.Claim
	opts.Trace = hubSpans(o.needs.Trace)
	opts.Shared = o.shareOffices()
	o.hub = hub.New(opts)
	if c.Hub.Listen != "" {
		l, err := hubListener(ctx, c.Hub.Listen, c.Hub.TLS)
		if err != nil {
			return err
		}
		o.outer = httpserver.New(hubMux(o.hub, http.HandlerFunc(o.servePeers), c, o.log), o.log)
		o.addr = l.Addr()
		o.serve(o.outer, l)
		o.log.Info("the hub listens", "address", l.Addr().String(), "tls", c.Hub.TLS.Cert != "")
	}
	if c.Hub.Office == "" {
		return nil
	}
	err = o.join(agent.Options{
		Local: o.hub.Attach(), Office: c.Hub.Office, Namespace: c.Hub.Namespace, Keys: keysOf(opts.Devices),
		// The only client that reconnects is local, so it may retry quickly.
		Backoff: socketio.Backoff{Min: 50 * time.Millisecond, Max: time.Second},
	}, o.needs.Names.ComputerOf)
	if err == nil {
		o.own = o.fleets[len(o.fleets)-1]
	}
	return err
}

// Prepare implements part.Part.Prepare for changed tokens and keys. apply disconnects peers whose token or
// key was removed; the others stay connected.
func (o *Offices) Prepare(r part.Reload) (apply func(), err error) {
	if o == nil {
		return nil, nil
	}
	c := r.Next
	var auth hubRules
	if o.hub != nil {
		if auth, err = hubAccess(c, o.needs.auth, o.issued); err != nil {
			return nil, err
		}
	}
	return func() {
		if o.hub != nil {
			o.issued.apply(c)
			if o.own != nil {
				o.own.SetKeys(keysOf(auth.Devices)) // before a Computer with a new key can join
			}
			o.hub.SetAccess(auth, auth.Devices)
		}
		for _, f := range o.fleets {
			f.Refresh() // names in the configuration may have changed
		}
	}, nil
}

func (o *Offices) joinRemote(r *config.RemoteHub) error {
	keys := map[string]ed25519.PublicKey{}
	for name, text := range r.Keys {
		key, err := smcp.DecodeKey(text)
		if err != nil {
			return part.Setupf("hubs.%s.keys.%s: %w", r.Name, name, err)
		}
		keys[name] = key
	}
	engine := engineio.ClientConfig{Proxy: http.ProxyFromEnvironment, Memory: o.needs.Memory.Account("hub " + r.Name)}
	if r.CA != "" {
		pool, err := place.CertPool(r.CA)
		if err != nil {
			return part.Setupf("hubs.%s.ca: %w", r.Name, err)
		}
		engine.TLS = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	shared := &sharedHub{name: r.Name, node: o.needs.Node, docs: o.needs.Docs, gate: &hubGate{}}
	several := shared.node.Inc() != ""
	if several {
		engine.DialContext = shared.gate.dial
	}
	err := o.join(agent.Options{URL: r.URL, Office: r.Office, Namespace: r.Namespace, Token: r.Token.Reveal(), Keys: keys, Engine: engine}, nil)
	if err != nil || !several {
		return err
	}
	shared.fleet = o.fleets[len(o.fleets)-1]
	o.shared = append(o.shared, shared)
	o.ends.Go(func() { shared.run(o.ctx) })
	return nil
}

// join makes the Computers of an office upstreams. owner looks up a Computer's owner in weir's own
// hub; it is nil for other hubs.
func (o *Offices) join(opts agent.Options, owner func(string) (ownership.Owner, bool)) error {
	f, err := computers.New(computers.Options{Agent: opts, Each: o.needs.Servers, Whole: o.whole, Names: o.needs.Names, Owner: owner, Logger: o.log})
	if err != nil {
		return part.Setupf("%w", err)
	}
	o.fleets = append(o.fleets, f)
	return f.Start()
}

// serve runs an HTTP server until it shuts down.
func (o *Offices) serve(s *http.Server, l net.Listener) {
	o.ends.Go(func() {
		if err := s.Serve(l); err != nil && !errors.Is(err, http.ErrServerClosed) {
			o.log.Error("the hub's listener failed", "err", err)
		}
	})
}

// Addr returns the address of hub.listen, nil without it.
func (o *Offices) Addr() net.Addr { return o.addr }

// Fleets returns one Fleet for each hub that the gateway is a member of.
func (o *Offices) Fleets() []*computers.Fleet { return o.fleets }

// hubListener listens on an address, with TLS if configured. It reads the certificate again for
// each connection, so that it can be renewed without a restart.
func hubListener(ctx context.Context, address string, t config.HubTLS) (net.Listener, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, part.CannotListen(address, err, "give the hub another one with hub.listen, or weir hub --listen")
	}
	if t.Cert == "" {
		return l, nil
	}
	if _, err := tls.LoadX509KeyPair(t.Cert, t.Key); err != nil {
		_ = l.Close() // no connection has been accepted yet
		return nil, part.Setupf("hub.tls: %w", err)
	}
	return tls.NewListener(l, &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, // WebSocket needs HTTP/1.1
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			cert, err := tls.LoadX509KeyPair(t.Cert, t.Key)
			return &cert, err
		},
	}), nil
}

// Handler serves the hub. If the hub is off, it explains how to switch it on.
func (o *Offices) Handler() http.Handler {
	if o == nil || o.hub == nil {
		return http.HandlerFunc(noHub)
	}
	return o.hub
}

// Route makes h serve Computers and agents at hub.listen from now on. In a cluster it hands those of other nodes on.
func (o *Offices) Route(h http.Handler) {
	if o != nil {
		o.routed.Store(&h)
	}
}

// servePeers serves Computers and agents at hub.listen.
func (o *Offices) servePeers(w http.ResponseWriter, r *http.Request) {
	if h := o.routed.Load(); h != nil {
		(*h).ServeHTTP(w, r)
		return
	}
	o.hub.ServeHTTP(w, r)
}

// Hides reports whether the states of Computers and offices must be hidden from a request: it has
// no gateway token and does not come from this machine, by the same rule as for hub peers.
func (o *Offices) Hides(r *http.Request) bool {
	return o != nil && o.hub != nil && !hub.Credentials{Header: r.Header, RemoteAddr: r.RemoteAddr}.Loopback()
}

// noHub answers Computers and agents that look for a hub that is off.
func noHub(w http.ResponseWriter, _ *http.Request) {
	guard.WriteError(w, http.StatusNotFound, "", mcp.Errorf(mcp.KindNotFound,
		"the A2C-SMCP hub of this weir is off: add hub: {} to its weir.yaml and restart it, or run weir hub"))
}

// Router returns the Find and Names functions of a Router: the manager's upstreams and the
// Computers. "desk" is a whole Computer, "desk.excel" one of its servers.
func (o *Offices) Router(m *upstream.Manager) (find func(string) (passthrough.Upstream, bool), names func() []string) {
	find, names = passthrough.FromManager(m)
	if o == nil {
		return find, names
	}
	each, all := find, names
	whole, _ := passthrough.FromManager(o.whole)
	find = func(name string) (passthrough.Upstream, bool) {
		if up, ok := each(name); ok {
			return up, true
		}
		for _, f := range o.fleets {
			if target, isWhole, ok := f.Resolve(name); ok && isWhole {
				return whole(target)
			} else if ok {
				return each(target)
			}
		}
		return each(name)
	}
	names = func() []string {
		out := all()
		for _, f := range o.fleets {
			out = append(out, f.Names()...)
		}
		slices.Sort(out)
		return slices.Compact(out)
	}
	return find, names
}

// Findings describes the Computers and Computer servers that were left out.
func (o *Offices) Findings() []catalog.Finding {
	if o == nil {
		return nil
	}
	var all []catalog.Finding
	for _, f := range o.fleets {
		all = append(all, f.Findings()...)
	}
	return all
}

// Health is the hub's part of /healthz.
type Health struct {
	Connections int          `json:"connections"`
	Members     []hub.Member `json:"members"`
}

// Health returns the state of the hub, nil if there is no hub.
func (o *Offices) Health() *Health {
	if o == nil || o.hub == nil {
		return nil
	}
	h := &Health{Connections: o.hub.Connections(), Members: o.hub.Members()}
	if h.Members == nil {
		h.Members = []hub.Member{}
	}
	return h
}

// Shutdown leaves the offices and stops the hub, which tells its peers. Close releases the rest.
func (o *Offices) Shutdown(ctx context.Context) error {
	if o == nil {
		return nil
	}
	o.cancel()
	for _, f := range o.fleets { // first, or the fleets would reconnect to the ending hub
		_ = f.Close() // the error only says that it was not connected
	}
	if o.hub == nil {
		return nil
	}
	return o.hub.Shutdown(ctx)
}

// Close stops everything and waits for it.
func (o *Offices) Close(ctx context.Context) {
	if o == nil {
		return
	}
	if err := o.Shutdown(ctx); err != nil && !errors.Is(err, engineio.ErrServerClosed) {
		o.log.Warn("the hub did not end in time", "err", err)
	}
	if o.direct != nil {
		o.direct.Close()
	}
	if o.outer != nil {
		_ = o.outer.Close() // its peers were told
	}
	o.ends.Wait()
	o.issued.close()
	if err := o.whole.Close(ctx); err != nil {
		o.log.Warn("connections to Computers did not end by themselves", "err", err)
	}
}
