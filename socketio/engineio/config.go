package engineio

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/weir-mcp/weir/internal/memory"
)

// Defaults of Config.
const (
	defaultPingInterval   = 25 * time.Second
	defaultPingTimeout    = 20 * time.Second
	defaultUpgradeTimeout = 10 * time.Second
	defaultMaxPayload     = 1_000_000
	defaultMaxQueueBytes  = 4 << 20
	DefaultMaxQueueFrames = 8192
	defaultMaxSessions    = 100_000
)

// A Receiver takes what arrives in a session. The session calls it; Message and Pause are never called concurrently.
type Receiver interface {
	// Message is called for each message in order. data is only valid during the call. While Message runs nothing more is read
	// from this peer, and its pings are not counted against it: blocking is how a receiver asks it to slow down.
	Message(data []byte, binary bool)
	// Pause is called after all messages that arrived together: the session is about to wait for more. A receiver that
	// gathers work starts it here.
	Pause()
	// Closed is called once, in a goroutine of its own, when the session has ended; Message may still be running.
	Closed(reason Reason, err error)
}

// Config is how a Server behaves. The zero value of each field but Accept is ready for use.
type Config struct {
	// Accept is called for each new session before anything is read from it and returns who takes its messages. It may send. It
	// must be set.
	Accept func(*Session) Receiver

	// Authenticate decides about the handshake of a new session, before anything else about it is done, on both transports.
	// The value it returns is kept in Handshake.Value. A refusal becomes the HTTP response. nil admits everybody.
	Authenticate func(*http.Request) (value any, refusal *Refusal)

	// CheckOrigin decides about requests with an Origin header; others are no browsers. nil admits origins that CORS names and
	// those whose host is the request's own.
	CheckOrigin func(*http.Request) bool

	CORS *CORS // nil: no cross-origin requests

	PingInterval   time.Duration // between a pong and the next ping; 0: 25 s
	PingTimeout    time.Duration // for the pong; 0: 20 s
	UpgradeTimeout time.Duration // from a WebSocket's arrival to its packet 5; 0: 10 s
	MaxPayload     int           // bytes of one POST or one WebSocket message; 0: 1,000,000
	MaxQueueBytes  int           // bytes queued for one session before it counts as a slow consumer; 0: 4 MiB
	MaxQueueFrames int           // the same in messages; 0: 8192
	MaxSessions    int           // at the same time; further handshakes get 503; 0: 100,000

	// Probation bounds sessions that the application has not admitted yet. nil: every session is, from the beginning.
	Probation *Probation

	NoUpgrade bool // offer no WebSocket to sessions that began with polling

	// Memory is where messages are counted while they come; a session whose message finds no room ends. nil: nowhere.
	Memory *memory.Account

	Logger *slog.Logger // nil: none
}

func (c Config) withDefaults() Config {
	c.PingInterval = or(c.PingInterval, defaultPingInterval)
	c.PingTimeout = or(c.PingTimeout, defaultPingTimeout)
	c.UpgradeTimeout = or(c.UpgradeTimeout, defaultUpgradeTimeout)
	c.MaxPayload = or(c.MaxPayload, defaultMaxPayload)
	c.MaxQueueBytes = or(c.MaxQueueBytes, defaultMaxQueueBytes)
	c.MaxQueueFrames = or(c.MaxQueueFrames, DefaultMaxQueueFrames)
	c.MaxSessions = or(c.MaxSessions, defaultMaxSessions)
	c.Probation = c.Probation.withDefaults()
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

func or[T int | time.Duration](value, otherwise T) T {
	if value > 0 {
		return value
	}
	return otherwise
}

// ClientConfig is how Dial connects. The zero value is ready for use: polling first, then up to WebSocket.
type ClientConfig struct {
	// Transports are tried as JavaScript clients do: the first opens the session, and polling followed by websocket is upgraded.
	// nil: polling, then websocket. Use []Transport{WebSocket} for WebSocket only.
	Transports []Transport

	Header http.Header // sent with every request
	TLS    *tls.Config // nil: the defaults of crypto/tls
	// DialContext opens connections; nil: a net.Dialer.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)
	// Proxy names the proxy for a request; nil: none. http.ProxyFromEnvironment is the usual choice.
	Proxy func(*http.Request) (*url.URL, error)

	HandshakeTimeout time.Duration // for Dial as a whole, if its context has no earlier deadline; 0: 20 s
	MaxMessage       int           // bytes of one message, or one poll, from the server; 0: 64 MiB
	MaxQueueBytes    int           // bytes queued before the server counts as a slow consumer; 0: 16 MiB
	MaxQueueFrames   int           // the same in messages; 0: 8192

	// Memory is where messages are counted while they come; the session ends where one finds no room. nil: nowhere.
	Memory *memory.Account

	Logger *slog.Logger // nil: none
}

func (c ClientConfig) withDefaults() ClientConfig {
	if len(c.Transports) == 0 {
		c.Transports = []Transport{Polling, WebSocket}
	}
	c.HandshakeTimeout = or(c.HandshakeTimeout, 20*time.Second)
	c.MaxMessage = or(c.MaxMessage, 64<<20)
	c.MaxQueueBytes = or(c.MaxQueueBytes, 16<<20)
	c.MaxQueueFrames = or(c.MaxQueueFrames, DefaultMaxQueueFrames)
	if c.DialContext == nil {
		c.DialContext = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// A Transport is a way to carry a session.
type Transport string

// The transports.
const (
	Polling   Transport = "polling"
	WebSocket Transport = "websocket"
)
