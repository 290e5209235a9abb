package cluster

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/framed"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/limit/bounded"
	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/internal/net/hop"
	"github.com/weir-mcp/weir/mcp"
)

// Headers of the peer link. Requests of the public lose them.
const (
	headerAs    = "Weir-As"    // who makes the request: the entry node has found it out
	headerFrom  = "Weir-From"  // INC of the entry node
	headerTo    = "Weir-To"    // INC of the node that the request is for
	headerHops  = "Weir-Hops"  // how many nodes have passed the request on
	headerAddr  = "Weir-Addr"  // the address of the client at the entry node, "" for a request of that node itself
	headerOwner = "Weir-Owner" // in a response of status 421: INC of the owner, "" if the thing has none
	// headerUnreached, in a response of status 502, says that a third node could not reach the owner either:
	// "unsent", or "unknown" if the owner may have got the request.
	headerUnreached = "Weir-Unreached"
)

// linkHeaders is how many headers a request gets for the peer link.
const linkHeaders = 5

// keyHeaders are headers of clients that [http.Transport] takes for leave to send a request again when its
// connection breaks off, even if the other node has got it. They have another name on the peer link: only
// this package knows what may run twice.
var keyHeaders = []string{"Idempotency-Key", "X-Idempotency-Key"}

// prefixKey is in front of the names of keyHeaders on the peer link.
const prefixKey = "Weir-"

// rename moves the values of a header to another name.
func rename(h http.Header, from, to string) {
	if values, ok := h[from]; ok {
		delete(h, from)
		h[to] = values
	}
}

// Values of headerUnreached.
const (
	unreachedUnsent  = "unsent"
	unreachedUnknown = "unknown"
)

// pathPing is where a node shows that it answers over its link.
const pathPing = "/peer/v1/ping"

// maxHops bounds how often a request is passed on: to its owner, or through a third node.
const maxHops = 2

// errNotSent says that the other node has got nothing of a request, so it may be sent again.
var errNotSent = errors.New("the request was not sent")

// dialer notices within seconds that the other machine is gone.
func dialer() *net.Dialer {
	return &net.Dialer{Timeout: 2 * time.Second, KeepAliveConfig: keepAlive, Control: controlConn}
}

// keepAlive ends connections to a machine that has been silent for 4 seconds.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: time.Second, Interval: time.Second, Count: 3}

// Listen listens for the connections of other nodes. They end as those that this node dials do, if the other machine
// is silent: with the times of the system, the goroutine that reads from it would wait for two and a half minutes.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	l, err := (&net.ListenConfig{KeepAliveConfig: keepAlive}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return listener{l}, nil
}

type listener struct{ net.Listener }

// Accept implements net.Listener.
func (l listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		if raw, err := tcp.SyscallConn(); err == nil {
			_ = controlConn("", "", raw) // a connection works without it
		}
	}
	return conn, nil
}

// newLinks returns the client of peer links. It carries requests in the goroutine of the caller.
func newLinks(dial func(ctx context.Context, network, address string) (net.Conn, error), config *tls.Config) *hop.Transport {
	t := &http.Transport{
		DisableCompression: true, MaxIdleConnsPerHost: 256, IdleConnTimeout: 90 * time.Second,
	}
	if config == nil {
		t.DialContext = unsent(dial)
		return hop.New(t)
	}
	t.DialTLSContext = unsent(encrypted(dial, config))
	return hop.New(t)
}

// encrypted returns a dial with TLS.
func encrypted(dial func(ctx context.Context, network, address string) (net.Conn, error), config *tls.Config) func(ctx context.Context, network, address string) (net.Conn, error) {
	config = config.Clone()
	config.DynamicRecordSizingDisabled = true // a message of some KB is one record: the other node needs it whole
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		raw, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		bounded, cancel := context.WithTimeout(ctx, handshakeTime)
		defer cancel()
		conn := tls.Client(raw, config)
		if err := conn.HandshakeContext(bounded); err != nil {
			_ = raw.Close()
			return nil, err
		}
		return conn, nil
	}
}

