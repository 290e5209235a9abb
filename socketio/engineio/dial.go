package engineio

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/gorilla/websocket"
)

// client makes the requests and connections of one session.
type client struct {
	config    ClientConfig
	base      *url.URL // without transport and sid
	http      *http.Client
	transport *http.Transport
	ctx       context.Context // ends with the session
	cancel    context.CancelFunc
}

// Dial opens a session with the Engine.IO server at rawURL, such as
// "https://hub.example/engine.io/". The schemes ws and wss equal http and https. Dial returns when
// the server has answered; a refusal is a *HandshakeError. It calls accept once, before anything
// else is read. ctx bounds the handshake only.
//
// The session ends by Close, by the server, or after a silence of pingInterval plus pingTimeout.
// Dial does not reconnect.
func Dial(ctx context.Context, rawURL string, config ClientConfig, accept func(*Session) Receiver) (*Session, error) {
	config = config.withDefaults()
	base, err := baseURL(rawURL)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, config.HandshakeTimeout)
	defer cancel()
	c := newClient(config, base)
	switch config.Transports[0] {
	case Polling:
		return c.dialPolling(ctx, accept)
	case WebSocket:
		return c.dialWebSocket(ctx, accept)
	default:
		return nil, fmt.Errorf("engineio: unknown transport %q: use %q or %q", config.Transports[0], Polling, WebSocket)
	}
}

func baseURL(rawURL string) (*url.URL, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, fmt.Errorf("engineio: %w", err)
	}
	switch u.Scheme {
	case "ws":
		u.Scheme = "http"
	case "wss":
		u.Scheme = "https"
	case "http", "https":
	default:
		return nil, fmt.Errorf("engineio: %q is no http, https, ws or wss URL", rawURL)
	}
	if u.Host == "" {
		return nil, fmt.Errorf("engineio: %q names no host", rawURL)
	}
	query := u.Query()
	query.Set("EIO", protocolVersion)
	u.RawQuery = query.Encode()
	return u, nil
}

// postBuffer is the size in which a usual request leaves in one write. python-engineio under
// aiohttp reads only the part of a POST body that has arrived. A request in several pieces would
// lose its end.
const postBuffer = 64 << 10

