package engineio

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
)

// Defaults of Probation.
const (
	defaultProbationMessage    = 16 << 10
	defaultProbationSessions   = 1024
	DefaultProbationPerAddress = 64

	probationQueueBytes  = 64 << 10
	probationQueueFrames = 64
	probationPosts       = 1
)

// ErrTooManySessions is returned by Session.Admit when Config.MaxSessions are admitted.
var ErrTooManySessions = errors.New("engineio: too many sessions")

// Probation bounds what clients cost before the application knows who they are. A session begins on probation and leaves it
// with Session.Admit. Until then it counts in a pool of its own, of its address and of all, and not among MaxSessions; its
// messages are small, one POST at a time is read, and little is queued for it. The zero value of each field is ready for use.
//
// A session stays on probation until it is admitted or ends: the application ends those that take too long.
type Probation struct {
	MaxMessage    int // bytes of one POST or one WebSocket message; 0: 16 KiB
	MaxSessions   int // on probation at the same time; further handshakes get 503; 0: 1024
	MaxPerAddress int // the same for one address; 0: 64

	// Address names what a handshake counts against. nil: the IP address of the connection, of IPv6 its /64.
	Address func(*Handshake) string
	// Exempt reports whether the session is admitted with its handshake, because Authenticate knows the client. nil: none is.
	// It may be called concurrently.
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

// AddressOf names the network that a host, or host and port, is in: the IPv4 address, or the /64 of an IPv6 address, which is
// what one subscriber has. Anything else is returned as it is.
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

// newcomers counts the sessions on probation. Its methods are called under Server.mu.
type newcomers struct {
	all     int
	address map[string]int
}

// enter counts a session in, or returns the message for the client that is not.
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

// Admit ends the probation of a server's session: from now on it has the bounds of Config. It returns ErrTooManySessions where
// Config.MaxSessions are admitted already, and ErrClosed where the session has ended. A session that is not on probation is
// left as it is.
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

// Newcomers is the number of sessions on probation.
func (s *Server) Newcomers() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.newcomers.all
}

// maxMessage is how many bytes the session takes at once, of limit where it is admitted.
func (s *Session) maxMessage(limit int) int {
	if s.probation.Load() {
		return min(limit, s.env.probation.MaxMessage)
	}
	return limit
}

// tooLong says what is wrong with a message of more than limit bytes.
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

// maxPosts is how many POSTs are read at the same time.
func (p *polling) maxPosts() int {
	if p.session.probation.Load() {
		return probationPosts
	}
	return maxPosts
}

// refuseLong answers a POST that is over the bound.
func (p *polling) refuseLong(w http.ResponseWriter, limit int) {
	w.Header().Set("Connection", "close") // The rest of the body is not worth reading.
	writeJSON(w, http.StatusRequestEntityTooLarge, refusalBody(codeBadRequest, p.session.tooLong(limit)))
}
