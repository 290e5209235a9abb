package office

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/internal/cluster"
	"github.com/weir-mcp/weir/internal/cluster/peerlink"
	"github.com/weir-mcp/weir/internal/link"
	"github.com/weir-mcp/weir/internal/net/httpserver"
	"github.com/weir-mcp/weir/internal/office/roster"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/upstream"
	"github.com/weir-mcp/weir/internal/upstream/computers"
	"github.com/weir-mcp/weir/mcp"
)

// An office of a hub in hubs has one agent, so one node of a cluster joins it, and the others reach its
// Computers through that node:
//
//	claim u.HASH ─▶ the gate is open ─▶ computers.Fleet joins the office
//	held by another node, the claim is followed ─▶ each second: GET /peer/v1/hubs/NAME ─▶ computers.Mirror
//	                         a connection: /peer/v1/hubs/NAME/SERVER, upgraded ─▶ computers.Open at that node

// hubPath is where other nodes find the Computers of a hub, over the peer link.
const hubPath = "/peer/v1/hubs/"

const (
	hubLook    = time.Second      // between two looks at the holder of a hub
	hubAgain   = 20 * time.Second // after which the store is asked for the holder without a reason
	hubAsk     = 5 * time.Second  // for its list of servers
	hubConnect = 20 * time.Second // for a connection through it
	maxHubList = 4 << 20          // bytes of such a list
	maxFrame   = 64 << 20         // bytes of one message of a connection
	hubUpgrade = "weir-stream"
)

// Messages between hubs go over a connection of the peer link, and over NATS while there is none.
const (
	messagePath     = "/peer/v1/messages"
	messageProtocol = "weir-messages"
)

// errNotAgent is the error of connections to a hub that another node is a member of.
var errNotAgent = errors.New("another node of the cluster is the agent in this office")

// sharedHub is one hub of hubs in a cluster.
type sharedHub struct {
	name   string
	node   *cluster.Node
	docs   store.Docs
	fleet  *computers.Fleet
	gate   *hubGate
	holder atomic.Pointer[string]
}

// run holds the hub, or mirrors its holder, until ctx ends. The store is asked when the claim has changed, its
// holder is gone, or after hubAgain.
func (h *sharedHub) run(ctx context.Context) {
	key := h.key()
	changed := make(chan struct{}, 1)
	var unfollow func()
	defer func() {
		if unfollow != nil {
			unfollow()
		}
	}()
	for holder, asked, look := "", (time.Time{}), true; ctx.Err() == nil; {
		if unfollow == nil {
			if stop, err := h.docs.Follow(key, func(store.Doc) { nudge(changed) }); err == nil {
				unfollow = stop
			}
		}
		if look {
			asked, holder = time.Now(), ""
			claim, err := h.node.Claim(ctx, key, true)
			if err == nil {
				h.hold(ctx, claim)
				continue
			}
			if inc, held := cluster.Holder(err); held {
				holder = inc
				h.holder.Store(&inc)
			}
		}
		if holder != "" {
			if servers, err := h.list(ctx, holder); err == nil {
				h.fleet.Mirror(servers, h.reach)
			}
		}
		select {
		case <-changed:
			look = true
		case <-time.After(hubLook):
			look = unfollow == nil || holder == "" || h.node.Gone(holder) || time.Since(asked) >= hubAgain
		case <-ctx.Done():
		}
	}
}

// key returns the key of the claim.
func (h *sharedHub) key() string { return store.ClaimKeys + store.Hash("hubs\x00"+h.name) }

// nudge says that something has changed, unless that is known.
func nudge(changed chan<- struct{}) {
	select {
	case changed <- struct{}{}:
	default:
	}
}

// hold lets the fleet join the hub while the claim lasts.
func (h *sharedHub) hold(ctx context.Context, claim *cluster.Claim) {
	h.fleet.Mirror(nil, nil)
	h.gate.set(true)
	select {
	case <-claim.Lost():
	case <-ctx.Done():
	}
	h.gate.set(false)
	if ctx.Err() != nil {
		bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), peerlink.LeaveTimeout)
		defer cancel()
		_ = claim.Release(bounded) // else it ends with the node
	}
}

// list asks the holder for the servers of its Computers.
func (h *sharedHub) list(ctx context.Context, inc string) ([]computers.Server, error) {
	ctx, cancel := context.WithTimeout(ctx, hubAsk)
	defer cancel()
	status, raw, err := peerlink.Ask(ctx, h.node, inc, http.MethodGet, hubPath+url.PathEscape(h.name), nil, maxHubList)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("status %d", status)
	}
	var servers []computers.Server
	if err == nil {
		err = json.Unmarshal(raw, &servers)
	}
	return servers, err
}

