package member

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/office/a2c"
	"github.com/weir-mcp/weir/smcp"
	"github.com/weir-mcp/weir/socketio"
	"github.com/weir-mcp/weir/socketio/engineio"
)

// Default values of Options.
const (
	defaultJoinTimeout = 15 * time.Second
	minJoinRetry       = 500 * time.Millisecond
	maxJoinRetry       = 30 * time.Second
)

// Options configure a Member: the peer's identity, the hub and the office.
type Options struct {
	// URL is the hub's address: "https://hub.example", or with a path if the Socket.IO server is not
	// at /socket.io/.
	URL string
	// Local connects to a hub in this process; URL is then not used. Nil means a network connection.
	Local  *socketio.Local
	Role   smcp.Role
	Name   string
	Office string // "" joins no office; see Member.Join
	// Namespace is the hub's Socket.IO namespace; "" is smcp.Namespace.
	Namespace string
	// Token is sent as the x-api-key header and in the CONNECT auth; "" sends none.
	Token string
	// TokenSource returns the token for each attempt to connect, which goes into the CONNECT auth. It
	// replaces Token; its error ends the attempt. Nil means Token.
	TokenSource func() (string, error)
	// Version is the a2c_version sent when connecting; "" sends none.
	Version string
	// MCP announces that the peer supports the general channel client:mcp.
	MCP bool
	// Key proves a Computer's name to a hub that binds the name to a key. Nil proves nothing.
	Key ed25519.PrivateKey
	// Engine configures the connection: transports, TLS, dialing.
	Engine engineio.ClientConfig
	// Backoff sets the waits between attempts to connect; see socketio.Backoff.
	Backoff socketio.Backoff
	// JoinTimeout bounds one join. The default is 15 s.
	JoinTimeout time.Duration
	// MaxConcurrent bounds how many OnConcurrent handlers run at once; see socketio.ClientConfig.
	MaxConcurrent int

	// OnJoined is called each time the peer enters its office, before any later event. OnLost is
	// called each time the peer leaves it.
	OnJoined func(ctx context.Context)
	OnLost   func(err error)
	// OnRefused is called each time the hub, or its certificate, rejects the peer for a reason that a
	// retry cannot cure: a token, a key, a name, a certificate authority. The Member keeps trying.
	// OnRefused must not block.
	OnRefused func(reason error)

	Logger *slog.Logger // nil discards
}

// State is the connection state of a Member.
type State string

// States of a Member.
const (
	Connecting State = "connecting"
	Joining    State = "joining"
	Joined     State = "joined"
	Outside    State = "connected" // connected, and no office is configured
	Closed     State = "closed"
)

// ErrNotConnected is returned by calls while the hub is not connected.
var ErrNotConnected = errors.New("not connected to the hub")

// Member keeps one peer connected. All methods are safe for concurrent use.
type Member struct {
	o      Options
	log    *slog.Logger
	hub    string // as error messages show it
	client *socketio.Client
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	// instance is a random text that distinguishes this process from others with the same key.
	instance string
	refusals refusals
	wg       sync.WaitGroup // join retries; Add under mu

	joining sync.Mutex // held while a join or a leave is in flight

	mu      sync.Mutex // guards below
	state   State
	office  string // the office to be in
	err     error  // the reason why the peer is not in its office
	since   time.Time
	changed chan struct{} // closed and replaced at each change of state
}

