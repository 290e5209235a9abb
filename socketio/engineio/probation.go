package engineio

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
)

// Default values of Probation.
const (
	defaultProbationMessage    = 16 << 10
	defaultProbationSessions   = 1024
	DefaultProbationPerAddress = 64

	probationQueueBytes  = 64 << 10
	probationQueueFrames = 64
	probationPosts       = 1
)

// ErrTooManySessions is returned by Session.Admit if Config.MaxSessions sessions are admitted.
var ErrTooManySessions = errors.New("engineio: too many sessions")

// Probation bounds the cost of clients that the application does not know yet. A session starts on
// probation and leaves it with Session.Admit. Until then it counts in a separate pool, in total and
// per address, and not in MaxSessions. Its messages must be small, it may send one POST at a time,
// and its queue is short. Each field may be zero.
//
// A session stays on probation until it is admitted or ends. The application must end sessions that
// take too long.
type Probation struct {
	MaxMessage    int // bytes of one POST or one WebSocket message; 0: 16 KiB
	MaxSessions   int // on probation at the same time; further handshakes get 503; 0: 1024
	MaxPerAddress int // the same for one address; 0: 64

	// Address returns the address against which a handshake counts. If it is nil, this is the IP
	// address of the connection, or the /64 of an IPv6 address.
	Address func(*Handshake) string
	// Exempt reports whether the handshake admits the session at once, because Authenticate knows
	// the client. If it is nil, no session is exempt. It may be called concurrently.
	Exempt func(*Handshake) bool
}

func (p *Probation) withDefaults() *Probation {
	if p == nil {
		return nil
	}
	out := *p
	out.MaxMessage = or(out.MaxMessage, defaultProbationMessage)
	out.MaxSessions = or(out.MaxSessions, defaultProbationSessions)
	out.MaxPerAddress = or(out.MaxPerAddress, DefaultProbationPerAddress)
	if out.Address == nil {
		out.Address = func(h *Handshake) string { return AddressOf(h.RemoteAddr) }
	}
	return &out
}

// AddressOf returns the network of a host, or of a host and port: the IPv4 address, or the /64 of
// an IPv6 address, which belongs to one subscriber. It returns any other text unchanged.
func AddressOf(hostport string) string {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	if ip = ip.Unmap().WithZone(""); ip.Is6() && !ip.IsLoopback() {
		if prefix, err := ip.Prefix(64); err == nil {
			return prefix.String()
		}
	}
	return ip.String()
}

// newcomers counts the sessions on probation. The caller holds Server.mu.
type newcomers struct {
	all     int
	address map[string]int
}

// enter counts a session, or returns the message that refuses it.
func (n *newcomers) enter(p *Probation, address string) (refusal string) {
	switch {
	case n.address[address] >= p.MaxPerAddress:
		return "Too many sessions of this address that have not shown who they are"
	case n.all >= p.MaxSessions:
		return "Too many sessions that have not shown who they are"
	}
	if n.address == nil {
		n.address = map[string]int{}
	}
	n.all++
	n.address[address]++
	return ""
}

func (n *newcomers) leave(address string) {
	n.all--
	if n.address[address]--; n.address[address] == 0 {
		delete(n.address, address)
	}
}

// Admit ends the probation of a server's session: the bounds of Config apply from now on. It
// returns ErrTooManySessions if Config.MaxSessions sessions are admitted, and ErrClosed if the
// session has ended. It does nothing to a session that is not on probation.
func (s *Session) Admit() error {
	if !s.probation.Load() {
		return nil
	}
	return s.env.admit(s)
}

// OnProbation reports whether the session waits for Admit.
func (s *Session) OnProbation() bool { return s.probation.Load() }

func (s *Server) admit(session *Session) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !session.probation.Load():
		return nil
	case s.sessions[session.id] != session || !session.isOpen():
		return ErrClosed
	case len(s.sessions)-s.newcomers.all >= s.config.MaxSessions:
		return ErrTooManySessions
	}
	s.newcomers.leave(session.address)
	session.probation.Store(false)
	return nil
}

// Newcomers returns the number of sessions on probation.
func (s *Server) Newcomers() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.newcomers.all
}

// maxMessage returns the message limit of the session; limit applies once it is admitted.
func (s *Session) maxMessage(limit int) int {
	if s.probation.Load() {
		return min(limit, s.env.probation.MaxMessage)
	}
	return limit
}

// tooLong returns the error text for a message of more than limit bytes.
func (s *Session) tooLong(limit int) string {
	text := fmt.Sprintf("a message of more than %d bytes", limit)
	if s.probation.Load() {
		text += " before CONNECT was accepted"
	}
	return text
}

// queueFull reports whether frames of size bytes have no room in the queue.
func (s *Session) queueFull(frames, size int) bool {
	mostBytes, mostFrames := s.env.queueBytes, s.env.queueFrames
	if s.probation.Load() {
		mostBytes, mostFrames = min(mostBytes, probationQueueBytes), min(mostFrames, probationQueueFrames)
	}
	return s.queue.bytes+size > mostBytes || s.queue.frames+frames > mostFrames
}

// maxPosts returns how many POSTs are read at the same time.
func (p *polling) maxPosts() int {
	if p.session.probation.Load() {
		return probationPosts
	}
	return maxPosts
}

// refuseLong answers a POST that exceeds the limit.
func (p *polling) refuseLong(w http.ResponseWriter, limit int) {
	w.Header().Set("Connection", "close") // the rest of the body is not read
	writeJSON(w, http.StatusRequestEntityTooLarge, refusalBody(codeBadRequest, p.session.tooLong(limit)))
}