// reach returns how a server is connected to through the holder.
func (h *sharedHub) reach(server string) upstream.Open {
	return func(ctx context.Context) (mcp.Stream, error) {
		inc := *h.holder.Load()
		lasting, cancel := context.WithCancel(context.WithoutCancel(ctx))
		late := time.AfterFunc(hubConnect, cancel)
		stop := context.AfterFunc(ctx, cancel)
		defer func() { late.Stop(); stop() }()
		r, err := http.NewRequestWithContext(lasting, http.MethodPost, "http://node"+hubPath+url.PathEscape(h.name)+"/"+url.PathEscape(server), nil)
		if err != nil {
			cancel()
			return nil, err
		}
		r.Header.Set("Connection", "Upgrade")
		r.Header.Set("Upgrade", hubUpgrade)
		resp, err := cluster.Send(h.node, inc, r)
		if err != nil {
			cancel()
			return nil, fmt.Errorf("the node of the Computer does not answer: %w", err)
		}
		rw, ok := resp.Body.(io.ReadWriteCloser)
		if resp.StatusCode != http.StatusSwitchingProtocols || !ok {
			raw, _ := io.ReadAll(io.LimitReader(resp.Body, peerlink.MaxRefusal)) // it is only told
			_ = resp.Body.Close()
			cancel()
			return nil, fmt.Errorf("the node of the Computer: %s", strings.TrimSpace(string(raw)))
		}
		return &framed{in: bufio.NewReader(rw), out: rw, end: func() { _ = rw.Close(); cancel() }}, nil
	}
}

// framed is a Stream over a connection: each message after its length, in four bytes.
type framed struct {
	in    *bufio.Reader
	out   io.Writer
	close sync.Once
	end   func()
}

var _ mcp.Stream = (*framed)(nil)

// Read implements mcp.Stream.
func (f *framed) Read() ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(f.in, size[:]); err != nil {
		return nil, io.EOF
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > maxFrame {
		return nil, mcp.Errorf(mcp.KindTooLarge, "a message of %d bytes between nodes", n)
	}
	msg := make([]byte, n)
	if _, err := io.ReadFull(f.in, msg); err != nil {
		return nil, io.ErrUnexpectedEOF
	}
	return msg, nil
}

// Write implements mcp.Stream.
func (f *framed) Write(msg []byte) error {
	if len(msg) > maxFrame {
		return mcp.Errorf(mcp.KindTooLarge, "a message of %d bytes between nodes", len(msg))
	}
	_, err := f.out.Write(append(binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(msg)), uint32(len(msg))), msg...))
	return err
}

// Close implements mcp.Stream.
func (f *framed) Close() error {
	f.close.Do(f.end)
	return nil
}

// hubGate lets connections through while it is open, and ends them when it is closed.
type hubGate struct {
	mu    sync.Mutex // guards below
	open  bool
	conns map[*gatedConn]struct{}
}

type gatedConn struct {
	net.Conn
	g *hubGate
}

// Close implements net.Conn.
func (c *gatedConn) Close() error {
	c.g.mu.Lock()
	delete(c.g.conns, c)
	c.g.mu.Unlock()
	return c.Conn.Close()
}

func (g *hubGate) set(open bool) {
	g.mu.Lock()
	g.open = open
	var ended []*gatedConn
	if !open {
		for c := range g.conns {
			ended = append(ended, c)
		}
	}
	g.mu.Unlock()
	for _, c := range ended {
		_ = c.Close() // its user sees the end
	}
}

func (g *hubGate) isOpen() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.open
}

func (g *hubGate) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if !g.isOpen() {
		return nil, errNotAgent
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := &gatedConn{conn, g}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.open {
		_ = conn.Close()
		return nil, errNotAgent
	}
	if g.conns == nil {
		g.conns = map[*gatedConn]struct{}{}
	}
	g.conns[c] = struct{}{}
	return c, nil
}

// PeerPath reports whether a path of the peer link is for Offices.ServePeer.
func PeerPath(path string) bool {
	return strings.HasPrefix(path, hubPath) || strings.HasPrefix(path, roster.BodyPath) || path == messagePath
}

// ServePeer serves other nodes: messages between hubs, the bodies of large ones, and Computers of hubs in hubs.
func (o *Offices) ServePeer(w http.ResponseWriter, r *http.Request) {
	if o == nil {
		http.NotFound(w, r)
		return
	}
	if strings.HasPrefix(r.URL.Path, roster.BodyPath) && o.bodies != nil {
		o.bodies.ServeHTTP(w, r)
		return
	}
	if r.URL.Path == messagePath && o.direct != nil {
		if conn, err := link.TakeOver(w, r, messageProtocol); err == nil {
			o.direct.Accept(conn)
		}
		return
	}
	name, server, one := strings.Cut(strings.TrimPrefix(r.URL.EscapedPath(), hubPath), "/")
	name, err := url.PathUnescape(name)
	if err == nil {
		server, err = url.PathUnescape(server)
	}
	for _, h := range o.shared {
		if err == nil && h.name == name && h.gate.isOpen() {
			if one {
				h.serve(w, r, server)
			} else {
				httpserver.WriteJSON(w, http.StatusOK, h.fleet.Servers())
			}
			return
		}
	}
	http.NotFound(w, r)
}

// serve carries the messages of a server over an upgraded request of another node.
func (h *sharedHub) serve(w http.ResponseWriter, r *http.Request, server string) {
	stream, err := h.fleet.Open(r.Context(), server)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer func() { _ = stream.Close() }()
	conn, in, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Time{})
	if _, err := io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+hubUpgrade+"\r\n\r\n"); err != nil {
		return
	}
	far := &framed{in: in.Reader, out: conn, end: func() { _ = conn.Close() }}
	var back sync.WaitGroup
	back.Go(func() { relay(far, stream) })
	relay(stream, far)
	_ = stream.Close()
	back.Wait()
}

// relay copies messages until either side ends, and ends the receiver.
func relay(to, from mcp.Stream) {
	defer func() { _ = to.Close() }()
	for {
		msg, err := from.Read()
		if err != nil || to.Write(msg) != nil {
			return
		}
	}
}