func newClient(config ClientConfig, base *url.URL) *client {
	transport := &http.Transport{
		Proxy:               config.Proxy,
		DialContext:         config.DialContext,
		TLSClientConfig:     config.TLS.Clone(),
		MaxIdleConnsPerHost: 2,
		IdleConnTimeout:     90 * time.Second,
		TLSHandshakeTimeout: 10 * time.Second,
		DisableCompression:  true,
		WriteBufferSize:     postBuffer,
	}
	c := &client{
		config: config, base: base, transport: transport,
		http: &http.Client{Transport: transport},
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// session creates a session from the server's open packet.
func (c *client) session(data []byte) (*Session, []Transport, error) {
	var o opening
	if err := json.Unmarshal(data, &o); err != nil {
		return nil, nil, fmt.Errorf("engineio: the server's open packet: %w", err)
	}
	if o.SID == "" || o.PingInterval <= 0 || o.PingTimeout <= 0 {
		return nil, nil, errors.New("engineio: the server's open packet lacks sid, pingInterval or pingTimeout")
	}
	payload := o.MaxPayload
	if payload <= 0 {
		payload = defaultMaxPayload
	}
	s := &Session{
		id: o.SID,
		env: &environment{
			client:      true,
			interval:    time.Duration(o.PingInterval) * time.Millisecond,
			timeout:     time.Duration(o.PingTimeout) * time.Millisecond,
			maxMessage:  c.config.MaxMessage,
			maxPayload:  payload,
			maxFrame:    o.MaxPayload,
			queueBytes:  c.config.MaxQueueBytes,
			queueFrames: c.config.MaxQueueFrames,
			memory:      c.config.Memory,
			logger:      c.config.Logger,
			tasks:       tasks{idle: make(chan struct{}, 1)},
			forget:      func(*Session) { c.close() },
		},
	}
	return s, o.Upgrades, nil
}

// start starts a session: it sets the carrier, starts the heartbeat and obtains the receiver.
func (c *client) start(s *Session, by carrier, accept func(*Session) Receiver) {
	s.mu.Lock()
	s.carrier = by
	s.heart.start(s.env.interval, s.env.interval+s.env.timeout, s.beat)
	s.mu.Unlock()
	s.begin(accept)
}

// close releases the client's resources.
func (c *client) close() {
	c.cancel()
	c.transport.CloseIdleConnections()
}

// url returns the address of a request.
func (c *client) url(transport Transport, sid string) *url.URL {
	u := *c.base
	query := u.Query()
	query.Set("transport", string(transport))
	if sid != "" {
		query.Set("sid", sid)
	}
	u.RawQuery = query.Encode()
	return &u
}

// --- WebSocket ---

// openWS opens a WebSocket for a session, or for a new session if sid is empty.
func (c *client) openWS(ctx context.Context, sid string) (*wsConn, error) {
	var below *pauseConn
	dialer := websocket.Dialer{
		NetDialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := c.config.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			below = &pauseConn{Conn: conn}
			return below, nil
		},
		Proxy:           c.config.Proxy,
		TLSClientConfig: c.config.TLS.Clone(),
		ReadBufferSize:  4096,
		WriteBufferPool: noBuffers{},
	}
	u := c.url(WebSocket, sid)
	u.Scheme = "ws" + strings.TrimPrefix(u.Scheme, "http")
	g, response, err := dialer.DialContext(ctx, u.String(), c.config.Header)
	if err != nil {
		if response == nil {
			return nil, fmt.Errorf("engineio: %w", err)
		}
		body, _ := io.ReadAll(response.Body) // gorilla has already read it
		return nil, &HandshakeError{Status: response.StatusCode, Header: response.Header, Body: body}
	}
	return clientConn(g, below, c.config.MaxMessage), nil
}

func (c *client) dialWebSocket(ctx context.Context, accept func(*Session) Receiver) (*Session, error) {
	conn, err := c.openWS(ctx, "")
	if err != nil {
		c.close()
		return nil, err
	}
	s, err := c.firstPacket(ctx, conn)
	if err != nil {
		conn.abort()
		c.close()
		return nil, err
	}
	conn.session = s
	c.start(s, conn, accept)
	s.env.tasks.Go(conn.clientLoop)
	return s, nil
}

// firstPacket waits for the open packet.
func (c *client) firstPacket(ctx context.Context, conn *wsConn) (*Session, error) {
	stop := context.AfterFunc(ctx, conn.abort)
	var scratch []byte
	p, err := conn.next(&scratch)
	if !stop() {
		return nil, fmt.Errorf("engineio: the server sent no open packet: %w", ctx.Err())
	}
	if err != nil {
		return nil, fmt.Errorf("engineio: the server sent no open packet: %w", err)
	}
	if p.kind != packetOpen {
		return nil, fmt.Errorf("engineio: the server began with packet %q", p.kind)
	}
	s, _, err := c.session(p.data)
	return s, err
}

// probe checks that messages pass through the WebSocket.
func (w *wsConn) probe() error {
	if err := w.writeDirect(controlFrame(packetPing, probe), closeTimeout); err != nil {
		return err
	}
	var scratch []byte
	p, err := w.next(&scratch)
	if err != nil {
		return err
	}
	if p.kind != packetPong || string(p.data) != probe {
		return errUpgrade
	}
	return nil
}

// mayUpgrade reports whether both sides want the upgrade.
func (c *client) mayUpgrade(upgrades []Transport) bool {
	return slices.Contains(c.config.Transports, WebSocket) && slices.Contains(upgrades, WebSocket)
}
