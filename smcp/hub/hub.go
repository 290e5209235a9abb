package hub

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/internal/office/a2c"
	"github.com/weir-mcp/weir/internal/office/roster"
	"github.com/weir-mcp/weir/smcp"
	"github.com/weir-mcp/weir/socketio"
	"github.com/weir-mcp/weir/socketio/engineio"
)

// Default values of Options.
const (
	defaultCallTimeout      = 30 * time.Second
	defaultMaxCallTimeout   = time.Hour
	defaultMaxCalls         = 256
	DefaultMaxOfficeCalls   = 1024
	defaultMaxComputers     = 256
	defaultMaxOffices       = 10_000
	defaultMaxPayload       = 16 << 20
	defaultMaxConnections   = 20_000
	defaultConnectTimeout   = 5 * time.Second // from the HTTP handshake to the CONNECT
	defaultToolCallSlack    = time.Second
	proofTime               = 20 * time.Second // from the CONNECT with a key to its proof
	maxNameBytes            = 256
	maxReqIDBytes           = 256
	maxVersionBytes         = 64 // bytes of an a2c_version that is sent to other peers
	maxQueueBytes           = 64 << 20
	maxMessagesPerSession   = 512
	officePrefix            = "office:" // prefix of internal rooms, which no peer can join by its id
	versionless, versioned_ = "/0", "/1"
)

// Options configure a Hub. The zero value admits all peers on this machine.
type Options struct {
	// Auth decides who may connect; nil is Static with the Devices.
	Auth Authenticator
	// Devices bind names of Computers to keys. SetAccess replaces both.
	Devices []Device
	// Claim decides whether a Computer may use its name; its error says who owns the name. The Hub
	// calls it under a lock for each join and after SetAccess. Claim must be quick and must not call
	// the Hub. A nil Claim allows all names.
	Claim func(c Claimant) error
	// Namespace is the Socket.IO namespace; "" is smcp.Namespace.
	Namespace string
	// StrictVersion refuses peers that announce no version.
	StrictVersion bool
	// CORS names the web pages of other origins that may connect; nil: none.
	CORS *engineio.CORS

	CallTimeout    time.Duration // of client:* events other than tool_call: 30 s
	MaxCallTimeout time.Duration // most that a tool_call may ask for: 1 h
	MaxCalls       int           // of one Agent in flight: 256
	MaxOfficeCalls int           // of one office in flight: 1024
	MaxComputers   int           // of one office: 256
	MaxOffices     int           // 10,000
	MaxPayload     int           // bytes of one message: 16 MiB
	MaxConnections int           // admitted peers: 20,000. Others count in a small pool, see engineio.Probation

	PingInterval, PingTimeout time.Duration // as in engineio

	Memory *memory.Account // counts incoming messages; nil: not counted
	// Trace starts a span for a call of a tool. It returns the payload to pass on and end, which the
	// Hub calls once with the result, or with the code of the error that is the answer. end is nil if
	// the call has no span. Trace is called concurrently; nil: there are no spans.
	Trace func(computer, tool string, payload json.RawMessage) (carried json.RawMessage, end func(result json.RawMessage, failure string))
	// Shared makes this hub one of several that have the same offices; nil: the offices are its own.
	Shared *roster.Shared

	Logger *slog.Logger // nil discards
}

func orDefault[T int | time.Duration](v *T, def T) {
	if *v <= 0 {
		*v = def
	}
}

// Hub is the Server of A2C-SMCP. It is an http.Handler for both /socket.io/ and /smcp/. Shutdown
// stops it. All methods are safe for concurrent use.
type Hub struct {
	o      Options
	log    *slog.Logger
	server *socketio.Server
	ns     *socketio.Namespace

	changing sync.Mutex // held by SetAccess; acquired before mu
	linking  sync.Mutex // guards linked; acquired before mu
	linked   bool       // other hubs are heard

	mu      sync.Mutex // guards below and the sessions' office state
	access  *access
	offices map[string]*office
	named   map[string]int // number of Computers with a name, in all offices
	joins   uint64
	cluster cluster // with other hubs; empty without Options.Shared
}

