package link

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/mcp"
)

// Open connects to a path of another node and makes the connection one of another protocol. The handler there
// takes it with TakeOver. It goes to the node itself, never through a third one.
func (l *Link) Open(ctx context.Context, inc, path, protocol string) (net.Conn, error) {
	at, err := l.find(inc)
	if err != nil {
		return nil, err
	}
	dial := l.o.Dial
	if l.o.TLS != nil {
		dial = encrypted(dial, l.o.TLS)
	}
	at.Path = path
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, err
	}
	address(l.o.Inc(), inc, r)
	r.Header.Set(headerHops, strconv.Itoa(maxHops)) // no node passes it on
	SetCaller(r.Header, &identity.Identity{Principal: mcp.LocalPrincipal})
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", protocol)
	conn, err := dial(ctx, "tcp", at.Host)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(past) })
	err = switchTo(conn, r)
	if !stop() && err == nil {
		err = ctx.Err() // the deadline is set, or is about to be
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// errRefused says that a node does not speak the other protocol.
var errRefused = errors.New("the node does not make this connection")

// switchTo sends a request for another protocol and reads its answer.
func switchTo(conn net.Conn, r *http.Request) error {
	if err := r.Write(conn); err != nil {
		return err
	}
	in := bufio.NewReader(conn)
	resp, err := http.ReadResponse(in, r)
	switch {
	case err != nil:
		return err
	case resp.StatusCode != http.StatusSwitchingProtocols:
		_ = resp.Body.Close()
		return fmt.Errorf("%w: it answers with status %d", errRefused, resp.StatusCode)
	case in.Buffered() > 0:
		return errors.New("the node speaks before it is asked")
	}
	return nil
}

// TakeOver answers a request of Open and returns its connection. It refuses one for another node, or for an older
// incarnation of this one. An error has been answered.
func TakeOver(w http.ResponseWriter, r *http.Request, protocol string) (net.Conn, error) {
	if _, _, ok := Caller(r.Context()); !ok || Misdirected(r.Context()) {
		http.Error(w, "this connection is for another node", http.StatusMisdirectedRequest)
		return nil, errors.New("a connection for another node")
	}
	if r.Header.Get("Upgrade") != protocol {
		http.Error(w, "this path is for the protocol "+protocol, http.StatusUpgradeRequired)
		return nil, errors.New("another protocol")
	}
	conn, _, err := http.NewResponseController(w).Hijack() // the other node sends nothing before the answer
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return nil, err
	}
	_ = conn.SetDeadline(time.Time{}) // the next write has the error
	if _, err := io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+protocol+"\r\n\r\n"); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}