// handshakeTime bounds a TLS handshake with another node.
const handshakeTime = 3 * time.Second

// unsent marks errors of a dial: nothing was sent.
func unsent(dial func(ctx context.Context, network, address string) (net.Conn, error)) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errNotSent, err)
		}
		return conn, nil
	}
}

// RoundTrip sends a request to the node with an INC. An error that is errNotSent says that the node has got
// nothing. A node that lives and cannot be dialled is reached through a third one. The body of r is closed
// if nothing was sent as well.
func (n *Node) RoundTrip(inc string, r *http.Request) (*http.Response, error) {
	own := r.WithContext(r.Context())
	own.Header = maps.Clone(r.Header)
	return n.carry(inc, own)
}

// carry is RoundTrip for a request whose headers may be changed.
func (n *Node) carry(inc string, r *http.Request) (*http.Response, error) {
	around := hops(r.Header) < maxHops-1 && (r.Body == nil || r.Body == http.NoBody || r.GetBody != nil) // it may go through a third one
	address(n, inc, r)
	resp, err := (*http.Response)(nil), fmt.Errorf("%w: the peer link of %s does not answer, and no other node passes the request on", errNotSent, inc)
	if !around || !detoured(n, inc) {
		resp, err = n.send(inc, r)
		if err == nil || !errors.Is(err, errNotSent) || !around || r.Context().Err() != nil {
			return resp, err
		}
		if failed := n.Ping(r.Context(), inc); failed != nil {
			return nil, err
		}
		detour(n, inc)
	}
	for _, p := range n.Peers() {
		if p.Inc == inc || p.Inc == n.Inc() || p.URL == "" {
			continue
		}
		again := r.Clone(r.Context())
		if r.GetBody != nil {
			if again.Body, err = r.GetBody(); err != nil {
				return nil, fmt.Errorf("%w: %w", errNotSent, err)
			}
		}
		if resp, err = n.send(p.Inc, again); err == nil {
			err = unreached(resp)
		}
		if !errors.Is(err, errNotSent) {
			return resp, err
		}
	}
	return nil, err
}

// unreached returns the error of a third node that could not pass a request on, and closes its response.
func unreached(resp *http.Response) error {
	said := resp.Header.Get(headerUnreached)
	if said == "" || resp.StatusCode != http.StatusBadGateway {
		return nil
	}
	_ = resp.Body.Close()
	if said == unreachedUnsent {
		return fmt.Errorf("%w: a third node does not reach it either", errNotSent)
	}
	return errors.New("a third node lost the connection to it")
}

// address sets the headers of the peer link on a request for a node.
func address(n *Node, inc string, r *http.Request) {
	h := r.Header
	values := []string{inc, strconv.Itoa(hops(h) + 1), "", ""}
	h[headerTo], h[headerHops] = values[0:1:1], values[1:2:2]
	if first(h, headerFrom) == "" {
		values[2], values[3] = n.Inc(), r.RemoteAddr
		h[headerFrom], h[headerAddr] = values[2:3:3], values[3:4:4]
	}
	for _, name := range keyHeaders {
		rename(h, name, prefixKey+name)
	}
}

// send sends a request that has its headers to the peer link of a node.
func (n *Node) send(via string, r *http.Request) (*http.Response, error) {
	p, ok := n.peer(via)
	if !ok || p.URL == "" {
		return nil, fmt.Errorf("%w: the node %s is gone", errNotSent, via)
	}
	if resp, err, ok := exchanged(n, via, r); ok {
		return resp, err
	}
	u, err := url.Parse(p.URL)
	if err != nil {
		return nil, fmt.Errorf("%w: the node %s has a URL that cannot be read: %w", errNotSent, p.Name, err)
	}
	out := r.WithContext(r.Context())
	out.RequestURI = ""
	at := *r.URL
	at.Scheme, at.Host, out.URL = u.Scheme, u.Host, &at
	if n.o.TLS == nil {
		at.Scheme = "http"
	}
	return n.links.RoundTrip(out)
}