// office is a room. It exists while it has members.
type office struct {
	// ID may be read without Hub.mu: no revision replaces it, unlike the ID of the Office.
	ID string
	roster.Office
	calls  int    // in flight, of Agents here
	shared shared // with other hubs; empty without Options.Shared
}

// New returns a Hub.
func New(o Options) *Hub {
	if o.Auth == nil {
		o.Auth = Static{Devices: o.Devices}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	orDefault(&o.CallTimeout, defaultCallTimeout)
	orDefault(&o.MaxCallTimeout, defaultMaxCallTimeout)
	orDefault(&o.MaxCalls, defaultMaxCalls)
	orDefault(&o.MaxOfficeCalls, DefaultMaxOfficeCalls)
	orDefault(&o.MaxComputers, defaultMaxComputers)
	orDefault(&o.MaxOffices, defaultMaxOffices)
	orDefault(&o.MaxPayload, defaultMaxPayload)
	orDefault(&o.MaxConnections, defaultMaxConnections)
	h := &Hub{o: o, log: o.Logger, offices: map[string]*office{}, named: map[string]int{}}
	h.access = &access{o.Auth, o.Devices}
	h.cluster.init()
	var newID func() string
	if o.Shared != nil { // any node takes requests of a connection, and its id names the node that has it
		newID = func() string { return o.Shared.Inc() + "-" + rand.Text() }
	}
	immediate := []string{smcp.EventToolCall}
	if o.Shared != nil {
		// Another hub's Computer is asked over the store's bus, which may take its time over a large call.
		immediate = nil
	}
	h.server = socketio.NewServer(socketio.Config{
		Engine: engineio.Config{
			NewID:        newID,
			Authenticate: h.checkHandshake, CORS: o.CORS, MaxPayload: o.MaxPayload, MaxSessions: o.MaxConnections, MaxQueueBytes: maxQueueBytes,
			PingInterval: o.PingInterval, PingTimeout: o.PingTimeout, Memory: o.Memory, Probation: &engineio.Probation{Address: addressOf, Exempt: known},
		},
		ConnectTimeout: defaultConnectTimeout, MaxPending: maxMessagesPerSession, MaxAcks: 2 * o.MaxOfficeCalls, Immediate: immediate, Logger: o.Logger,
	})
	h.server.Of("/").Use(func(context.Context, *socketio.Socket) error {
		return &socketio.ConnectError{Message: "Invalid namespace"}
	})
	h.ns = h.server.Of(cmp.Or(o.Namespace, smcp.Namespace))
	h.ns.Use(h.admit)
	h.ns.OnConnect(func(s *socketio.Socket) {
		if peer, ok := s.Value().(*session); ok {
			checks{h}.entered(s.Context(), peer)
		}
	})
	h.ns.OnDisconnect(h.gone)
	h.ns.On(smcp.EventJoin, h.answering(h.join))
	h.ns.On(smcp.EventLeave, h.answering(h.leave))
	h.ns.On(smcp.EventListRoom, h.answering(h.listRoom))
	h.ns.On(smcp.EventCancel, h.answering(h.cancel))
	h.ns.On(smcp.EventChallenge, h.answering(h.challenge))
	h.ns.On(smcp.EventServerMCP, h.answering(h.message))
	h.ns.On(smcp.EventToolCall, h.route) // the most frequent of the events in other
	h.ns.OnOther(h.other)
	return h
}

// ServeHTTP implements http.Handler.
func (h *Hub) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.server.ServeHTTP(w, r) }

// Shutdown disconnects all peers and waits until everything has ended, or until ctx ends.
func (h *Hub) Shutdown(ctx context.Context) error {
	fabric{h}.spread(ctx)
	err := h.server.Shutdown(ctx)
	if h.o.Shared != nil {
		h.o.Shared.Flush(ctx)
		h.o.Shared.Close()
		fabric{h}.end()
	}
	return err
}

