package hub

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/weir-mcp/weir/socketio/engineio"
)

// Attachment lets a peer of this process join the hub: it is trusted, and needs no credentials and no
// version. Close ends it.
//
// Its connections are pairs of loopback sockets, because both ends of a WebSocket may write before
// either reads: the kernel's buffers are what net.Pipe lacks. No other process can use them.
type Attachment struct {
	server *http.Server
	conns  chan net.Conn
	once   sync.Once
	done   chan struct{} // closed by Close
	served chan struct{} // closed when the server has ended
}

// Attach returns a way into the hub for this process.
func (h *Hub) Attach() *Attachment {
	a := &Attachment{conns: make(chan net.Conn), done: make(chan struct{}), served: make(chan struct{})}
	a.server = &http.Server{
		Handler: Trust(h), ReadHeaderTimeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(h.log.Handler(), slog.LevelDebug),
	}
	go func() {
		defer close(a.served)
		if err := a.server.Serve(attachListener{a}); err != nil && !errors.Is(err, http.ErrServerClosed) {
			h.log.Error("the hub cannot be reached from its own process", "err", err)
		}
	}()
	return a
}

// URL returns the address of the hub for peers that connect with Engine.
func (a *Attachment) URL() string { return "http://hub.local/socket.io/" }

// Engine returns the configuration with which a peer reaches the hub.
func (a *Attachment) Engine() engineio.ClientConfig {
	return engineio.ClientConfig{Transports: []engineio.Transport{engineio.WebSocket}, DialContext: a.dial}
}

// Close ends the connections and waits for the server. Shut the hub down before, so that the peer is
// told to go. Close may be called more than once.
func (a *Attachment) Close() {
	_ = a.server.Close() // every peer has been told
	<-a.served
}

// dial has the form of net.Dialer.DialContext.
func (a *Attachment) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far, err := connPair(ctx)
	if err != nil {
		return nil, err
	}
	select {
	case a.conns <- far:
		return near, nil
	case <-a.done:
		err = net.ErrClosed
	case <-ctx.Done():
		err = ctx.Err()
	}
	_, _ = near.Close(), far.Close() // nothing has been written
	return nil, err
}

// connPair returns the two ends of a loopback connection. It closes connections that other programs
// make while the port is open.
func connPair(ctx context.Context) (near, far net.Conn, err error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	defer l.Close()
	// The kernel completes the connection before Accept returns it.
	if near, err = (&net.Dialer{}).DialContext(ctx, "tcp", l.Addr().String()); err != nil {
		return nil, nil, err
	}
	for {
		if far, err = l.Accept(); err != nil {
			_ = near.Close() // nothing has been written
			return nil, nil, err
		}
		if far.RemoteAddr().String() == near.LocalAddr().String() {
			return near, far, nil
		}
		_ = far.Close() // another program's
	}
}

// attachListener accepts the connections of an Attachment.
type attachListener struct{ a *Attachment }

var _ net.Listener = attachListener{}

// Accept implements net.Listener.
func (l attachListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.a.conns:
		return c, nil
	case <-l.a.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l attachListener) Close() error {
	l.a.once.Do(func() { close(l.a.done) })
	return nil
}

// Addr implements net.Listener.
func (l attachListener) Addr() net.Addr { return &net.UnixAddr{Name: "hub", Net: "loopback"} }
