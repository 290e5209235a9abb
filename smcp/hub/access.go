package hub

import (
	"errors"
	"fmt"

	"github.com/weir-mcp/weir/smcp"
	"github.com/weir-mcp/weir/socketio"
)

// access holds the rules of who may connect, and under which names.
type access struct {
	auth    Authenticator
	devices []Device
}

// SetAccess replaces Options.Auth and Options.Devices. A connected peer stays only if the new rules
// admit it in its present role and office. A peer whose token or key was removed is disconnected,
// calls to it are answered, and its reconnect is refused. When SetAccess returns, all such peers have
// been disconnected. It is safe for concurrent use.
func (h *Hub) SetAccess(auth Authenticator, devices []Device) {
	h.changing.Lock()
	defer h.changing.Unlock()
	if auth == nil {
		auth = Static{Devices: devices}
	}
	h.mu.Lock()
	h.access = &access{auth, devices}
	h.mu.Unlock()
	// A peer that connects after this is checked when it connects.
	for _, s := range h.ns.To().Sockets() {
		if peer, ok := s.Value().(*session); ok {
			h.check(peer)
		}
	}
}

// credentials returns the credentials that a peer sent when it connected.
func credentials(s *socketio.Socket) Credentials {
	return Credentials{Header: s.Handshake().Header(), Auth: s.Auth(), RemoteAddr: s.Handshake().RemoteAddr}
}

// check updates the grant of a connection, and ends the connection if the new grant does not allow
// its office.
func (h *Hub) check(s *session) {
	if s.own {
		return
	}
	var refused error
	h.mu.Lock()
	for s.access != h.access {
		now := h.access
		h.mu.Unlock()
		grant, err := now.auth.Authenticate(s.socket.Context(), credentials(s.socket))
		h.mu.Lock()
		if now != h.access {
			continue
		}
		s.access = now
		if err == nil {
			s.grant = grant
			err = h.mayStay(s)
		}
		if err == nil && !grant.NeedsProof {
			err = s.socket.Admit()
		}
		refused = err
	}
	name, principal := s.name, s.grant.Principal
	h.mu.Unlock()
	if refused != nil {
		h.log.Info("a peer was put out: who may connect has changed", "name", name, "principal", principal, "remote", s.socket.Handshake().RemoteAddr, "reason", refused)
		s.socket.Close()
	}
}

// mayStay checks a session against its new grant. The caller holds mu.
func (h *Hub) mayStay(s *session) error {
	if s.grant.NeedsProof && s.key == nil && s.proof == nil {
		return errors.New("its token is gone, and it has not proven its key")
	}
	if s.office == nil {
		return nil // the next join is checked
	}
	if !s.grant.Allows(s.role, s.office.id) {
		return fmt.Errorf("office %q is not open to it as %s any more", s.office.id, s.role)
	}
	d := device(h.access.devices, s.name)
	switch {
	case s.role != smcp.RoleComputer:
		return nil
	case d == nil && s.grant.NeedsProof:
		return fmt.Errorf("no key is known for a Computer with name %q any more", s.name)
	case d != nil && !s.key.Equal(d.Key):
		return fmt.Errorf("the name %q is bound to a key that it has not proven", s.name)
	case d != nil && !officeIn(d.Offices, s.office.id):
		return fmt.Errorf("office %q is not open to %q any more", s.office.id, s.name)
	case d == nil && similarDevice(h.access.devices, s.name) != nil:
		return notATwin(h.access.devices, s.name)
	}
	return h.claim(s, s.role, s.name, s.office.id)
}