// New returns a Member that does nothing before Start. Handlers are set between New and Start.
func New(o Options) (*Member, error) {
	target := ""
	if o.Local == nil {
		var err error
		if target, err = address(o.URL, o.Version); err != nil {
			return nil, err
		}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.JoinTimeout <= 0 {
		o.JoinTimeout = defaultJoinTimeout
	}
	m := &Member{o: o, log: o.Logger, hub: hubName(&o), instance: rand.Text(), state: Connecting, office: o.Office, since: time.Now(), changed: make(chan struct{})}
	m.ctx, m.cancel = context.WithCancel(context.Background())
	engine := o.Engine
	engine.Header = engine.Header.Clone()
	if engine.Header == nil {
		engine.Header = map[string][]string{}
	}
	if o.Token != "" && o.TokenSource == nil {
		engine.Header.Set("X-Api-Key", o.Token)
	}
	if o.Key != nil {
		engine.Header.Set(a2c.HeaderKey, smcp.EncodeKey(o.Key.Public().(ed25519.PublicKey)))
	}
	m.client = socketio.NewClient(target, socketio.ClientConfig{
		Namespace: cmp.Or(o.Namespace, smcp.Namespace), Engine: engine, Local: o.Local, Backoff: o.Backoff, Logger: o.Logger, MaxConcurrent: o.MaxConcurrent,
		Auth: func(context.Context) (json.RawMessage, error) { return m.auth() },
		OnConnect: func(s *socketio.Socket) {
			m.connected(s)
		},
		OnDisconnect: func(reason socketio.Reason, err error) {
			m.lost(fmt.Errorf("the connection to the hub was lost: %s", reason))
		},
		OnConnectError: func(err error) {
			why := m.explain(err)
			m.lost(why)
			m.refused(err, why)
		},
	})
	return m, nil
}

// address returns the hub's URL with its path, and the version in the query.
func address(raw, version string) (string, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return "", fmt.Errorf("the hub's URL must be a whole one such as https://hub.example, not %q", raw)
	}
	switch u.Scheme {
	case "http", "https", "ws", "wss":
	default:
		return "", fmt.Errorf("the hub's URL must begin with https:// or http://, not %s://", u.Scheme)
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/socket.io/"
	}
	if !strings.HasSuffix(u.Path, "/") {
		u.Path += "/"
	}
	if version != "" {
		if _, err := a2c.ParseVersion(version); err != nil {
			return "", fmt.Errorf("a2c_version: %w", err)
		}
		q := u.Query()
		q.Set(a2c.QueryVersion, version)
		u.RawQuery = q.Encode()
	}
	return u.String(), nil
}

func (m *Member) auth() (json.RawMessage, error) {
	auth := map[string]string{"role": string(m.o.Role)}
	token := m.o.Token
	if m.o.TokenSource != nil {
		var err error
		if token, err = m.o.TokenSource(); err != nil {
			return nil, fmt.Errorf("the token for the hub cannot be read: %w", err)
		}
	}
	if token != "" {
		auth["token"] = token
	}
	if m.o.Key != nil {
		auth["key"] = smcp.EncodeKey(m.o.Key.Public().(ed25519.PublicKey))
	}
	return json.Marshal(auth)
}

// On sets the handler of an event; see socketio.Client.
func (m *Member) On(event string, h socketio.Handler) { m.client.On(event, h) }

// OnConcurrent sets a handler whose calls may overlap; see socketio.Client.
func (m *Member) OnConcurrent(event string, h socketio.Handler) { m.client.OnConcurrent(event, h) }

// OnOther sets the handler of events that have no handler of their own.
func (m *Member) OnOther(h socketio.Handler) { m.client.OnOther(h) }

// Start connects and joins, and returns after the first attempt. After an error the Member can only
// be closed.
func (m *Member) Start(ctx context.Context) error {
	if err := m.client.Connect(ctx); err != nil {
		return m.explain(err)
	}
	return m.wait(ctx, true)
}

// StartInBackground returns at once. The Member connects and joins in the background and retries
// until Close.
func (m *Member) StartInBackground() error { return m.client.Start() }

// Wait waits until the peer is in the office that it wants.
func (m *Member) Wait(ctx context.Context) error { return m.wait(ctx, false) }

func (m *Member) wait(ctx context.Context, once bool) error {
	for {
		m.mu.Lock()
		state, err, changed := m.state, m.err, m.changed
		m.mu.Unlock()
		switch {
		case state == Joined || state == Outside:
			return nil
		case state == Closed:
			return ErrNotConnected
		case once && err != nil:
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			switch {
			case err != nil:
				return err
			case state == Connecting:
				return m.explain(ctx.Err())
			}
			return fmt.Errorf("%s has not answered the join yet: %w", m.hub, ctx.Err())
		}
	}
}

func (m *Member) set(state State, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state == Closed {
		return
	}
	if m.state != state {
		m.since = time.Now()
	}
	m.state, m.err = state, err
	close(m.changed)
	m.changed = make(chan struct{})
}