// first returns the first value of a header, whose name is in the form that [http.Header] has.
func first(h http.Header, name string) string {
	if values := h[name]; len(values) > 0 {
		return values[0]
	}
	return ""
}

func hops(h http.Header) int {
	said := first(h, headerHops)
	if said == "" {
		return 0
	}
	count, err := strconv.Atoi(said)
	if err != nil || count < 0 {
		return 0
	}
	return count
}

// Strip removes the headers of the peer link from a request of the public.
func Strip(h http.Header) {
	for _, name := range []string{headerAs, headerFrom, headerTo, headerHops, headerAddr, headerOwner, headerUnreached} {
		delete(h, name)
	}
	for _, name := range keyHeaders {
		delete(h, prefixKey+name)
	}
}

// caller is what headerAs says.
type caller struct {
	identity.Identity
	HasBearer bool // the token is in Authorization
}

// asHeader returns the value of headerAs for an identity. It is without the credential, which stands in the
// header Authorization of the same request.
func asHeader(id *identity.Identity) string {
	if value, ok := asPrincipal(id); ok {
		return value
	}
	c := caller{*id, id.Bearer != ""}
	c.Bearer = ""
	raw, err := json.Marshal(c)
	if err != nil {
		raw, _ = json.Marshal(caller{Identity: identity.Identity{Principal: id.Principal}}) // claims that are no JSON
	}
	return base64.RawURLEncoding.EncodeToString(raw)
}

// asPrincipal returns the value of headerAs for an identity of which there is no more than a name, as the guard makes
// them for static tokens. It is the JSON of caller without its empty members.
func asPrincipal(id *identity.Identity) (value string, ok bool) {
	plain := id.Issuer == "" && id.Client == "" && len(id.Groups)+len(id.Roles)+len(id.Scopes)+len(id.Needed)+len(id.RolesMissing) == 0 &&
		id.Claims == nil && !id.GroupsMissing && id.Expires.IsZero() && !id.Revocable
	if !plain {
		return "", false
	}
	raw := append(make([]byte, 0, 128), `{"Principal":`...)
	raw = rawjson.AppendString(raw, id.Principal)
	if id.Bearer != "" {
		raw = append(raw, `,"HasBearer":true`...)
	}
	return base64.RawURLEncoding.EncodeToString(append(raw, '}')), true
}

// Bounds of the values of headerAs that a node remembers, so that it does not decode one for each request.
const (
	maxCallers     = 1024
	maxCallerBytes = 1 << 20
)

func newCallers() *bounded.Map[string, *caller] {
	return bounded.New(bounded.Options[string, *caller]{MaxCount: maxCallers, MaxBytes: maxCallerBytes, KeepUsed: true})
}

// readAs returns the identity of a request of the peer link. It must not be changed.
func readAs(n *Node, h http.Header) (*identity.Identity, bool) {
	value := first(h, headerAs)
	if value == "" {
		return nil, false
	}
	c, known := n.callers.Get(value)
	if !known {
		raw, err := base64.RawURLEncoding.DecodeString(value)
		c = &caller{}
		d := json.NewDecoder(bytes.NewReader(raw))
		d.UseNumber() // as the guard decodes claims: a number of 17 digits stays what it is
		if err != nil || d.Decode(c) != nil || c.Principal == "" {
			return nil, false
		}
		c.Bearer = ""
		n.callers.Put(value, c, int64(2*len(value)))
	}
	if scheme, token, ok := strings.Cut(h.Get("Authorization"), " "); c.HasBearer && ok && strings.EqualFold(scheme, "bearer") {
		shown := c.Identity
		shown.Bearer = identity.Secret(strings.TrimSpace(token))
		return &shown, true
	}
	return &c.Identity, true
}

