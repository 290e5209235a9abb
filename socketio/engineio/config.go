package engineio

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/weir-mcp/weir/internal/limit/memory"
)

// Default values of Config.
const (
	defaultPingInterval   = 25 * time.Second
	defaultPingTimeout    = 20 * time.Second
	defaultUpgradeTimeout = 10 * time.Second
	defaultMaxPayload     = 1_000_000
	defaultMaxQueueBytes  = 4 << 20
	DefaultMaxQueueFrames = 8192
	defaultMaxSessions    = 100_000
)

// Receiver handles the messages of a session. The session never calls Message and Pause
// concurrently. If the Receiver has a method Keep(data []byte, binary bool, release func()) as well, the session
// calls it in place of Message for messages that count in Config.Memory, except over polling. Their bytes stay valid,
// and count until release is called, once.
type Receiver interface {
	// Message is called for each message in order. data is only valid during the call. While
	// Message runs, the session reads nothing more and does not expect pongs: a receiver slows its
	// peer down by blocking.
	Message(data []byte, binary bool)
	// Pause is called when all available messages have been delivered. A receiver that batches work
	// starts it here.
	Pause()
	// Closed is called once, in its own goroutine, when the session has ended. Message may still be
	// running.
	Closed(reason Reason, err error)
}

// keeper is a Receiver that keeps large messages longer than a call.
type keeper interface {
	Keep(data []byte, binary bool, release func())
}

// Config configures a Server. Accept is required; all other fields may be zero.
type Config struct {
	// Accept is called for each new session before anything is read. It returns the session's
	// Receiver and may send messages.
	Accept func(*Session) Receiver

	// Authenticate checks the handshake of a new session before any other work, on both transports.
	// Its value is stored in Handshake.Value. A refusal becomes the HTTP response. A nil
	// Authenticate admits all clients.
	Authenticate func(*http.Request) (value any, refusal *Refusal)

	// NewID returns the id of a new session, which must be hard to guess: the id is the only proof that a
	// request belongs to the session. It has letters, digits, "-" and "_". It is called concurrently. Nil
	// makes one of 120 random bits.
	NewID func() string

	// CheckOrigin checks requests with an Origin header, which only browsers send. A nil
	// CheckOrigin admits the origins in CORS and the server's own origin.
	CheckOrigin func(*http.Request) bool

	CORS *CORS // nil: no cross-origin requests

	PingInterval   time.Duration // between a pong and the next ping; 0: 25 s
	PingTimeout    time.Duration // for the pong; 0: 20 s
	UpgradeTimeout time.Duration // from a WebSocket's arrival to its packet 5; 0: 10 s
	MaxPayload     int           // bytes of one POST or one WebSocket message; 0: 1,000,000
	MaxQueueBytes  int           // bytes queued for one session before it counts as a slow consumer; 0: 4 MiB
	MaxQueueFrames int           // the same in messages; 0: 8192
	MaxSessions    int           // at the same time; further handshakes get 503; 0: 100,000

	// Probation bounds sessions that the application has not admitted yet. If it is nil, every
	// session is admitted at once.
	Probation *Probation

	NoUpgrade bool // offer no WebSocket to sessions that started with polling

	// Memory counts large messages, incoming ones and those in the send queue. A session ends if an incoming
	// message finds no room in time, and Send returns ErrNoRoom for one that does not. Nil means no
	// count.
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
	if c.NewID == nil {
		c.NewID = newID
	}
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

// ClientConfig configures Dial. The zero value is ready for use: it starts with polling and
// upgrades to WebSocket.
type ClientConfig struct {
	// Transports are tried as in the JavaScript client: the first opens the session, and polling
	// followed by websocket means an upgrade. Nil means polling, then websocket. Use
	// []Transport{WebSocket} for WebSocket only.
	Transports []Transport

	Header http.Header // sent with every request
	TLS    *tls.Config // nil: the defaults of crypto/tls
	// DialContext opens connections. Nil means a net.Dialer.
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)
	// Proxy returns the proxy for a request, usually http.ProxyFromEnvironment. Nil means no proxy.
	Proxy func(*http.Request) (*url.URL, error)

	HandshakeTimeout time.Duration // for Dial as a whole, if its context has no earlier deadline; 0: 20 s
	MaxMessage       int           // bytes of one message, or one poll, from the server; 0: 64 MiB
	MaxQueueBytes    int           // bytes queued before the server counts as a slow consumer; 0: 16 MiB
	MaxQueueFrames   int           // the same in messages; 0: 8192

	// Memory counts large messages, incoming ones and those in the send queue. The session ends if an incoming
	// message does not fit, and Send returns ErrNoRoom for one that does not. Nil means no
	// count.
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

// Transport is a way to carry a session.
type Transport string

// Transports.
const (
	Polling   Transport = "polling"
	WebSocket Transport = "websocket"
)