// connected joins the office on a new connection.
func (m *Member) connected(s *socketio.Socket) {
	m.set(Joining, nil)
	err := m.enter(s)
	if err == nil || !s.Connected() {
		return
	}
	m.set(Joining, err)
	if !m.refused(err, err) {
		m.log.Warn("the hub does not let this peer into the office", "office", m.Office(), "err", err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ctx.Err() != nil {
		return
	}
	m.wg.Go(func() { m.retryJoin(s) })
}

// retryJoin retries the join until the hub accepts it or the connection ends.
func (m *Member) retryJoin(s *socketio.Socket) {
	backoff := socketio.Backoff{Min: minJoinRetry, Max: maxJoinRetry}
	for attempt := 0; ; attempt++ {
		timer := time.NewTimer(backoff.Wait(attempt))
		select {
		case <-timer.C:
		case <-m.ctx.Done():
			timer.Stop()
			return
		case <-s.Context().Done():
			timer.Stop()
			return
		}
		err := m.enter(s)
		if err == nil {
			return
		}
		m.set(Joining, err)
		m.refused(err, err)
	}
}

// enter joins the configured office.
func (m *Member) enter(s *socketio.Socket) error {
	m.joining.Lock()
	defer m.joining.Unlock()
	office := m.Office()
	if office == "" {
		m.set(Outside, nil)
		return nil
	}
	ctx, cancel := context.WithTimeout(m.ctx, m.o.JoinTimeout)
	defer cancel()
	if err := m.join(ctx, s, office); err != nil {
		return err
	}
	m.refusals.end()
	m.log.Info("joined", "office", office, "name", m.o.Name, "role", m.o.Role)
	m.set(Joined, nil)
	if m.o.OnJoined != nil {
		m.o.OnJoined(m.ctx)
	}
	return nil
}

func (m *Member) join(ctx context.Context, s *socketio.Socket, office string) error {
	req := smcp.Join{Role: m.o.Role, Name: m.o.Name, OfficeID: office, MCP: m.o.MCP}
	if m.o.Key != nil {
		if nonce := m.challenge(ctx, s); nonce != "" {
			req.Instance = m.instance
			req.Proof = a2c.Prove(m.o.Key, nonce, s.ID(), m.o.Name, office)
		}
	}
	raw, err := json.Marshal(req)
	if err != nil {
		return err
	}
	ack, err := s.EmitWithAck(ctx, smcp.EventJoin, raw)
	if err != nil {
		return fmt.Errorf("the hub did not answer the join: %w", err)
	}
	if err := readJoin(ack.Args); err != nil {
		return joinRefusal{err}
	}
	return nil
}

// challengeTime is how long to wait for a nonce. A hub without support for keys never answers.
const challengeTime = 3 * time.Second

func (m *Member) challenge(ctx context.Context, s *socketio.Socket) string {
	ctx, cancel := context.WithTimeout(ctx, challengeTime)
	defer cancel()
	ack, err := s.EmitWithAck(ctx, smcp.EventChallenge, json.RawMessage("{}"))
	if err != nil {
		m.log.Debug("the hub asks for no proof of the key", "err", err)
		return ""
	}
	return rawjson.Text(rawjson.Get(ack.Arg(0), "nonce"))
}

// readJoin reads the ack of a join or leave in every dialect.
func readJoin(args []json.RawMessage) error {
	if len(args) == 0 {
		return nil
	}
	first := a2c.Unwrap(args[0])
	switch {
	case string(first) == "true" || string(first) == "null":
		return nil
	case string(first) == "false":
		if len(args) > 1 && string(args[1]) != "null" {
			return errors.New(rawjson.Text(args[1]))
		}
		return errors.New("the hub refused without a reason")
	case rawjson.IsArray(first):
		var inner []json.RawMessage
		if err := json.Unmarshal(first, &inner); err != nil {
			return err
		}
		return readJoin(inner)
	}
	if e := a2c.ReadError(first); e != nil {
		return e
	}
	return fmt.Errorf("the hub answered what is no answer to a join: %.100s", first)
}

func (m *Member) lost(err error) {
	m.mu.Lock()
	again := m.err != nil && err != nil && m.err.Error() == err.Error()
	m.mu.Unlock()
	m.set(Connecting, err)
	level := slog.LevelInfo
	if again {
		level = slog.LevelDebug // an unreachable hub has been logged once already
	}
	m.log.Log(m.ctx, level, "not in the office", "office", m.Office(), "err", err)
	if m.o.OnLost != nil {
		m.o.OnLost(err)
	}
}

// Name returns the peer's name.
func (m *Member) Name() string { return m.o.Name }

// Office returns the office that the peer is in, or tries to join.
func (m *Member) Office() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.office
}

// Status returns the state, the time of its last change, and the last error.
func (m *Member) Status() (State, time.Time, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state, m.since, m.err
}

// SID returns the Socket.IO id of the current connection, or "" without one.
func (m *Member) SID() string {
	if s := m.client.Socket(); s != nil {
		return s.ID()
	}
	return ""
}

// Join moves the peer to another office. An Agent leaves the current office first.
func (m *Member) Join(ctx context.Context, office string) error {
	m.joining.Lock()
	defer m.joining.Unlock()
	s := m.client.Socket()
	if s == nil {
		return ErrNotConnected
	}
	if err := m.join(ctx, s, office); err != nil {
		return err
	}
	m.mu.Lock()
	m.office = office
	m.mu.Unlock()
	m.set(Joined, nil)
	if m.o.OnJoined != nil {
		m.o.OnJoined(m.ctx)
	}
	return nil
}

// Leave leaves the office.
func (m *Member) Leave(ctx context.Context) error {
	m.joining.Lock()
	defer m.joining.Unlock()
	s := m.client.Socket()
	if s == nil {
		return ErrNotConnected
	}
	office := m.Office()
	if office == "" {
		return nil
	}
	raw, err := json.Marshal(smcp.Leave{OfficeID: office})
	if err != nil {
		return err
	}
	ack, err := s.EmitWithAck(ctx, smcp.EventLeave, raw)
	if err == nil {
		err = readJoin(ack.Args)
	}
	if err != nil {
		return err
	}
	m.mu.Lock()
	m.office = ""
	m.mu.Unlock()
	m.set(Outside, nil)
	return nil
}

// Call emits an event and returns the first value of its ack. If the ack is a protocol error, Call
// returns it as an *smcp.Error.
func (m *Member) Call(ctx context.Context, event string, payload any) (json.RawMessage, error) {
	raw, err := smcp.Encode(payload)
	if err != nil {
		return nil, err
	}
	return m.CallRaw(ctx, event, raw)
}

// CallRaw is Call with a payload that is JSON already.
func (m *Member) CallRaw(ctx context.Context, event string, raw json.RawMessage) (json.RawMessage, error) {
	s := m.client.Socket()
	if s == nil {
		return nil, ErrNotConnected
	}
	ack, err := s.EmitWithAck(ctx, event, raw)
	switch {
	case errors.Is(err, socketio.ErrDisconnected):
		return nil, ErrNotConnected
	case err != nil:
		return nil, err
	}
	out := a2c.Unwrap(ack.Arg(0))
	if e := a2c.ReadError(out); e != nil {
		return nil, e
	}
	return out, nil
}

// Emit sends an event that needs no ack. A payload that is a json.RawMessage belongs to the connection from then on.
func (m *Member) Emit(event string, payload any) error {
	raw, encoded := payload.(json.RawMessage)
	if !encoded {
		var err error
		if raw, err = smcp.Encode(payload); err != nil {
			return err
		}
	}
	if err := m.client.EmitPayload(event, socketio.Payload{Args: []json.RawMessage{raw}, Handed: true}); errors.Is(err, socketio.ErrDisconnected) {
		return ErrNotConnected
	} else if err != nil {
		return err
	}
	return nil
}

// Close disconnects and waits until all goroutines of the Member have ended. Handlers must not call
// it.
func (m *Member) Close() error {
	m.set(Closed, nil)
	m.mu.Lock()
	m.cancel()
	m.mu.Unlock()
	err := m.client.Close()
	m.wg.Wait()
	return err
}