// Caller returns who makes a request that came by the peer link, and the INC of the entry node. ok is false
// for requests of the public.
func Caller(ctx context.Context) (id *identity.Identity, from string, ok bool) {
	c, ok := ctx.Value(callerKey{}).(carried)
	return c.id, c.from, ok
}

type callerKey struct{}

type carried struct {
	id          *identity.Identity
	from        string
	misdirected bool // it is for another incarnation
}

// Link serves requests of other nodes.
type Link struct {
	server    *http.Server
	exchanges *framed.Server
	done      chan struct{}

	mu     sync.Mutex            // guards below
	unused map[net.Conn]struct{} // nothing has come on them yet
	ending bool
}

// note follows the connections on which no request has come. [http.Server.Shutdown] waits five seconds for each.
func (k *Link) note(c net.Conn, state http.ConnState) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case state != http.StateNew:
		delete(k.unused, c)
	case k.ending:
		_ = c.Close()
	default:
		k.unused[c] = struct{}{}
	}
}

// unusedTime is how long a link that ends leaves connections open on which nothing has come: a request may be on its
// way.
const unusedTime = 500 * time.Millisecond

// closeUnused closes the connections on which nothing has come. Their nodes have sent nothing, and know it.
func (k *Link) closeUnused() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ending = true
	for c := range k.unused {
		_ = c.Close()
	}
}

// linkHeader bounds the time in which a node sends the header of a request.
const linkHeader = 10 * time.Second

// Serve serves the requests of other nodes at a listener. handler gets those that are for this node; Caller
// says who makes them. config asks for certificates of the cluster; nil does not encrypt, for tests.
func (n *Node) Serve(l net.Listener, config *tls.Config, handler http.Handler) *Link {
	n.mu.Lock()
	if n.ctx.Err() == nil {
		n.work.Go(func() { succeed(n) })
	}
	n.mu.Unlock()
	if config != nil {
		config = config.Clone()
		config.DynamicRecordSizingDisabled = true // as in newLinks
		l = tls.NewListener(l, config)
	}
	k := &Link{done: make(chan struct{}), unused: map[net.Conn]struct{}{}}
	k.exchanges = framed.NewServer(n.receive(handler), n.log)
	k.server = &http.Server{
		Handler: n.receive(exchanging(k.exchanges, handler)), ReadHeaderTimeout: linkHeader, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 256 << 10,
		ErrorLog: log.New(linkLog{n}, "", 0), ConnState: k.note,
	}
	go func() {
		defer close(k.done)
		_ = k.server.Serve(l)
	}()
	return k
}

// linkLog takes the messages of the HTTP server.
type linkLog struct{ n *Node }

func (l linkLog) Write(p []byte) (int, error) {
	l.n.log.Debug("peer link", "message", strings.TrimSpace(string(p)))
	return len(p), nil
}

// Shutdown waits for the requests until ctx ends, and closes the rest. A nil Link has none.
func (k *Link) Shutdown(ctx context.Context) {
	if k == nil {
		return
	}
	defer time.AfterFunc(unusedTime, k.closeUnused).Stop()
	var ending sync.WaitGroup
	defer ending.Wait()
	ending.Go(func() { k.exchanges.Shutdown(ctx) })
	if k.server.Shutdown(ctx) != nil {
		_ = k.server.Close()
	}
	<-k.done
}