// admit handles the CONNECT of a peer. The text of its error does not reach the peer.
func (h *Hub) admit(ctx context.Context, s *socketio.Socket) error {
	shake, ok := s.Handshake().Value.(handshake)
	if !ok {
		return errors.New("no handshake")
	}
	h.mu.Lock()
	access := h.access
	h.mu.Unlock()
	grant := Grant{Principal: "this process"}
	if !shake.trusted {
		var err error
		if grant, err = access.auth.Authenticate(ctx, credentials(s)); err != nil {
			h.log.Info("a peer was refused", "remote", s.Handshake().RemoteAddr, "reason", err)
			return connectError(err)
		}
	}
	peer := &session{socket: s, sid: s.ID(), grant: grant, access: access, version: shake.version, said: shake.said, own: shake.trusted, dialect: shake.version.Dialect()}
	if grant.NeedsProof {
		h.mu.Lock()
		peer.proof = time.AfterFunc(proofTime, func() { h.unproven(peer) })
		h.mu.Unlock()
	}
	if !grant.NeedsProof {
		if err := s.Admit(); err != nil {
			h.log.Warn("a peer finds no room; raise hub.max_peers", "remote", s.Handshake().RemoteAddr, "err", err)
			return &socketio.ConnectError{Message: "Too many peers are connected to this hub"}
		}
	}
	s.SetValue(peer)
	return nil
}

// unproven ends a connection that named a key and did not prove it in time. Keys are public, so
// anyone could otherwise hold connections in their name.
func (h *Hub) unproven(s *session) {
	h.mu.Lock()
	may := s.key != nil || !s.grant.NeedsProof
	h.mu.Unlock()
	if !may {
		h.log.Info("a peer was put out: it did not prove its key", "remote", s.socket.Handshake().RemoteAddr)
		s.socket.Close()
	}
}

// other handles events without a handler of their own: calls, updates and unknown events.
func (h *Hub) other(e *socketio.Event) {
	switch {
	case strings.HasPrefix(e.Name, "client:"):
		h.route(e)
	case strings.HasPrefix(e.Name, "server:update_"):
		h.answering(h.update)(e)
	case e.WantsAck():
		s := sessionOf(e)
		h.ack(e, s.noteDialect(h, e.Name, e.Arg(0)).Failed(a2c.ErrPayload.With("event", clip(e.Name))))
	}
}

func clip(s string) string {
	if len(s) > 128 {
		return strings.ToValidUTF8(s[:128], "") + "…"
	}
	return s
}

// Member describes a member of an office for an operator.
type Member struct {
	Office    string    `json:"office"`
	Name      string    `json:"name"`
	Role      smcp.Role `json:"role"`
	Dialect   string    `json:"dialect"`
	Principal string    `json:"principal"`
	Remote    string    `json:"remote"`
	Transport string    `json:"transport"`
	Since     time.Time `json:"since"`
	InFlight  int       `json:"in_flight"`
	Proven    bool      `json:"proven,omitempty"` // a Computer that has proven its key
	// Node is the node of the cluster that has the connection, "*" for the gateway, which is at all of
	// them. Of members at other nodes, Remote, Transport, Since and InFlight are empty.
	Node string `json:"node,omitempty"`
}

// Members returns all members of all offices, by office, role and name.
func (h *Hub) Members() []Member {
	h.mu.Lock()
	var out []Member
	for _, o := range h.offices {
		o.Members(func(m *roster.Member) {
			if s := local(m); s != nil {
				out = append(out, s.member(o.ID))
				return
			}
			out = append(out, Member{Office: o.ID, Name: m.Name, Role: smcp.Role(m.Role), Dialect: a2c.Dialect(m.Dialect).String(), Principal: m.Principal, Node: m.Node, Proven: m.Key != ""})
		})
	}
	h.mu.Unlock()
	slices.SortFunc(out, func(a, b Member) int {
		if c := strings.Compare(a.Office, b.Office); c != 0 {
			return c
		}
		if c := strings.Compare(string(a.Role), string(b.Role)); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	return out
}

// Connections returns the number of connections, in an office or not.
func (h *Hub) Connections() int { return h.server.Connections() }