// exchanging takes connections for small requests.
func exchanging(s *framed.Server, next http.Handler) http.Handler {
	begin := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if conn, err := TakeOver(w, r, exchangeProtocol); err == nil {
			s.Serve(conn)
		}
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == pathExchange {
			begin.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// receive checks a request of the peer link.
func (n *Node) receive(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		to := first(r.Header, headerTo)
		if to != "" && to != n.Inc() {
			if n.passOn(w, r, to) {
				return
			}
			// It may be for an older incarnation of this process: the handler knows what it owns.
		}
		if r.URL.Path == pathPing {
			w.Header().Set(headerState, standing(n))
			w.WriteHeader(http.StatusNoContent)
			return
		}
		if r.URL.Path == pathLeave {
			serveLeave(n, w, r)
			return
		}
		id, ok := readAs(n, r.Header)
		if !ok {
			http.Error(w, "the header Weir-As is missing or cannot be read", http.StatusBadRequest)
			return
		}
		from := first(r.Header, headerFrom)
		// Rules, the audit log and bounds look at where a request is from: the node in between is nowhere.
		r.RemoteAddr = first(r.Header, headerAddr)
		for _, name := range keyHeaders {
			rename(r.Header, prefixKey+name, name)
		}
		Strip(r.Header)
		r = r.WithContext(context.WithValue(r.Context(), callerKey{}, carried{id, from, to != "" && to != n.Inc()}))
		r.TLS = nil // the certificate is the node's, not the caller's
		next.ServeHTTP(w, r)
	})
}

// passOn sends a request on to another node that its sender cannot reach. It returns false if the request
// must not go further, or that node is gone.
func (n *Node) passOn(w http.ResponseWriter, r *http.Request, to string) bool {
	if hops(r.Header) >= maxHops || n.Gone(to) {
		return false
	}
	address(n, to, r)
	resp, err := n.send(to, r)
	if err != nil {
		said := unreachedUnknown
		if errors.Is(err, errNotSent) {
			said = unreachedUnsent
		}
		w.Header().Set(headerUnreached, said)
		guard.WriteError(w, mcp.KindNodeGone.Info().HTTP, "", goneError(n, to, err))
		return true
	}
	if owners, ok := resp.Header[headerOwner]; ok { // for the sender, which follows it
		w.Header()[headerOwner] = owners
	}
	_ = copyResponse(w, resp)
	return true
}

func isStream(resp *http.Response) bool {
	return strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream")
}

// lasts reports whether a response is written over time: an event stream, or lines of JSON that follow a log.
func lasts(resp *http.Response) bool {
	return isStream(resp) || strings.HasPrefix(resp.Header.Get("Content-Type"), "application/x-ndjson")
}

// copyResponse writes a response of another node, each part as it comes. It closes the body of the response and
// returns the error of reading it.
func copyResponse(w http.ResponseWriter, resp *http.Response) error {
	defer func() { _ = resp.Body.Close() }()
	h := w.Header()
	for name, values := range resp.Header {
		switch name {
		case "Connection", "Keep-Alive", "Transfer-Encoding", headerOwner, headerUnreached:
			continue
		case "Vary": // with the ones of this node
			h[name] = append(h[name], values...)
			continue
		}
		h[name] = values
	}
	w.WriteHeader(resp.StatusCode)
	stream := lasts(resp)
	rc := http.NewResponseController(w)
	if stream {
		_ = rc.SetReadDeadline(time.Time{})
		_ = rc.Flush()
	}
	piece := pieces.Get().(*[]byte)
	defer pieces.Put(piece)
	buf := *piece
	for {
		count, err := resp.Body.Read(buf)
		if count > 0 {
			_ = rc.SetWriteDeadline(time.Now().Add(writeLimit))
			if _, failed := w.Write(buf[:count]); failed != nil {
				return nil // the client is gone
			}
			if stream {
				_ = rc.Flush()
			}
		}
		if err != nil {
			_ = rc.SetWriteDeadline(time.Time{})
			if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				return nil
			}
			return err
		}
	}
}

// pieces are buffers of copyResponse.
var pieces = sync.Pool{New: func() any { b := make([]byte, 32<<10); return &b }}

// writeLimit bounds the time in which a client must read one write.
const writeLimit = 30 * time.Second
